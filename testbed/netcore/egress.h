/* The queues before one link, one a priority, and the scheduler that picks what the link serves next.
 *
 * A larger priority goes first (strict), or each gets its share of the bytes (deficit round robin: Shreedhar and Varghese,
 * SIGCOMM 1995). A packet counts with the `length` it came with for as long as it waits; the packet in service no more. What
 * waits is bounded by the switch's buffer, or without one by the link's `queue_bytes` for all priorities, and the link's ECN
 * looks at the bytes of the packet's own queue when it comes. A packet for which the link is free does not wait, and needs no
 * room. One that there is no room for may be cut and put into the last queue, PACKET_PRIORITIES - 1, as an NDP switch does
 * (Handley et al., SIGCOMM 2017), and one that is no longer than that as it is.
 *
 * A priority may be paused: it is not served until it is resumed or the time is over. Pause frames to the other end go first.
 */
#ifndef NETCORE_EGRESS_H
#define NETCORE_EGRESS_H

#include "capture.h"
#include "link.h"

struct buffer;
struct egress;
struct pfc;

struct egress_queue {
    struct packet_list packets;
    uint64_t bytes;
    uint64_t deficit;        /* bytes that it may still send in its turn */
    uint64_t quantum;        /* bytes a turn */
    int64_t paused_until_ns;
    int64_t paused_since_ns; /* without a break */
};

/* What each packet needs comes first. */
struct egress {
    struct link *link;
    uint8_t backlog; /* a bit for each priority that has packets waiting */
    uint8_t paused;  /* likewise; `paused_until_ns` may have passed since */
    uint8_t turn;    /* priority whose turn it is */
    bool weighted;
    bool serving;    /* is picking: what is sent meanwhile waits */
    bool resuming;   /* `resume` is scheduled, at `resume_ns` */
    struct link_source source;
    struct buffer *buffer; /* of the switch; NULL: none */
    struct capture *capture; /* of what the link takes; NULL: nobody looks at it */
    struct pfc *pfc;       /* what is asked of the other end; NULL: nothing ever is */
    /* Told of each packet with a context that leaves its queue for service, `deq_depth` bytes staying there:
     * `packet->enqueued_ns` and `enqueued_depth` tell the rest. It returns what is to be sent, which may be longer or shorter
     * or another packet, or NULL: it took the packet, and the next is to be served. NULL: no packet has a context. */
    struct packet *(*leave)(void *owner, struct packet *packet, uint64_t deq_depth, int64_t now_ns);
    void (*drained)(struct egress *egress, int64_t now_ns); /* what waited was served, or dropped; NULL: nobody cares */
    struct egress_queue queues[PACKET_PRIORITIES];
    void *owner;
    int64_t resume_ns;
    struct event resume; /* the earliest end of a pause that holds packets up */
    int64_t pause_since_ns, pause_end_ns; /* in which a priority is paused, or was; not counted yet in ... */
    int64_t paused_ns;
};

_Static_assert(offsetof(struct egress, queues) == CACHE_LINE, "an egress's first part fits a cache line");

/* Put an egress before a link, strict and with nobody to tell. False: no memory. */
bool egress_init(struct egress *egress, struct link *link);

/* Weighted by `weights`, each at least 1, or strict: NULL. */
void egress_schedule(struct egress *egress, const uint32_t *weights);

/* A packet will be taken in for a link: have what is looked at for it fetched, all at once. */
static inline void egress_soon(const struct egress *egress, const struct link *link)
{
    __builtin_prefetch(egress);
    __builtin_prefetch(egress->queues);
    __builtin_prefetch(link);
    __builtin_prefetch(&link->epoch);
    __builtin_prefetch(&link->service_end);
    __builtin_prefetch(&link->parameters);
    __builtin_prefetch(&link->counts[LINK_FIRST_JOB].entered);
}

/* Take in a packet for the queue of its `priority`; the egress owns it. */
void egress_send(struct egress *egress, struct packet *packet, int64_t now_ns);

/* Pause a priority until an instant, or resume it: by one that is not after `now_ns`. */
void egress_pause(struct egress *egress, unsigned priority, int64_t until_ns, int64_t now_ns);

/* For how long at least one priority was paused, up to now. */
int64_t egress_paused_ns(const struct egress *egress, int64_t now_ns);

/* Cut a packet to a length, but leave it its headers. */
void egress_cut(struct packet *packet, uint32_t length);

/* Serve what there is now, such as a pause frame. */
void egress_serve(struct egress *egress, int64_t now_ns);

#endif
