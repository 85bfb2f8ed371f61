/* When each packet entered the switch that it now leaves, so that a real switch's slowness costs no model time.
 *
 * In the model a switch takes no time; Open vSwitch's userspace takes a few hundred microseconds, and more under load. A
 * packet that comes out of it is therefore taken to have arrived at the next link when it was due at the switch, and the
 * link's delay makes up for the rest: only what outlasts it comes out late. Packets are known again by their content (the
 * IPv4 header without ToS, TTL and checksum, and the head of what follows), since a switch may rewrite MAC addresses; one
 * that is not known counts from when it was read.
 */
#ifndef NETCORE_TRANSIT_H
#define NETCORE_TRANSIT_H

#include "histogram.h"
#include "packet.h"

#define TRANSIT_SLOTS 65536 /* a power of two, many times the packets inside switches at once */
#define TRANSIT_HEAD_BYTES 40 /* of the transport header and what follows */
#define TRANSIT_LONGEST_NS INT64_C(10000000000) /* older entries are of another packet of the same content */

struct transit_slot {
    uint64_t key;
    int64_t due_ns;
};

struct transit {
    struct transit_slot *slots;
    struct histogram taken; /* how long packets were inside, from when they were due there */
};

/* False: no memory. */
bool transit_init(struct transit *transit);
void transit_destroy(struct transit *transit);

/* A packet goes into a switch at which it was due at `due_ns`. */
void transit_enter(struct transit *transit, const struct packet *packet, int64_t due_ns);

/* A packet came out of a switch: when it was due there, or `now_ns` if it is not known. */
int64_t transit_leave(struct transit *transit, const struct packet *packet, int64_t now_ns);

#endif
