/* Packets of which only the first bytes lie at their frame: the others lie in memory that they share, or are not made yet.
 *
 * What moves such a packet counts all of its bytes; who looks beyond the first has them put there. The memory that is shared
 * stays as it is while packets refer to it. RoCE's padding and ICRC are made of what the packet is when they are put there.
 */
#ifndef NETCORE_SPLIT_H
#define NETCORE_SPLIT_H

#include "capture.h"
#include "packet.h"

#define SPLIT_ALL UINT32_MAX

/* Have at least so many bytes of a packet lie at its frame; it may move. NULL, the packet being as it was: the pool is
 * exhausted. */
struct packet *split_fill(struct packet_pool *pool, struct packet *packet, uint32_t bytes);

/* Add a packet to a capture. */
void split_capture(struct capture *capture, struct packet *packet, int64_t at_ns, enum capture_direction direction);

/* Whether something was cut off a split packet. */
static inline bool split_is_cut(const struct packet *packet)
{
    return packet->length < packet->here + packet->rest_bytes + packet->made_bytes;
}

#endif
