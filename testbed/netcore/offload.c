#include "offload.h"

#include <string.h>

#define VIRTIO_NEEDS_CHECKSUM 1
#define VIRTIO_SEGMENTS_TCP 1
#define VIRTIO_SEGMENTS_TCP6 4
#define VIRTIO_SEGMENTS_UDP 5 /* of both families */
#define VIRTIO_SEGMENTS_ECN 0x80 /* beside TCP's: CWR is set */
#define VIRTIO_SEGMENTS_NONE 0

#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_ACK 0x10
#define TCP_CWR 0x80
#define IPV4_PACKET_MAX 65535
#define DONT_FRAGMENT 0x40
#define ETHERTYPE_IPV6 0x86dd
#define IPV6_BYTES 40
#define PARSED_BYTES 64 /* of payload, which a switch program may take for headers of its own: an even number */
#define SHARED_BYTES 8192       /* of payload from which on packets share it: an intake is large */
#define SHARED_SEGMENT_BYTES 256 /* less is copied as fast */

/* --- cutting ------------------------------------------------------------------------------------------------------- */

/* Finish the checksum of a frame whose kernel left it to the device: the field holds the pseudo header's sum. */
static bool finish_checksum(const struct virtio_header *header, uint8_t *frame, size_t length)
{
    size_t start = header->checksum_start, field = start + header->checksum_offset;
    if (start < ETHERNET_BYTES || start >= length || field + 2 > length)
        return false;
    uint16_t checksum = (uint16_t)~checksum_fold(checksum_add(0, frame + start, length - start));
    checksum_store(frame + field, checksum ? checksum : 0xffff);
    return true;
}

static struct packet *new_packet(struct packet_pool *pool, const uint8_t *frame, size_t length)
{
    struct packet *packet = packet_new(pool, length);
    if (packet) {
        memcpy(packet->frame, frame, length);
        packet->layout = frame_parse(packet->frame, length);
    }
    return packet;
}

static void free_list(struct packet_pool *pool, struct packet_list *list)
{
    for (struct packet *packet; (packet = packet_take(list));)
        packet_free(pool, packet);
}

/* The headers of a super-packet, of no payload where it is none. IPv6's transport begins where its checksum does, behind
 * what extension headers there are. */
static struct frame_layout super_packet(const struct virtio_header *header, const uint8_t *frame, size_t length)
{
    uint8_t kind = header->segmentation & ~VIRTIO_SEGMENTS_ECN;
    struct frame_layout layout = frame_parse(frame, length), none = {0};
    if (kind == VIRTIO_SEGMENTS_TCP || (kind == VIRTIO_SEGMENTS_UDP && layout.network))
        return layout.protocol == (kind == VIRTIO_SEGMENTS_TCP ? PROTOCOL_TCP : PROTOCOL_UDP) ? layout : none;
    if ((kind != VIRTIO_SEGMENTS_TCP6 && kind != VIRTIO_SEGMENTS_UDP) || length < ETHERNET_BYTES + IPV6_BYTES ||
        load16(frame + 12) != ETHERTYPE_IPV6 || frame[ETHERNET_BYTES] >> 4 != 6)
        return none;
    layout = (struct frame_layout){
        .network = ETHERNET_BYTES,
        .transport = header->checksum_start,
        .end = ETHERNET_BYTES + IPV6_BYTES + load16(frame + ETHERNET_BYTES + 4),
        .protocol = kind == VIRTIO_SEGMENTS_UDP ? PROTOCOL_UDP : PROTOCOL_TCP,
    };
    uint32_t fixed = layout.protocol == PROTOCOL_UDP ? UDP_BYTES : TCP_BYTES;
    if (layout.transport < ETHERNET_BYTES + IPV6_BYTES || layout.transport + fixed > layout.end || layout.end > length)
        return none;
    uint32_t bytes = layout.protocol == PROTOCOL_UDP ? UDP_BYTES : (frame[layout.transport + 12] >> 4) * 4u;
    layout.payload = layout.transport + bytes;
    return bytes >= fixed && layout.payload <= layout.end ? layout : none;
}

