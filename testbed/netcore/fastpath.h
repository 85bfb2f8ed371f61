/* The fast path of a simulated rank: RoCE and its part of a schedule, as long as nothing odd comes.
 *
 * It does what testbed.transport.roce, testbed.collective.executor and testbed.simulation do, in their order and at their
 * instants, for what a network without loss brings about: WRITEs with immediate data in sequence, each for a receive that is
 * posted and as long, plain acknowledgements, timers that do not run out, no congestion control that has heard of anything.
 * Whatever else comes is odd. It is not looked into here: nothing of it is taken in, and who owns this goes on with the full
 * protocol from the state that is told. So all that is here is what both have to do the same; there is no other state.
 *
 * Sequence numbers are whole numbers that never wrap; PSNs are their low 24 bits.
 */
#ifndef NETCORE_FASTPATH_H
#define NETCORE_FASTPATH_H

#include "outgoing.h"

#define FAST_NONE UINT32_MAX

/* Of an operation; those up to FAST_DONE are the executor's. */
enum fast_state { FAST_WAITING, FAST_POSTED, FAST_LANDED, FAST_DONE, FAST_TAKEN /* posted, and a message is there for it */ };

/* Numbers that a layer's elements are. */
enum fast_type { FAST_NO_NUMBERS, FAST_FLOATS, FAST_WORDS };

/* Operations in the order in which something happened to them. */
struct fast_queue {
    uint32_t *ids; /* a ring */
    uint32_t capacity, first, count;
};

/* A rank's operations on a layer, as testbed.collective.program has them. The number of operation i is first_id + i. */
struct fast_layer {
    uint32_t operations;
    const uint8_t *send, *reduces;
    const int32_t *peer, *tag, *awaited; /* for so many operations each waits */
    const int64_t *first, *last, *freed;
    const int32_t *frees;
    const int64_t *places; /* element of the scratch from which on each receive lands */
    uint8_t *bytes;        /* of its part of the buffer */
    uint8_t *scratch;
    uint64_t elements, scratch_elements;
    uint32_t first_id;
    int64_t tags; /* of the schedule */
    uint32_t *receives; /* by tag */
    uint32_t receive_count;
    /* In this iteration: */
    int64_t first_tag;
    uint8_t *states;
    int32_t *waits;
    uint32_t left;
    uint32_t expected; /* of the receives: the one after that which came last */
};

/* A queue pair. */
struct fast_pair {
    struct fast_pair *next, *before; /* of those that have something to send or to wait for */
    bool active;
    uint32_t peer, ip; /* of the other rank */
    uint32_t local_qp, remote_qp;
    uint16_t source_port;
    /* What it sends: */
    struct fast_queue messages; /* not acknowledged as a whole */
    uint32_t current;           /* of them, the one that is sent next */
    int64_t current_first;      /* its first packet */
    int64_t head_first;         /* that of the first of them */
    int64_t unacknowledged, next_packet, end, asked;
    bool waiting;     /* for an acknowledgement that was asked for */
    int64_t timer_ns; /* EVENTQ_NEVER: none */
    int64_t open_ns, departed_ns, departed_bits;
    /* What comes: */
    int64_t expected;
    uint32_t completed; /* messages */
    uint32_t since;     /* packets, since the last acknowledgement */
    bool speaks;        /* an acknowledgement is due */
    uint32_t incoming;  /* the receive that is under way, or FAST_NONE */
    uint64_t filled;    /* bytes of it */
};

struct fast_constants {
    uint32_t mtu_bytes, window_packets, ack_every_packets, burst_packets;
    int64_t timeout_ns; /* 0: never */
    uint32_t frame_bytes; /* around a packet's header, payload and padding, as the link counts them */
    uint8_t data_tos, control_tos;
};

struct fast_counts {
    uint64_t sent_packets, received_packets, sent_bytes, received_bytes, frame_bytes;
};

struct fast_rank {
    struct socket *socket;
    struct payload *payload; /* in which all that it sends lies */
    struct fast_constants constants;
    struct fast_pair *pairs; /* by peer */
    uint32_t *by_ip;         /* their places, by address */
    uint32_t pair_count;
    struct fast_pair *first, *last; /* of the active ones, the next to be served first */
    struct fast_layer *layers;
    uint32_t layer_count;
    uint32_t stride; /* between two layers' first ids */
    uint32_t element_bytes;
    enum fast_type type;
    struct fast_queue events;   /* operations that are complete, of which the schedule was not told */
    struct fast_queue finished; /* room for a walk */
    struct fast_counts counts;
    int64_t free_ns; /* when the NIC has serialised what it was handed */
    int64_t due_ns;  /* when something is due next, as last looked at */
    bool running, complete;
    int64_t progress_ns, received_ns; /* received_ns below 0: nothing was received yet */
    uint64_t received_bytes;
    bool lacks; /* there was no memory */
};

/* The layers' operations by tag, and room for what is in an iteration. False: no memory. */
bool fast_prepare_layers(struct fast_rank *rank);
void fast_destroy(struct fast_rank *rank);

/* Post all receives of an iteration whose tags begin at `first_tag`; the one before is over. */
void fast_prepare(struct fast_rank *rank, int64_t first_tag);

/* Begin to send; a turn is to follow. */
void fast_start(struct fast_rank *rank, int64_t now_ns);

/* Take in what came; the first run that is odd, with which all ends, or NULL. */
struct arrived *fast_receive(struct fast_rank *rank, struct arrived *arrived, int64_t now_ns);

/* Whether a timer has run out, which is odd. */
bool fast_expired(const struct fast_rank *rank, int64_t now_ns);

/* Do what can be done now, and set the alarm; whether the rank has come to the end of its iteration. */
bool fast_turn(struct fast_rank *rank, int64_t now_ns);

/* No send is unacknowledged, and nothing waits to be sent. */
bool fast_idle(const struct fast_rank *rank);

/* Of the operation that has a number. */
static inline struct fast_layer *fast_layer_of(const struct fast_rank *rank, uint32_t id)
{
    return &rank->layers[rank->layer_count == 1 ? 0 : id / rank->stride];
}

/* The queue pair to a rank or to an address; NULL: there is none. */
struct fast_pair *fast_pair_to(const struct fast_rank *rank, uint32_t peer);

#endif
