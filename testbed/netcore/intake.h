/* A buffer that a frame from a kernel is read into, and that the packets cut from it share: their payload is copied no more.
 *
 * It lies in a packet's room, of the largest that there are, and so counts as packet memory.
 */
#ifndef NETCORE_INTAKE_H
#define NETCORE_INTAKE_H

#include "packet.h"

struct intake {
    struct payload payload;
    struct packet_pool *pool;
    struct packet *packet; /* in whose room it is */
    _Alignas(CACHE_LINE) uint8_t bytes[];
};

/* A buffer for so many bytes, with one reference, which is the caller's. NULL: half of the pool's memory is in use, and the
 * rest is left to packets. */
struct intake *intake_new(struct packet_pool *pool, size_t bytes);

/* Begin to read the next frame: the buffer again, if no packet refers to it, or another, or NULL as above. */
struct intake *intake_again(struct packet_pool *pool, struct intake *intake, size_t bytes);

/* The intake that a split packet refers to; NULL: it is other memory. */
struct intake *intake_of(const struct packet *packet);

#endif
