/* A UDP socket of a host under a virtual clock: what came and was not told of yet, and when it has its turn.
 *
 * RoCE's packets are told of in runs, as receive offload would have them, but never late: what an endpoint may react to has
 * the socket's turn follow at once. All but the last of a message may wait: in sequence, without an acknowledgement asked
 * for, without Congestion Experienced and with the same ToS as the packet before, since a go-back-N receiver does no more than
 * keep it (that nothing is posted for a message it says at its end). It waits for anything that gives the socket its turn.
 */
#ifndef NETCORE_SOCKET_H
#define NETCORE_SOCKET_H

#include "due.h"
#include "flows.h"
#include "packet.h"

struct stack;

/* Packets whose payloads lie end to end in one piece of memory, each `segment_bytes` but the last; or one for itself. */
struct arrived {
    struct arrived *next;
    struct packet_list packets;
    uint32_t count;
    uint32_t segment_bytes;
    uint32_t last_bytes;
    const uint8_t *payload; /* of a split packet */
    bool corrupt;           /* a packet that a NIC throws away */
};

/* Something that rings in the event queue; the alarm may have moved since. */
struct ring {
    struct event event;
    struct socket *socket;
    int64_t at_ns;
    struct ring *later; /* which rings after this */
};

struct socket {
    struct due due;
    struct socket *next; /* of its stack */
    struct stack *stack;
    uint16_t udp_port;
    bool roce;
    bool coalesces;        /* by `opcodes` */
    uint8_t opcodes[256];  /* as roce.h has them */
    struct flows flows;
    uint64_t turn;         /* counts the times that what waited was taken, from 1 */
    struct arrived *first, *last; /* what waits to be told of */
    struct arrived *spare;
    struct ring *rings;    /* that are scheduled, the earliest first */
    struct ring *spare_rings;
    int64_t alarm_ns;      /* EVENTQ_NEVER: there is none */
    bool alarm_free;       /* it waits for a free NIC beyond that */
    bool alarm_waits;      /* the instant is over, and the NIC is not free */
};

void socket_init(struct socket *socket, struct stack *stack, uint16_t udp_port, bool roce, const uint8_t *opcodes);
void socket_destroy(struct socket *socket);

/* Take in a UDP packet for this socket at `now_ns`. */
void socket_receive(struct socket *socket, struct packet *packet, int64_t now_ns);

/* All that waits to be told of, for socket_forget. */
struct arrived *socket_take(struct socket *socket);

/* Have done with what was told of, and its packets. */
void socket_forget(struct socket *socket, struct arrived *arrived);

/* Set the alarm; `now_ns` or before: at once. False: no memory. */
bool socket_set_alarm(struct socket *socket, int64_t at_ns, bool free, int64_t now_ns);

/* The NIC has nothing waiting any more, but may be serialising still. */
void socket_nic_drained(struct socket *socket, int64_t now_ns);

/* --- what is in a RoCE packet, for whoever tells of it ---------------------------------------------------------------- */

struct roce_frame {
    uint32_t header_at, header_bytes;
    uint32_t payload_bytes;
};

/* Find it; false: it is no whole packet with an opcode that is known. */
bool socket_read_roce(const struct socket *socket, struct packet *packet, struct roce_frame *found);

#endif
