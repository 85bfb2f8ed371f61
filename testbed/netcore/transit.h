/* When each packet entered the switch that it now leaves, so that a real switch's slowness costs no model time.
 *
 * In the model a switch takes no time; Open vSwitch's userspace takes a few hundred microseconds, and more under load. A
 * packet that comes out of it is therefore taken to have arrived at the next link when it was due at the switch, and the
 * link's delay makes up for the rest: only what outlasts it comes out late. Packets are known again by the switch and by
 * their content (the IPv4 header without ToS, TTL and checksum, and the head of what follows), since a switch may rewrite
 * MAC addresses. Of several with the same content inside one switch, such as a packet and its duplicate, the first to
 * enter is taken to be the first to leave. One that is not known, such as the second of two that a switch made of one,
 * counts from when it was read.
 */
#ifndef NETCORE_TRANSIT_H
#define NETCORE_TRANSIT_H

#include "histogram.h"
#include "packet.h"

#define TRANSIT_PACKETS 65536 /* a power of two; more inside switches at once, and the oldest are forgotten */
#define TRANSIT_HEAD_BYTES 40 /* of the transport header and what follows */
#define TRANSIT_LONGEST_NS INT64_C(100000000) /* inside for longer, a packet was lost if one like it entered since */

struct transit_packet {
    uint64_t key; /* 0: it has left */
    int64_t due_ns;
    struct transit_packet *next; /* in its bucket, which entered later */
};

struct transit_bucket {
    struct transit_packet *first, *last;
};

struct transit {
    struct transit_packet *packets; /* a ring, in the order of entering */
    struct transit_bucket *buckets; /* as many */
    uint64_t entered;
    struct histogram taken; /* how long packets were inside, from when they were due there */
};

/* False: no memory. */
bool transit_init(struct transit *transit);
void transit_destroy(struct transit *transit);

/* A packet goes into `switch_number`, at which it was due at `due_ns`. */
void transit_enter(struct transit *transit, uint32_t switch_number, const struct packet *packet, int64_t due_ns);

/* A packet came out of a switch: when it was due there, or `now_ns` if it is not known. */
int64_t transit_leave(struct transit *transit, uint32_t switch_number, const struct packet *packet, int64_t now_ns);

#endif
