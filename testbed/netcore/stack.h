/* What a host at a memory port has above its NIC, under a virtual clock: sockets, sinks, and a processor that takes its time.
 *
 * The processor serves one packet at a time, of those that come and those that are sent, in their order. What arrives for a
 * socket is told of between two events (fabric_play); a sink counts what comes and forgets it; what is for neither is kept
 * as of any memory port.
 */
#ifndef NETCORE_STACK_H
#define NETCORE_STACK_H

#include "socket.h"

#define PS_PER_NS 1000

struct fabric_port;

struct sink {
    struct sink *next;
    uint16_t first, last; /* UDP ports */
    uint64_t packets, bytes;
};

struct stack {
    struct fabric_port *port;
    struct socket *sockets; /* few */
    struct sink *sinks;
    /* The processor's: */
    int64_t per_packet_ps, per_byte_ps;
    int64_t busy_ns;            /* until when it is */
    int64_t busy_ps;            /* and what of a nanosecond more */
    struct packet_list served;  /* and to be served, each with the end of its service as `due_ns`; sent ones have no `link` */
    uint64_t sending;           /* of them */
    struct event done;          /* the service of the first */
    /* When the NIC will have serialised what it was handed, unless something pauses it: */
    int64_t nic_ns;
    uint64_t nic_remainder;
};

/* A stack for a memory port with a link; NULL: no memory. */
struct stack *stack_new(struct fabric_port *port);
void stack_free(struct stack *stack);

/* Have UDP packets to a range of ports end here. False: no memory. */
bool stack_add_sink(struct stack *stack, uint16_t first, uint16_t last);

/* Take in a packet that came by the link. False: it is for nobody here, and the caller's still. */
bool stack_receive(struct stack *stack, struct packet *packet);

/* Hand packets to the NIC, when the processor has served them. */
void stack_send(struct stack *stack, struct packet_list packets, int64_t now_ns);

/* Whether nothing is on its way to the NIC, or waits in it, or is being serialised. */
bool stack_is_free(const struct stack *stack, int64_t now_ns);

/* The instant at which it may be so, if nothing waits; EVENTQ_NEVER: something does, of which stack_drained will tell. */
int64_t stack_free_ns(const struct stack *stack);

#endif