static bool is_ipv6(const uint8_t *frame, const struct frame_layout *layout)
{
    return frame[layout->network] >> 4 == 6;
}

/* RFC 8200, 8.1. */
static void seal_over_ipv6(uint8_t *frame, const struct frame_layout *layout)
{
    uint8_t *field = frame + layout->transport + (layout->protocol == PROTOCOL_UDP ? UDP_CHECKSUM_AT : TCP_CHECKSUM_AT);
    uint8_t tail[8] = {[7] = layout->protocol};
    uint32_t length = layout->end - layout->transport;
    store16(field, 0);
    store32(tail, length);
    uint64_t sum = checksum_add(0, frame + layout->network + 8, 32);
    sum = checksum_add(checksum_add(sum, tail, sizeof tail), frame + layout->transport, length);
    uint16_t checksum = (uint16_t)~checksum_fold(sum);
    checksum_store(field, checksum ? checksum : 0xffff);
}

/* What the packets that are cut from one super-packet have in common. With an intake they are split. Sums are without the words in which they differ. */
struct cutting {
    const uint8_t *frame;
    struct intake *intake;
    struct frame_layout layout;
    bool six;
    uint64_t network_sum;   /* of IPv4 */
    uint64_t transport_sum; /* of UDP over IPv4, with its pseudo header */
};

/* A word as sums have it, and what takes one out of a sum that it is in. */
static uint16_t summed(uint16_t word)
{
    uint8_t bytes[2];
    store16(bytes, word);
    memcpy(&word, bytes, 2);
    return word;
}

static uint16_t without(const uint8_t *at)
{
    return (uint16_t)~summed(load16(at));
}

static struct cutting cutting_of(const uint8_t *frame, const struct frame_layout *layout)
{
    const uint8_t *ip = frame + layout->network, *transport = frame + layout->transport;
    struct cutting cutting = {.frame = frame, .layout = *layout, .six = is_ipv6(frame, layout)};
    if (cutting.six)
        return cutting;
    cutting.network_sum = checksum_add(0, ip, layout->transport - layout->network) + without(ip + 2) + without(ip + 4) +
                          without(ip + 10);
    if (layout->protocol == PROTOCOL_UDP)
        cutting.transport_sum = checksum_add(checksum_pseudo_header(ip, PROTOCOL_UDP, 0), transport, UDP_BYTES) +
                                without(transport + 4) + without(transport + UDP_CHECKSUM_AT);
    return cutting;
}

/* Give a packet its payload, `at` being its place in it; its sum. The tail is what of it no program is likely to parse, from
 * an even place on. */
static uint64_t set_payload(const struct cutting *cutting, struct packet *packet, uint8_t *at, const uint8_t *from,
                            uint32_t bytes)
{
    uint32_t parsed = bytes < PARSED_BYTES ? bytes : PARSED_BYTES;
    uint64_t sum = checksum_copy(0, at, from, parsed);
    if (bytes == parsed)
        return sum;
    packet->tail.bytes = (uint16_t)(bytes - parsed);
    if (!cutting->intake) {
        packet->tail.sum = checksum_fold(checksum_copy(0, at + parsed, from + parsed, packet->tail.bytes));
        return sum + packet->tail.sum;
    }
    packet->tail.sum = checksum_fold(checksum_add(0, from + parsed, packet->tail.bytes));
    packet->flags |= PACKET_SPLIT;
    packet->here = packet->length;
    packet->length += packet->tail.bytes;
    packet->rest = from + parsed;
    packet->rest_bytes = packet->tail.bytes;
    packet->made_bytes = 0;
    packet->payload = &cutting->intake->payload;
    packet->payload->references++;
    return sum + packet->tail.sum;
}

