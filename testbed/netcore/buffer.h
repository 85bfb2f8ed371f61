/* The packet memory of one switch: what may wait in it, and for what of it the senders are asked to pause.
 *
 * A queue may hold alpha x (shared - used) bytes (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998); or,
 * where nothing is shared, what its link's `queue_bytes` leave; the last queue of a switch that cuts packets has twice those
 * for itself. A packet of a priority under flow control that this refuses goes into the headroom of the port it came in by,
 * which is freed first, whichever packet of that port and priority leaves. The port's other end is asked to pause a priority
 * when the bytes that came from it and wait reach `xoff_bytes`, or if any of them are in the headroom; and to go on when they
 * are down to `xon_bytes` and none is.
 */
#ifndef NETCORE_BUFFER_H
#define NETCORE_BUFFER_H

#include "pfc.h"

#define BUFFER_PORTS 512 /* ports have numbers of 9 bits */

struct buffer_options {
    bool dynamic;
    uint64_t shared_bytes;
    double alpha;
    uint64_t headroom_bytes;  /* of each port */
    uint8_t pfc_priorities;   /* a bit for each priority under flow control */
    uint64_t xoff_bytes;
    uint64_t xon_bytes;
    uint32_t trim_bytes;      /* to which a UDP packet is cut that would be dropped; 0: none is */
};

/* What came in by one port and waits. */
struct buffer_port {
    uint64_t held_bytes[PACKET_PRIORITIES];     /* all of it */
    uint64_t headroom_bytes[PACKET_PRIORITIES]; /* of these, in the headroom */
    uint64_t headroom_used;                     /* by all priorities */
    uint64_t max_headroom_used;
    struct pfc pfc;
};

struct buffer {
    struct buffer_options options;
    uint64_t used_bytes; /* without what is in headrooms */
    uint64_t max_used_bytes;
    struct buffer_port *ports[BUFFER_PORTS]; /* by number; NULL: nothing is asked of its other end */
};

void buffer_destroy(struct buffer *buffer);

/* Keep account of what comes in by the port with this number from a link, whose other end is told by `egress`. False: no
 * memory. */
bool buffer_add_port(struct buffer *buffer, uint32_t number, const struct link *from, struct egress *egress);

/* Make room for a packet that is to wait in the queue of its priority; false: there is none. */
bool buffer_admit(struct buffer *buffer, const struct egress *egress, struct packet *packet, int64_t now_ns);

/* A packet leaves its queue. */
void buffer_release(struct buffer *buffer, const struct packet *packet, int64_t now_ns);

#endif
