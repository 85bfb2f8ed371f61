/* One directed link: a byte queue or an egress, service at a rate, a propagation delay, and what strikes packets on the way.
 *
 * Departures are computed, never measured, so that a late caller does not make later packets late: a packet leaves at
 * max(its arrival, the departure before it) + (bytes + 24) x 8 / rate, with the division's remainder carried along while
 * the link is busy. Everything happens in `event`s of the fabric's queue, under whichever clock runs it: one for the next
 * arrival at the far end, and while something waits one for the end of service. With `reorder` each arrival is an event.
 *
 * A packet's arrival may be past when it is handed over. It then meets the queue of that instant: what waits now, and what
 * waited then but is being served or has left since. Packets handed over in the order of their arrivals, however late,
 * fare as if each had come in time: the same departures, drops, marks and highest queue. One that was overtaken on its way
 * in is taken to have come right after the last one handed over: the link is a FIFO of hand-overs.
 *
 * The queue counts frame bytes without FCS and excludes the packet in service. ECN looks at it when a packet arrives. After
 * the queue, in this order: loss, corruption, duplication, jitter. Each draw is keyed by the packet's number on this link.
 *
 * Instead of its own queue a link may have a source that holds what waits, and offers packets when the link is free.
 */
#ifndef NETCORE_LINK_H
#define NETCORE_LINK_H

#include "eventq.h"
#include "histogram.h"
#include "packet.h"
#include "random.h"

#define WIRE_OVERHEAD_BYTES 24     /* FCS 4, preamble and start 8, gap 12 (IEEE 802.3) */
#define RATE_RUN_PACKETS 16        /* a rate is measured over at least this many packets sent back to back ... */
#define RATE_RUN_NS INT64_C(5000000) /* ... and this long, so that a late wake-up of 50 us is at most 1 % of it */
#define LINK_BEGUN_PACKETS 4096 /* a power of two; at 1 Gb/s 50 ms of 1500 B; of more, the oldest are forgotten */
#define LINK_LONGEST_NS (INT64_C(1) << 60) /* 36 years: a delay or jitter that can be added to any clock */

struct link_parameters {
    uint64_t rate_bps;
    int64_t delay_ns;
    int64_t jitter_ns;    /* uniform within delay +- jitter, never below 0 */
    uint64_t queue_bytes;
    bool reorder;         /* whether jitter may */
    bool never_drops;     /* a host's own port: its queue is the sender's, which neither drops nor marks */
    bool ecn;
    uint64_t ecn_min_bytes;
    uint64_t ecn_max_bytes;
    double ecn_probability;
    /* Gilbert-Elliott: lost while bad. Bernoulli is the chain whose next state does not depend on the last. */
    uint64_t to_bad;      /* thresholds of `random_chance` */
    uint64_t to_good;
    double loss_mean;
    uint64_t duplicate;
    uint64_t corrupt;
};

/* Set the loss chain for a mean loss and a mean burst length in packets (1: Bernoulli). False: there is no such chain. */
bool link_parameters_loss(struct link_parameters *parameters, double mean, double burst_packets);

/* Of all packets, of all jobs', or of one job's. entered + duplicated = packets + dropped + consumed + in flight. */
struct link_counts {
    uint64_t entered;
    uint64_t packets; /* delivered */
    uint64_t bytes;   /* delivered, without FCS */
    uint64_t dropped_queue;
    uint64_t dropped_loss;
    uint64_t dropped_down;
    uint64_t corrupted;
    uint64_t duplicated;
    uint64_t ecn_marked;
    uint64_t trimmed;
    uint64_t consumed; /* taken out by the owner of the source */
    uint64_t strayed;  /* of those delivered, to a host that they are not addressed to */
    uint64_t shortened; /* likewise, to the host that they are for, but cut by a switch on their way */
};

#define LINK_JOBS 16

/* Whose packets are asked for: LINK_ONE_JOB and the number of a job stand for that job's. */
enum link_class { LINK_ALL, LINK_JOB, LINK_ONE_JOB };

/* Each packet is counted once, with those of its job or of none. */
enum link_owner { LINK_NO_JOB, LINK_FIRST_JOB, LINK_OWNERS = LINK_FIRST_JOB + LINK_JOBS };

/* The rate at which back-to-back packets really came out. */
struct link_rate_meter {
    uint32_t run;
    uint32_t packets;
    uint32_t last_bytes; /* as packets have them */
    uint64_t run_bytes;  /* from the first packet to the last */
    int64_t first_ns, last_ns;
    uint64_t bits; /* of finished runs */
    int64_t span_ns;
};

/* A service that began while no packet came: to one that arrived before but comes after, its packet was still queued. */
struct link_begun {
    int64_t at_ns;
    uint32_t bytes;
};

/* How long so many bytes take: most packets are as long as the one before, and a division takes long. */
struct link_time {
    uint64_t wire_bytes;
    uint64_t ns;
    uint64_t remainder; /* in 1 / rate ns */
};

struct link_source;

/* What a source does. */
struct link_source_type {
    void (*freed)(struct link_source *source, int64_t at_ns); /* the link that was awaited is free */
    void (*cut)(struct link_source *source, int64_t at_ns);   /* the link went down: drop what waits */
    void (*mended)(struct link_source *source, int64_t at_ns); /* the link is up again */
    void (*soon)(const struct link_source *source); /* `freed` will be called soon: have what it looks at fetched */
};

/* What holds the waiting packets in place of the link's own queue. */
struct link_source {
    const struct link_source_type *type;
};