static void finish_ipv4(const struct cutting *cutting, struct packet *packet, unsigned index, uint64_t payload_sum)
{
    const struct frame_layout *layout = &packet->layout;
    uint8_t *ip = packet->frame + layout->network, *transport = packet->frame + layout->transport;
    uint16_t bytes = (uint16_t)(packet->length - layout->network);
    uint16_t transport_bytes = (uint16_t)(packet->length - layout->transport);
    uint16_t identification = (uint16_t)(load16(cutting->frame + layout->network + 4) + index);
    store16(ip + 2, bytes);
    store16(ip + 4, identification);
    checksum_store(ip + 10, (uint16_t)~checksum_fold(cutting->network_sum + summed(bytes) + summed(identification)));
    if (layout->protocol == PROTOCOL_UDP) {
        uint64_t sum = cutting->transport_sum + 2 * (uint64_t)summed(transport_bytes) + payload_sum;
        uint16_t checksum = (uint16_t)~checksum_fold(sum);
        checksum_store(transport + UDP_CHECKSUM_AT, checksum ? checksum : 0xffff);
    } else {
        frame_seal_transport(packet->frame, layout, packet->tail);
    }
}

static void finish_ipv6(struct packet *packet)
{
    uint8_t *out = packet->frame;
    store16(out + packet->layout.network + 4, (uint16_t)(packet->length - packet->layout.network - IPV6_BYTES));
    seal_over_ipv6(out, &packet->layout);
    packet->layout = frame_parse(out, packet->length);
    packet->tail = (struct frame_tail){0};
}

/* The wire packet that carries `bytes` of the super-packet's payload from `offset`. */
static struct packet *cut_segment(struct packet_pool *pool, const struct cutting *cutting, uint32_t offset, uint32_t bytes,
                                  unsigned index)
{
    const struct frame_layout *layout = &cutting->layout;
    uint32_t here = cutting->intake && bytes > PARSED_BYTES ? PARSED_BYTES : bytes;
    struct packet *packet = packet_new(pool, layout->payload + here);
    if (!packet)
        return NULL;
    uint8_t *out = packet->frame, *transport = out + layout->transport;
    memcpy(out, cutting->frame, layout->payload);
    const uint8_t *from = cutting->frame + layout->payload + offset;
    uint64_t sum = set_payload(cutting, packet, out + layout->payload, from, bytes);
    packet->layout = *layout;
    packet->layout.end = packet->length;
    if (layout->protocol == PROTOCOL_UDP) {
        store16(transport + 4, (uint16_t)(packet->length - layout->transport));
    } else {
        store32(transport + 4, load32(transport + 4) + offset);
        if (layout->payload + offset + bytes < layout->end)
            transport[13] &= (uint8_t)~(TCP_FIN | TCP_PSH);
        if (index > 0)
            transport[13] &= (uint8_t)~TCP_CWR;
    }
    if (cutting->six)
        finish_ipv6(packet);
    else
        finish_ipv4(cutting, packet, index, sum);
    return packet;
}

bool offload_cut(struct packet_pool *pool, struct intake *intake, const struct virtio_header *header, uint8_t *frame,
                 size_t length, struct packet_list *list)
{
    *list = (struct packet_list){0};
    if (length < ETHERNET_BYTES || length > FRAME_MAX_BYTES)
        return false;
    if (header->segmentation == VIRTIO_SEGMENTS_NONE) {
        if (header->flags & VIRTIO_NEEDS_CHECKSUM && !finish_checksum(header, frame, length))
            return false;
        struct packet *packet = new_packet(pool, frame, length);
        if (packet)
            packet_append(list, packet);
        return packet;
    }
    struct frame_layout layout = super_packet(header, frame, length);
    uint32_t payload = layout.end - layout.payload, segment = header->segment_bytes;
    if (!layout.transport || !segment || payload > segment * CUT_SEGMENTS)
        return false;
    struct cutting cutting = cutting_of(frame, &layout);
    if (!cutting.six && payload >= SHARED_BYTES && segment >= SHARED_SEGMENT_BYTES)
        cutting.intake = intake;
    uint32_t offset = 0;
    for (unsigned index = 0; offset < payload || index == 0; index++) {
        uint32_t bytes = payload - offset < segment ? payload - offset : segment;
        struct packet *packet = cut_segment(pool, &cutting, offset, bytes, index);
        if (!packet) {
            free_list(pool, list);
            return false;
        }
        packet_append(list, packet);
        offset += bytes;
    }
    return true;
}

