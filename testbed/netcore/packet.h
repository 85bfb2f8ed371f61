/* A wire packet inside the fabric, and the pool that its buffer comes from and goes back to. */
#ifndef NETCORE_PACKET_H
#define NETCORE_PACKET_H

#include "eventq.h"
#include "frame.h"

#define PACKET_CLASSES 10                   /* buffers of 256 B, 512 B, ... 128 KiB */
#define PACKET_POOL_BYTES (UINT64_C(1) << 31) /* a fabric never holds more packet memory than this */

enum packet_flag {
    PACKET_JOB = 1,       /* counted as the job's too */
    PACKET_CORRUPTED = 2, /* a bit of it was flipped here */
};

struct link;

struct packet {
    struct event event; /* its arrival at the far end of `link` */
    struct packet *next;
    struct link *link;
    uint64_t run_bits;  /* bits the link sent back to back up to and with this packet */
    uint32_t run;       /* which back-to-back run that was */
    uint32_t epoch;     /* of the link when the packet entered it */
    uint32_t length;    /* frame bytes without FCS */
    uint8_t size_class;
    uint8_t flags;
    int64_t due_ns;     /* when it should arrive at the far end */
    struct frame_layout layout;
    uint8_t frame[];
};

struct packet_list {
    struct packet *first;
    struct packet *last;
};

struct packet_pool {
    struct eventq *events;
    struct packet *spare[PACKET_CLASSES];
    void *slabs;
    uint64_t bytes;
};

void packet_pool_init(struct packet_pool *pool, struct eventq *events);
void packet_pool_destroy(struct packet_pool *pool);

/* A packet with room for `length` bytes, its length set; NULL: too long, or the pool is exhausted. */
struct packet *packet_new(struct packet_pool *pool, size_t length);
struct packet *packet_copy(struct packet_pool *pool, const struct packet *packet);
void packet_free(struct packet_pool *pool, struct packet *packet);

static inline void packet_append(struct packet_list *list, struct packet *packet)
{
    packet->next = NULL;
    if (list->last)
        list->last->next = packet;
    else
        list->first = packet;
    list->last = packet;
}

static inline struct packet *packet_take(struct packet_list *list)
{
    struct packet *packet = list->first;
    if (packet && !(list->first = packet->next))
        list->last = NULL;
    return packet;
}

#endif
