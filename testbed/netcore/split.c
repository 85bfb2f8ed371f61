#include "split.h"

#include "icrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Make the padding and the ICRC of a frame of `length` bytes, the last `made`; of what is no UDP over IPv4 they are 0. */
static void make_end(uint8_t *frame, size_t length, size_t made, const struct frame_layout *layout)
{
    memset(frame + length - made, 0, made);
    size_t covered_end = length - ICRC_BYTES;
    if (made < ICRC_BYTES || layout->protocol != PROTOCOL_UDP || covered_end < layout->payload + BTH_BYTES)
        return;
    uint32_t crc = icrc(frame + layout->network, layout->transport - layout->network, frame + layout->transport,
                        frame + layout->payload, covered_end - layout->payload);
    for (unsigned i = 0; i < ICRC_BYTES; i++)
        frame[covered_end + i] = (uint8_t)(crc >> 8 * i);
}

/* The bytes of a split packet as if nothing was cut off. */
static size_t whole(const struct packet *packet)
{
    return (size_t)packet->here + packet->rest_bytes + packet->made_bytes;
}

static void write_whole(struct packet *packet, uint8_t *to)
{
    memcpy(to, packet->frame, packet->here);
    memcpy(to + packet->here, packet->rest, packet->rest_bytes);
    make_end(to, whole(packet), packet->made_bytes, packet_layout(packet));
}

/* Put `more` bytes of the rest there as well; there is room. */
static void take_in(struct packet *packet, uint32_t more)
{
    memcpy(packet->frame + packet->here, packet->rest, more);
    packet->here += more;
    packet->rest += more;
    packet->rest_bytes -= more;
}

struct packet *split_fill(struct packet_pool *pool, struct packet *packet, uint32_t bytes)
{
    if (!(packet->flags & PACKET_SPLIT) || packet->here >= bytes || packet->here >= packet->length)
        return packet;
    bool all = bytes >= packet->here + packet->rest_bytes;
    struct packet *filled = packet_new(pool, all ? whole(packet) : bytes);
    if (!filled)
        return NULL;
    packet_become(filled, packet);
    if (all) {
        write_whole(packet, filled->frame);
        filled->flags &= (uint16_t)~PACKET_SPLIT;
        payload_drop(filled->payload);
    } else {
        take_in(filled, bytes - filled->here);
    }
    filled->context = packet->context;
    packet->context = NULL;
    packet_free(pool, packet);
    return filled;
}

void split_capture(struct capture *capture, struct packet *packet, int64_t at_ns, enum capture_direction direction)
{
    uint8_t *all = packet_here(packet) < packet->length ? malloc(whole(packet)) : NULL;
    if (all)
        write_whole(packet, all);
    if (all || packet_here(packet) == packet->length)
        capture_frame(capture, all ? all : packet->frame, packet->length, at_ns, direction);
    else
        capture_lose(capture, ENOMEM);
    free(all);
}