/* --- joining ------------------------------------------------------------------------------------------------------- */

static uint32_t payload_bytes(const struct packet *packet)
{
    return packet->layout.end - packet->layout.payload;
}

/* The tail of a packet, if it is one of its payload still: a program may have put headers in front of others. */
static struct frame_tail tail_of_payload(const struct packet *packet)
{
    const struct frame_layout *layout = &packet->layout;
    bool inside = packet->length == layout->end && packet->tail.bytes <= payload_bytes(packet);
    bool even = (layout->end - layout->transport - packet->tail.bytes) % 2 == 0;
    return inside && even ? packet->tail : (struct frame_tail){0};
}

/* Sums, which a switch makes, have the identifications of what they were made of; nothing behind UDP covers these. */
static bool is_sum(const struct packet *packet)
{
    return packet->layout.protocol == PROTOCOL_UDP && load16(packet->frame + packet->layout.transport) == SUMS_PORT;
}

bool join_knows(const struct packet *packet)
{
    return !(packet->flags & PACKET_SPLIT) || packet->here >= packet->length ||
           (!packet->made_bytes && packet->rest_bytes <= tail_of_payload(packet).bytes);
}

bool join_may_begin(const struct packet *packet)
{
    const struct frame_layout *layout = &packet->layout;
    const uint8_t *ip = packet->frame + layout->network, *transport = packet->frame + layout->transport;
    if (!layout->transport || payload_bytes(packet) == 0 || packet->flags & PACKET_CORRUPTED)
        return false;
    /* No options, no fragments, may not be fragmented: so that cutting it again gives the same packets. */
    if (ip[0] != 0x45 || ip[6] != DONT_FRAGMENT || ip[7] != 0)
        return false;
    if (layout->protocol == PROTOCOL_UDP
            ? load16(transport + 4) != layout->end - layout->transport
            : (transport[13] & ~TCP_PSH) != TCP_ACK || (transport[12] & 15) != 0)
        return false;
    return frame_transport_intact(packet->frame, layout, tail_of_payload(packet));
}

enum join_fit join_fit(const struct join *join, const struct packet *packet)
{
    const struct packet *first = join->packets.first;
    const struct frame_layout *layout = &first->layout;
    const uint8_t *ip = first->frame + layout->network, *other_ip = packet->frame + packet->layout.network;
    const uint8_t *transport = first->frame + layout->transport;
    const uint8_t *other = packet->frame + packet->layout.transport;
    if (layout->protocol != packet->layout.protocol || memcmp(ip + 12, other_ip + 12, 8) != 0 ||
        memcmp(transport, other, 4) != 0)
        return JOIN_OTHER;
    uint32_t bytes = payload_bytes(packet);
    if (join->closed || join->count == JOIN_SEGMENTS || bytes > join->segment_bytes ||
        layout->payload != packet->layout.payload)
        return JOIN_BREAKS;
    if (layout->payload - layout->network + join->payload_bytes + bytes > IPV4_PACKET_MAX)
        return JOIN_BREAKS;
    /* Same ToS and TTL, and the identification one further. */
    bool goes_on = (uint16_t)(load16(ip + 4) + join->count) == load16(other_ip + 4) || (is_sum(first) && is_sum(packet));
    if (ip[1] != other_ip[1] || ip[8] != other_ip[8] || !goes_on)
        return JOIN_BREAKS;
    if (layout->protocol == PROTOCOL_TCP) {
        uint32_t fixed = layout->payload - layout->transport - TCP_BYTES;
        if (load32(transport + 4) + join->payload_bytes != load32(other + 4) || memcmp(transport + 8, other + 8, 4) != 0 ||
            memcmp(transport + 14, other + 14, 2) != 0 || memcmp(transport + TCP_BYTES, other + TCP_BYTES, fixed) != 0)
            return JOIN_BREAKS;
    }
    return JOIN_FITS;
}

