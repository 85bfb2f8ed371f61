#include "socket.h"

#include "fabric.h"
#include "icrc.h"
#include "roce.h"
#include "split.h"

#include <stdlib.h>
#include <string.h>

#define PSN_MODULUS (1u << 24)
#define PSN_MASK (PSN_MODULUS - 1)
#define QUEUE_PAIR_AT 5
#define PSN_AT 9
#define ACK_REQUEST_AT 8
#define ACK_REQUEST 0x80
#define PAD_AT 1
#define PAD_SHIFT 4
#define PAD_MASK 3

void socket_init(struct socket *socket, struct stack *stack, uint16_t udp_port, bool roce, const uint8_t *opcodes)
{
    *socket = (struct socket){.stack = stack, .udp_port = udp_port, .roce = roce, .turn = 1, .alarm_ns = EVENTQ_NEVER};
    socket->coalesces = roce && opcodes;
    if (opcodes)
        memcpy(socket->opcodes, opcodes, sizeof socket->opcodes);
}

static struct fabric *fabric_of_socket(const struct socket *socket)
{
    return socket->stack->port->fabric;
}

void socket_destroy(struct socket *socket)
{
    socket_forget(socket, socket_take(socket));
    for (struct arrived *arrived = socket->spare, *next; arrived; arrived = next) {
        next = arrived->next;
        free(arrived);
    }
    for (struct ring *lists[] = {socket->rings, socket->spare_rings}, **list = lists; list < lists + 2; list++)
        for (struct ring *ring = *list, *next; ring; ring = next) {
            next = ring->later;
            free(ring);
        }
    flows_destroy(&socket->flows);
}

static void give_turn(struct socket *socket, int64_t now_ns)
{
    due_add(&fabric_of_socket(socket)->due, &socket->due, now_ns);
}

/* --- arrivals ------------------------------------------------------------------------------------------------------ */

bool socket_read_roce(const struct socket *socket, struct packet *packet, struct roce_frame *found)
{
    const struct frame_layout *layout = packet_layout(packet);
    const uint8_t *bth = packet->frame + layout->payload;
    uint32_t bytes = layout->end - layout->payload;
    if (layout->end != packet->length || bytes < BTH_BYTES + ICRC_BYTES || bytes % 4 ||
        packet_here(packet) < layout->payload + BTH_BYTES)
        return false;
    uint32_t header_bytes = socket->coalesces ? socket->opcodes[bth[0]] & ROCE_OPCODE_HEADER : BTH_BYTES;
    uint32_t behind = (bth[PAD_AT] >> PAD_SHIFT & PAD_MASK) + ICRC_BYTES;
    if (header_bytes < BTH_BYTES || header_bytes + behind > bytes || packet_here(packet) < layout->payload + header_bytes)
        return false;
    *found = (struct roce_frame){layout->payload, header_bytes, bytes - header_bytes - behind};
    return true;
}

/* Whether a packet all of whose bytes are there has the ICRC that it should have. */
static bool is_intact(const struct packet *packet)
{
    const struct frame_layout *layout = &packet->layout;
    const uint8_t *frame = packet->frame, *stored = frame + layout->end - ICRC_BYTES;
    uint32_t right = icrc(frame + layout->network, layout->transport - layout->network, frame + layout->transport,
                          frame + layout->payload, layout->end - layout->payload - ICRC_BYTES);
    return (stored[0] | (uint32_t)stored[1] << 8 | (uint32_t)stored[2] << 16 | (uint32_t)stored[3] << 24) == right;
}

static struct arrived *new_arrived(struct socket *socket, bool corrupt)
{
    struct arrived *arrived = socket->spare;
    if (arrived)
        socket->spare = arrived->next;
    else if (!(arrived = malloc(sizeof *arrived)))
        return NULL;
    *arrived = (struct arrived){.corrupt = corrupt};
    if (socket->last)
        socket->last->next = arrived;
    else
        socket->first = arrived;
    socket->last = arrived;
    return arrived;
}

/* Have a packet wait by itself; NULL: there is no memory, and it is gone. */
static struct arrived *begin_run(struct socket *socket, struct packet *packet, bool corrupt)
{
    struct arrived *run = new_arrived(socket, corrupt);
    if (!run) {
        packet_free(&fabric_of_socket(socket)->pool, packet);
        return NULL;
    }
    packet_append(&run->packets, packet);
    run->count = 1;
    return run;
}

/* Where the payload of a split packet lies in the memory that it refers to. */
static const uint8_t *payload_of(const struct packet *packet, const struct roce_frame *at)
{
    return packet->rest - (packet->here - at->header_at - at->header_bytes);
}

static bool joins(const struct arrived *run, const struct packet *packet, const struct roce_frame *at)
{
    const struct packet *last = run->packets.last;
    return !run->corrupt && last->flags & packet->flags & PACKET_SPLIT && last->payload == packet->payload &&
           run->last_bytes == run->segment_bytes && at->payload_bytes <= run->segment_bytes && at->payload_bytes &&
           payload_of(packet, at) == run->payload + (size_t)run->count * run->segment_bytes;
}

