#include "outgoing.h"

#include "icrc.h"

#include <string.h>

#define DONT_FRAGMENT 0x4000
#define TTL 64

bool outgoing_address(struct outgoing *outgoing, struct socket *socket, uint32_t target_ip, uint16_t source_port, uint8_t tos)
{
    const struct fabric_port *own = socket->stack->port;
    const uint8_t *target = addresses_find(&own->fabric->addresses, target_ip);
    uint8_t *ip = outgoing->headers + ETHERNET_BYTES, *udp = ip + IPV4_BYTES;
    if (!target)
        return false;
    *outgoing = (struct outgoing){.fabric = own->fabric, .socket = socket};
    memcpy(outgoing->headers, target, sizeof own->mac);
    memcpy(outgoing->headers + sizeof own->mac, own->mac, sizeof own->mac);
    store16(outgoing->headers + 12, ETHERTYPE_IPV4);
    ip[0] = 0x45;
    ip[1] = tos;
    store16(ip + 6, DONT_FRAGMENT);
    ip[8] = TTL;
    ip[9] = PROTOCOL_UDP;
    store32(ip + 12, own->ip);
    store32(ip + IPV4_TARGET_AT, target_ip);
    store16(udp, source_port);
    store16(udp + 2, socket->udp_port);
    outgoing->sum = checksum_add(0, ip, IPV4_BYTES);
    return true;
}

/* A word as sums have it. */
static uint16_t summed(uint16_t word)
{
    uint8_t bytes[2];
    store16(bytes, word);
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* A packet whose frame is to have `bytes`, of which `here` lie there; NULL: no memory. */
static struct packet *new_packet(struct outgoing *outgoing, size_t index, size_t here, size_t bytes)
{
    struct packet *packet = packet_new(&outgoing->fabric->pool, here);
    if (!packet)
        return NULL;
    uint8_t *ip = packet->frame + ETHERNET_BYTES, *udp = ip + IPV4_BYTES;
    uint16_t length = (uint16_t)(bytes - ETHERNET_BYTES), id = (uint16_t)index;
    memcpy(packet->frame, outgoing->headers, HEADERS_BYTES);
    store16(ip + 2, length);
    store16(ip + 4, id);
    checksum_store(ip + 10, (uint16_t)~checksum_fold(outgoing->sum + summed(length) + summed(id)));
    store16(udp + 4, (uint16_t)(length - IPV4_BYTES));
    packet->length = (uint32_t)bytes;
    packet->layout = (struct frame_layout){
        ETHERNET_BYTES, ETHERNET_BYTES + IPV4_BYTES, HEADERS_BYTES, (uint32_t)bytes, PROTOCOL_UDP,
    };
    if (!outgoing->classified) {
        fabric_classify(outgoing->fabric, packet);
        outgoing->flags = packet->flags;
        outgoing->classified = true;
    }
    packet->flags = outgoing->flags;
    return packet;
}

struct packet *outgoing_roce(struct outgoing *outgoing, size_t index, struct outgoing_segment segment, struct payload *payload)
{
    size_t made = (-segment.size & 3) + ICRC_BYTES, here = HEADERS_BYTES + segment.header_bytes;
    struct packet *packet = new_packet(outgoing, index, here, here + segment.size + made);
    if (!packet)
        return NULL;
    memcpy(packet->frame + HEADERS_BYTES, segment.header, segment.header_bytes);
    packet->flags |= PACKET_SPLIT;
    packet->here = (uint32_t)here;
    packet->rest = segment.bytes;
    packet->rest_bytes = (uint32_t)segment.size;
    packet->made_bytes = (uint16_t)made;
    packet->payload = payload;
    payload->references++;
    return packet;
}

struct packet *outgoing_plain(struct outgoing *outgoing, size_t index, struct outgoing_segment segment)
{
    size_t length = HEADERS_BYTES + segment.header_bytes + segment.size;
    struct packet *packet = new_packet(outgoing, index, length, length);
    if (!packet)
        return NULL;
    memcpy(packet->frame + HEADERS_BYTES, segment.header, segment.header_bytes);
    if (segment.size)
        memcpy(packet->frame + HEADERS_BYTES + segment.header_bytes, segment.bytes, segment.size);
    frame_seal_transport(packet->frame, &packet->layout, (struct frame_tail){0});
    return packet;
}
