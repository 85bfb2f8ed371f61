/* A wire packet inside the fabric, and the pool that its buffer comes from and goes back to.
 *
 * The frame lies in the packet's room behind a headroom, into which a switch program may let its headers grow. Of a packet
 * that is split only the first bytes lie there, and the others in memory that packets share (split.h). Under the address
 * sanitizer what is behind the frame, and all of a packet that went back to the pool, is poisoned.
 */
#ifndef NETCORE_PACKET_H
#define NETCORE_PACKET_H

#include "eventq.h"
#include "frame.h"

#define PACKET_CLASSES 10                   /* rooms of 256 B, 512 B, ... 128 KiB */
#define PACKET_POOL_BYTES (UINT64_C(1) << 31) /* a fabric never holds more packet memory than this */
#define PACKET_PRIORITIES 8

enum packet_flag {
    PACKET_JOB = 1,       /* counted as a job's too */
    PACKET_CORRUPTED = 2, /* a bit of it was flipped here */
    PACKET_STALE = 4,     /* a program wrote it anew: `layout` is to be found again */
    PACKET_PFC = 8,       /* a pause frame of the fabric's own: no link counts or strikes it */
    PACKET_CONGESTED = 16, /* met a queue that marks it: is marked when it leaves the queue */
    PACKET_TRIMMED = 32,  /* did not fit into its queue: is cut to `length` when it leaves the queue */
    PACKET_SHORT = 64,    /* was trimmed by this queue or by one before */
    PACKET_MARKED = 128,  /* was marked by the program before the queue: is counted when it leaves that */
    PACKET_SPLIT = 256,   /* only its first bytes lie at `frame` */
    PACKET_JOB_FIRST = 512, /* above: the number of the job, of one of the job's */
};

#define PACKET_NO_INGRESS UINT16_MAX

struct link;

/* Memory that split packets share; released by whoever drops the last reference, in the thread that moves packets. */
struct payload {
    uint32_t references;
    void (*release)(struct payload *payload);
};

static inline void payload_drop(struct payload *payload)
{
    if (!--payload->references)
        payload->release(payload);
}

/* What every link and switch asks of a packet comes first, in one cache line. */
struct packet {
    _Alignas(CACHE_LINE) struct packet *next;
    int64_t due_ns;     /* when it should arrive at the far end of `link` */
    uint8_t *frame;
    struct link *link;
    void *context;      /* the switch program's, in a switch */
    uint32_t length;    /* frame bytes without FCS; in a switch's queue, what a program will have left of them */
    uint32_t run;       /* which back-to-back run of the link that was ... */
    uint32_t run_bytes; /* ... and the bytes on the wire of it up to and with this packet, modulo 2^32 */
    struct frame_tail tail; /* of a packet that was cut from a super-packet, until somebody may have changed it */
    uint16_t epoch;     /* of the link when the packet entered it */
    uint16_t ingress;   /* number of the switch port by which it came in, or PACKET_NO_INGRESS */
    uint16_t flags;
    uint8_t priority;   /* of the queue, below PACKET_PRIORITIES; the larger is served first */
    uint8_t size_class;
    struct frame_layout layout;
    /* Of PACKET_SPLIT, which has here + rest_bytes + made_bytes, if it was not cut since: */
    uint32_t here;        /* bytes at `frame` */
    const uint8_t *rest;  /* what follows those */
    uint32_t rest_bytes;
    uint16_t made_bytes;  /* padding and ICRC, which are made when somebody looks */
    uint16_t rid;         /* replication id */
    /* For a program's egress: */
    uint32_t enqueued_depth; /* bytes of its queue when it came */
    uint32_t frame_bytes; /* of the whole frame, as it lies there */
    int64_t enqueued_ns;
    struct payload *payload; /* that the rest of a split one lies in */
    struct event event; /* its arrival, where packets overtake each other */
    _Alignas(CACHE_LINE) uint8_t room[];
};

_Static_assert(offsetof(struct packet, layout) == CACHE_LINE, "a packet's first part fits a cache line");

struct packet_list {
    struct packet *first;
    struct packet *last;
};

struct packet_pool {
    struct eventq *events;
    struct packet *spare[PACKET_CLASSES];
    void *slabs;
    uint64_t bytes;
    uint64_t packets, most_packets; /* that are not spare, now and at once */
    uint32_t headroom; /* of new packets: whole cache lines, so that most headers lie in one */
};

void packet_pool_init(struct packet_pool *pool, struct eventq *events);
void packet_pool_destroy(struct packet_pool *pool);

/* Let new packets have at least so much headroom. */
void packet_pool_need(struct packet_pool *pool, uint32_t headroom_bytes);

/* A packet with room for `length` bytes, its length set; NULL: too long, or the pool is exhausted. */
struct packet *packet_new(struct packet_pool *pool, size_t length);

/* A copy with the pool's headroom, without a context; what is split stays so. NULL as above. */
struct packet *packet_copy(struct packet_pool *pool, const struct packet *packet);
void packet_free(struct packet_pool *pool, struct packet *packet);

/* Make of a new packet, which has room for what lies at the frame of another, all of that but its context. */
void packet_become(struct packet *packet, const struct packet *from);

/* Move a packet to where it has the pool's headroom. NULL, the packet being as it was: the pool is exhausted. */
struct packet *packet_move(struct packet_pool *pool, struct packet *packet);

/* Give a packet at least the pool's headroom again; it may move. NULL as above. */
static inline struct packet *packet_settle(struct packet_pool *pool, struct packet *packet)
{
    return packet->frame - packet->room >= (ptrdiff_t)pool->headroom ? packet : packet_move(pool, packet);
}

/* The bytes of a packet that lie at `frame`. */
static inline uint32_t packet_here(const struct packet *packet)
{
    return packet->flags & PACKET_SPLIT && packet->here < packet->length ? packet->here : packet->length;
}

/* Where a packet's headers are, also after a program changed it. */
static inline const struct frame_layout *packet_layout(struct packet *packet)
{
    if (packet->flags & PACKET_STALE) {
        packet->layout = frame_parse(packet->frame, packet->length);
        packet->flags &= (uint16_t)~PACKET_STALE;
    }
    return &packet->layout;
}

/* Have what a link's far end looks at of a packet fetched. */
static inline void packet_soon(const struct packet_pool *pool, const struct packet *packet)
{
    const uint8_t *frame = packet->room + pool->headroom; /* or nearly: where it is, is in what is to be fetched */
    __builtin_prefetch(packet);
    __builtin_prefetch(&packet->layout);
    __builtin_prefetch(frame);
    __builtin_prefetch(frame + CACHE_LINE);
}

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
