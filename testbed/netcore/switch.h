/* A switch of the fabric: an instance of a compiled P4 program, its ports, and where its copies go.
 *
 * A packet takes the way that the ABI describes (testbed/dataplane/native/runtime/abi.h), with an egress's queues between
 * ingress and egress: the program's egress runs when the port's link takes the packet. Nothing takes model time but the
 * queues; a program's times are model time, also where that is slowed down. What a program sends to SWITCH_CPU_PORT runs
 * through egress at once and is kept for the control plane.
 *
 * The program may be exchanged for another while packets move. What an ingress has seen leaves by the egress of the same
 * instance, which is kept until then: a context knows its pool, and that is its instance's.
 *
 * Packets that come round (resubmitted, recirculated, or clones of the egress) are bounded in number between two packets that
 * come from outside at one instant, so that a program that loops is stopped and time goes on.
 */
#ifndef NETCORE_SWITCH_H
#define NETCORE_SWITCH_H

#include "../dataplane/native/runtime/abi.h"
#include "buffer.h"
#include "context.h"
#include "records.h"
#include "replicas.h"

#define SWITCH_PORTS 510      /* port numbers of v1model are 9 bits, of which the last two have a meaning: */
#define SWITCH_CPU_PORT 510   /* to the control plane (p4lang's own programs) */
#define SWITCH_PASSES 4096    /* times that packets come round at one instant */
#define SWITCH_RECORDS 4096   /* digests, messages and packets to the control plane that wait to be fetched */
#define SWITCH_TRUE_DEPTH UINT32_MAX

/* Of all packets, or of the job's. */
struct switch_counts {
    uint64_t received;        /* from links */
    uint64_t injected;        /* from the control plane, to ports and from them */
    uint64_t duplicated;      /* copies made by multicast and clones, also those there was no memory for */
    uint64_t dropped_program;
    uint64_t dropped_assert;  /* an assert or assume of the program did not hold */
    uint64_t dropped_port;    /* sent to a port that the switch has not */
    uint64_t dropped_passes;
    uint64_t dropped_memory;
    uint64_t punted;
    uint64_t dropped_punt;    /* the control plane did not fetch them in time */
};

struct switch_port {
    struct p4_switch *of;
    uint32_t number;
    struct egress *egress;    /* NULL: it has no link */
    const struct link *from;  /* what comes in; NULL: nothing does */
};

/* A program's instance, with the contexts of the packets that it saw. */
struct pipeline {
    struct context_pool contexts; /* first, so that a context leads to its pipeline */
    struct p4_switch *of;
    const struct p4_program *program;
    struct p4_instance *instance;
    uint8_t *digest;              /* room for one */
    bool in_force;                /* it is the switch's present one, or was */
    struct pipeline *before;      /* the one that it took the place of, while packets of that are in queues */
};

/* Where packets leave by a port; NULL: nowhere. */
struct switch_exit {
    struct egress *egress;
    const struct link *link;
};

/* What each packet needs comes first. */
struct p4_switch {
    _Alignas(CACHE_LINE) struct pipeline *now;
    struct packet_pool *pool;
    int64_t dilation;         /* the program's times are the fabric's divided by it */
    int64_t instant_ns;
    uint32_t passes;          /* at that instant */
    uint32_t number;
    struct switch_exit exits[SWITCH_PORTS]; /* by number */
    struct pipeline *loaded;  /* to be in force next; NULL: none */
    uint32_t told_depth;      /* in place of true queue depths, unless it is SWITCH_TRUE_DEPTH */
    struct switch_port *ports[SWITCH_PORTS]; /* by number */
    struct replica_lists groups, sessions;
    struct buffer buffer;
    struct switch_counts counts[LINK_OWNERS];
    struct packet_list punting; /* to the control plane, after what is on its way there */
    bool punts_now;
    struct records digests, messages, punts;
    uint64_t digest_count, lost_digests, lost_messages;
};

/* False: no memory. The program speaks this ABI version. Packets of the pool get the headroom that it needs. */
bool switch_init(struct p4_switch *of, const struct p4_program *program, uint64_t seed, uint32_t dilation, uint32_t number,
                 struct packet_pool *pool);
void switch_destroy(struct p4_switch *of);

/* Make an instance of another program, in place of one that was loaded before; it is `of->loaded`. False: no memory. */
bool switch_load(struct p4_switch *of, const struct p4_program *program, uint64_t seed);

/* What the loaded instance's ingress says of a frame that comes by a port; it goes nowhere. False: no memory. One is loaded. */
bool switch_probe(struct p4_switch *of, uint32_t port, const uint8_t *frame, size_t length, int64_t now_ns,
                  struct p4_verdict *verdict);

/* Have the loaded instance in force. False: none is loaded. */
bool switch_swap(struct p4_switch *of);

/* Queue as the options say, and by weights or strictly (NULL), at all ports that have a link. False: no memory. */
bool switch_configure(struct p4_switch *of, const struct buffer_options *options, const uint32_t *weights);

/* Say where packets leave by a port. */
void switch_lead_out(struct switch_port *port, struct egress *egress);

/* A packet will come soon: have what is looked at for it fetched. */
static inline void switch_soon(const struct p4_switch *of)
{
    __builtin_prefetch(of);
    __builtin_prefetch(&of->counts[LINK_FIRST_JOB].received);
}

/* Take in a packet that came by a port; the switch owns it. */
void switch_receive(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns);

/* As if it came by a port, from the control plane. */
void switch_inject(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns);

/* Send a packet to a port's queue, past the program. The port has a link. */
void switch_send_out(struct switch_port *port, struct packet *packet, int64_t now_ns);

/* What the egress of a `struct switch_port` calls when a packet with a context leaves its queue. */
struct packet *switch_leave(void *port, struct packet *packet, uint64_t deq_depth, int64_t now_ns);

#endif