/* What each packet needs comes first, in as few cache lines as may be. */
struct link {
    struct event arrival; /* of the first of ... */
    struct packet_list flying; /* ... those served, by the time of their arrival */
    /* Takes each packet at the far end, and owns it from there. */
    void (*deliver)(void *receiver, struct packet *packet);
    void *receiver;
    struct eventq *events;

    uint16_t epoch; /* counts the times the link went down: a packet of an earlier epoch is lost */
    bool down;
    bool plain; /* whatever enters arrives, once, as it is, after the delay */
    bool awaited;           /* `service_end` is scheduled */
    bool in_service_lost;   /* so that no arrival follows its service */
    bool bad; /* state of the loss chain */
    int64_t free_ns; /* when the last serialisation ended, or will */
    int64_t last_arrival_ns; /* at the far end */
    uint32_t run;
    uint32_t run_bytes; /* modulo 2^32 */
    uint64_t served;   /* of those numbered, the ones whose service has begun */
    uint64_t queued_bytes;
    struct packet_pool *pool;
    void (*soon)(const void *receiver); /* it gets a packet soon: have what it looks at fetched; NULL: nothing is done */

    struct event service_end;
    struct link_source *source; /* NULL: packets wait here */
    uint64_t remainder; /* of the last serialisation time, in 1 / rate ns */
    struct link_time time; /* of the last packet's size */

    struct link_parameters parameters;
    uint64_t arrivals; /* packets that were not turned away, numbered from 0 */
    int64_t busy_ns;
    uint64_t max_queued_bytes;
    struct packet_list queue;
    struct link_counts counts[LINK_OWNERS];
    uint64_t begun_bytes; /* of `begun` */
    uint64_t keys[RANDOM_STREAMS];
    struct link_rate_meter meter;
    struct histogram lateness;
    uint64_t pool_exhausted;
    bool ending;    /* `service_end` fires, and ... */
    bool goes_on;   /* ... instead of being scheduled will fire again at once, at ... */
    uint64_t place; /* ... this place in the order of scheduling */
    uint32_t begun_first, begun_count;
    struct link_begun begun[LINK_BEGUN_PACKETS]; /* a ring, oldest first */
};

_Static_assert(offsetof(struct link, epoch) == CACHE_LINE && offsetof(struct link, service_end) == 2 * CACHE_LINE &&
                   offsetof(struct link, parameters) == 3 * CACHE_LINE,
               "a link's first parts fit a cache line each");

/* `index` keys the random draws. False: no memory for the link's events. */
bool link_init(struct link *link, struct eventq *events, struct packet_pool *pool, uint64_t seed, uint64_t index);

/* Set the parameters; packets inside keep going. */
void link_set(struct link *link, const struct link_parameters *parameters);

/* Take in a packet that arrived at `arrived_ns`, now or before; the link, which has no source, owns it.
 *
 * What is due by now must have been fired, also what the packet handed over just before has brought about. */
void link_send(struct link *link, struct packet *packet, int64_t arrived_ns);

/* Down: everything inside is lost, and what comes is too. */
void link_set_up(struct link *link, bool up, int64_t now_ns);

/* Tell that a packet it delivered really came out at `real_ns`: for lateness and rate. */
void link_came_out(struct link *link, const struct packet *packet, int64_t real_ns);

/* Forget highest queue, lateness and rate. */
void link_mark(struct link *link);

/* Add up what `counts`, LINK_OWNERS times `fields` numbers, have of a class. */
void link_sum(const uint64_t *counts, size_t fields, enum link_class class, uint64_t *sums);

/* What is counted of a class. */
struct link_counts link_counts_of(const struct link *link, enum link_class class);

/* Packets inside. */
uint64_t link_in_flight(const struct link *link, enum link_class class);

/* The measured rate, or 0: too few packets were back to back. */
uint64_t link_measured_bps(const struct link *link);

/* --- for a link's source ------------------------------------------------------------------------------------------- */

#define LINK_COUNT(link, packet_flags, field, amount) ((link)->counts[link_owner_of(packet_flags)].field += (amount))

/* The job of a packet, by its flags, or LINK_NO_JOB. */
static inline unsigned link_owner_of(uint16_t packet_flags)
{
    return (packet_flags & (unsigned)PACKET_JOB) * LINK_FIRST_JOB + packet_flags / (unsigned)PACKET_JOB_FIRST;
}

/* Drop one that the source has no room for, or that came or waited when the link was cut. */
void link_drop_queued(struct link *link, struct packet *packet);
void link_drop_down(struct link *link, struct packet *packet);

/* Count a packet that comes to the source. False: the link is down, and the packet is lost. */
static inline bool link_enter(struct link *link, struct packet *packet)
{
    LINK_COUNT(link, packet->flags, entered, 1);
    if (link->down)
        link_drop_down(link, packet);
    return !link->down;
}

/* Whether a queue of `queued_bytes` marks the packet with this number. */
bool link_marks(const struct link *link, uint64_t queued_bytes, uint64_t number);

/* Number a packet that was let in, and tell whether a queue of `queued_bytes` marks it. */
static inline bool link_congested(struct link *link, uint64_t queued_bytes)
{
    const struct link_parameters *of = &link->parameters;
    uint64_t number = link->arrivals++;
    return of->ecn && queued_bytes > of->ecn_min_bytes && link_marks(link, queued_bytes, number);
}

/* Serialise a packet from `start_ns` on, when the link is free. The link owns it. */
void link_serve(struct link *link, struct packet *packet, int64_t start_ns);

/* Have the end of the service that is under way told. `shows`: what then happens may show outside before the packet in
 * service arrives. */
void link_await(struct link *link, bool shows);

#endif