/* Take in a packet of a flow; whether it may wait. */
static bool receive_in_flow(struct socket *socket, struct packet *packet, const struct roce_frame *at)
{
    const uint8_t *bth = packet->frame + at->header_at, *ip = packet->frame + packet->layout.network;
    uint32_t queue_pair = load32(bth + QUEUE_PAIR_AT - 1) & PSN_MASK, psn = load32(bth + PSN_AT - 1) & PSN_MASK;
    uint8_t opcode = socket->opcodes[bth[0]], tos = ip[1];
    struct flow *flow = flows_find(&socket->flows, load32(ip + 12), queue_pair);
    bool goes_on = opcode & ROCE_OPCODE_GOES_ON, follows = flow && flow->turn && flow->next == psn && flow->tos == tos;
    bool quiet = follows && goes_on && !(bth[ACK_REQUEST_AT] & ACK_REQUEST) && (tos & ECN_MASK) != ECN_CE;
    bool open = follows && flow->turn == socket->turn && !(opcode & ROCE_OPCODE_BEGINS) && joins(flow->run, packet, at);
    struct arrived *run;
    if (open) {
        run = flow->run;
        packet_append(&run->packets, packet);
        run->count++;
    } else if (!(run = begin_run(socket, packet, false))) {
        return true;
    } else {
        run->segment_bytes = at->payload_bytes;
        run->payload = packet->flags & PACKET_SPLIT ? payload_of(packet, at) : NULL;
    }
    run->last_bytes = at->payload_bytes;
    if (!flow || !at->payload_bytes)
        return quiet; /* acknowledgements are of the other direction's PSNs */
    bool first = !flow->turn;
    flow->run = run;
    flow->turn = socket->turn;
    flow->tos = tos;
    if (first || ((psn - flow->next) & PSN_MASK) < PSN_MODULUS / 2)
        flow->next = (psn + 1) & PSN_MASK;
    return quiet;
}

void socket_receive(struct socket *socket, struct packet *packet, int64_t now_ns)
{
    struct roce_frame at;
    if (!socket->coalesces) { /* how long a header is, is not known, and plain bytes are all told */
        struct packet *filled = split_fill(&fabric_of_socket(socket)->pool, packet, SPLIT_ALL);
        packet = filled ? filled : packet;
    }
    if (!socket->roce) {
        bool flipped = packet->flags & PACKET_CORRUPTED;
        bool corrupt = packet_here(packet) < packet->length ||
                       (flipped && !frame_transport_intact(packet->frame, &packet->layout, (struct frame_tail){0}));
        struct arrived *run = begin_run(socket, packet, corrupt);
        if (run)
            run->segment_bytes = packet->layout.end - packet->layout.payload;
    } else if (!socket_read_roce(socket, packet, &at) ||
               !(packet->flags & PACKET_SPLIT ? socket->coalesces && !split_is_cut(packet) : is_intact(packet))) {
        begin_run(socket, packet, true);
    } else if (socket->coalesces) {
        if (receive_in_flow(socket, packet, &at))
            return;
    } else {
        struct arrived *run = begin_run(socket, packet, false);
        if (run)
            run->segment_bytes = run->last_bytes = at.payload_bytes;
    }
    give_turn(socket, now_ns);
}

struct arrived *socket_take(struct socket *socket)
{
    struct arrived *first = socket->first;
    socket->first = socket->last = NULL;
    socket->turn++;
    return first;
}

void socket_forget(struct socket *socket, struct arrived *arrived)
{
    struct packet_pool *pool = &fabric_of_socket(socket)->pool;
    for (struct arrived *next; arrived; arrived = next) {
        next = arrived->next;
        for (struct packet *packet; (packet = packet_take(&arrived->packets));)
            packet_free(pool, packet);
        arrived->next = socket->spare;
        socket->spare = arrived;
    }
}

/* --- the alarm ----------------------------------------------------------------------------------------------------- */

static void on_ring(struct event *event, int64_t at_ns);

/* Have something ring at an instant, unless something does before. */
static bool ring_by(struct socket *socket, int64_t at_ns)
{
    struct eventq *events = &fabric_of_socket(socket)->events;
    if (at_ns == EVENTQ_NEVER || (socket->rings && socket->rings->at_ns <= at_ns))
        return true;
    struct ring *ring = socket->spare_rings;
    if (ring)
        socket->spare_rings = ring->later;
    else if (!(ring = malloc(sizeof *ring)))
        return false;
    else if (!eventq_attach(events, 1)) {
        free(ring);
        return false;
    }
    *ring = (struct ring){{.fire = on_ring}, socket, at_ns, socket->rings};
    socket->rings = ring;
    eventq_schedule(events, &ring->event, at_ns);
    return true;
}

/* The alarm's instant has come. */
static void come(struct socket *socket, int64_t now_ns)
{
    if (socket->alarm_free && !stack_is_free(socket->stack, now_ns)) {
        socket->alarm_waits = true;
        socket->alarm_ns = stack_free_ns(socket->stack);
        ring_by(socket, socket->alarm_ns);
        return;
    }
    socket->alarm_waits = false;
    socket->alarm_ns = EVENTQ_NEVER;
    give_turn(socket, now_ns);
}

static void on_ring(struct event *event, int64_t at_ns)
{
    struct ring *ring = CONTAINER_OF(event, struct ring, event);
    struct socket *socket = ring->socket;
    socket->rings = ring->later;
    ring->later = socket->spare_rings;
    socket->spare_rings = ring;
    if (socket->alarm_ns <= at_ns)
        come(socket, at_ns);
    else
        ring_by(socket, socket->alarm_ns); /* the ring that is spare now serves for it */
}

bool socket_set_alarm(struct socket *socket, int64_t at_ns, bool free, int64_t now_ns)
{
    socket->alarm_ns = at_ns > now_ns ? at_ns : now_ns;
    socket->alarm_free = free;
    socket->alarm_waits = false;
    return ring_by(socket, socket->alarm_ns);
}

void socket_nic_drained(struct socket *socket, int64_t now_ns)
{
    if (!socket->alarm_waits)
        return;
    int64_t free_ns = stack_free_ns(socket->stack);
    socket->alarm_ns = free_ns > now_ns ? free_ns : now_ns;
    ring_by(socket, socket->alarm_ns);
}