void join_append(struct join *join, struct packet *packet)
{
    uint32_t bytes = payload_bytes(packet);
    if (!join->count)
        join->segment_bytes = bytes;
    bool pushed = packet->layout.protocol == PROTOCOL_TCP && packet->frame[packet->layout.transport + 13] & TCP_PSH;
    join->closed = bytes < join->segment_bytes || pushed;
    join->payload_bytes += bytes;
    join->count++;
    packet_append(&join->packets, packet);
}

/* Add a packet as it is; how many pieces there are now. */
static size_t add_frame(const struct packet *packet, struct iovec *pieces, size_t used)
{
    uint32_t here = packet_here(packet);
    pieces[used++] = (struct iovec){packet->frame, here};
    if (here < packet->length)
        pieces[used++] = (struct iovec){(void *)packet->rest, packet->length - here};
    return used;
}

/* Add bytes that may follow those of the last piece, which is one of payload, in memory too. */
static size_t add_bytes(const uint8_t *bytes, size_t length, struct iovec *pieces, size_t used)
{
    struct iovec *last = &pieces[used - 1];
    if ((const uint8_t *)last->iov_base + last->iov_len == bytes) {
        last->iov_len += length;
        return used;
    }
    pieces[used] = (struct iovec){(void *)bytes, length};
    return used + 1;
}

/* Add the payload of a packet: from the intake all of it, if its first bytes are still those that were read. */
static size_t add_payload(const struct packet *packet, struct iovec *pieces, size_t used)
{
    const struct frame_layout *layout = &packet->layout;
    const uint8_t *payload = packet->frame + layout->payload;
    uint32_t here = packet_here(packet);
    if (here == packet->length)
        return add_bytes(payload, payload_bytes(packet), pieces, used);
    uint32_t parsed = here - layout->payload, bytes = packet->length - here;
    const struct intake *intake = intake_of(packet);
    if (intake && packet->rest - intake->bytes >= parsed && memcmp(packet->rest - parsed, payload, parsed) == 0)
        return add_bytes(packet->rest - parsed, parsed + bytes, pieces, used);
    used = add_bytes(payload, parsed, pieces, used);
    return add_bytes(packet->rest, bytes, pieces, used);
}

size_t join_describe(struct join *join, struct virtio_header *header, struct iovec *pieces)
{
    struct packet *first = join->packets.first;
    const struct frame_layout *layout = &first->layout;
    size_t used = 0;
    *header = (struct virtio_header){0};
    pieces[used++] = (struct iovec){header, VIRTIO_HEADER_BYTES};
    if (join->count == 1)
        return add_frame(first, pieces, used);
    pieces[used++] = (struct iovec){first->frame, layout->payload};
    uint8_t *transport = first->frame + layout->transport;
    uint32_t transport_bytes = layout->payload - layout->transport + join->payload_bytes;
    bool udp = layout->protocol == PROTOCOL_UDP;
    uint16_t checksum_at = udp ? UDP_CHECKSUM_AT : TCP_CHECKSUM_AT;
    for (struct packet *packet = first; packet; packet = packet->next)
        used = add_payload(packet, pieces, used);
    store16(first->frame + layout->network + 2, (uint16_t)(layout->transport - layout->network + transport_bytes));
    frame_seal_network(first->frame, layout);
    if (udp)
        store16(transport + 4, (uint16_t)transport_bytes);
    else
        transport[13] |= join->packets.last->frame[layout->transport + 13] & TCP_PSH;
    uint64_t sum = checksum_pseudo_header(first->frame + layout->network, layout->protocol, transport_bytes);
    checksum_store(transport + checksum_at, checksum_fold(sum));
    *header = (struct virtio_header){
        .flags = VIRTIO_NEEDS_CHECKSUM,
        .segmentation = udp ? VIRTIO_SEGMENTS_UDP : VIRTIO_SEGMENTS_TCP,
        .header_bytes = (uint16_t)layout->payload,
        .segment_bytes = (uint16_t)join->segment_bytes,
        .checksum_start = (uint16_t)layout->transport,
        .checksum_offset = checksum_at,
    };
    return used;
}
