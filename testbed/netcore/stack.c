#include "stack.h"

#include "clock.h"
#include "fabric.h"

#include <stdlib.h>

static void on_done(struct event *event, int64_t at_ns);
static void on_drained(struct egress *egress, int64_t now_ns);

struct stack *stack_new(struct fabric_port *port)
{
    struct stack *stack = calloc(1, sizeof *stack);
    if (!stack || !eventq_attach(&port->fabric->events, 1)) {
        free(stack);
        return NULL;
    }
    stack->port = port;
    stack->done.fire = on_done;
    port->egress.drained = on_drained;
    return stack;
}

void stack_free(struct stack *stack)
{
    if (!stack)
        return;
    for (struct sink *sink = stack->sinks, *next; sink; sink = next) {
        next = sink->next;
        free(sink);
    }
    free(stack);
}

bool stack_add_sink(struct stack *stack, uint16_t first, uint16_t last)
{
    struct sink *sink = malloc(sizeof *sink);
    if (!sink)
        return false;
    *sink = (struct sink){stack->sinks, first, last, 0, 0};
    stack->sinks = sink;
    return true;
}

/* --- the processor ------------------------------------------------------------------------------------------------- */

/* Have a packet served after those before it; false: that takes no time. */
static bool serve(struct stack *stack, struct packet *packet, int64_t now_ns)
{
    int64_t cost_ps = stack->per_packet_ps + stack->per_byte_ps * packet->length;
    if (!cost_ps && !stack->served.first)
        return false;
    if (stack->busy_ns < now_ns) {
        stack->busy_ns = now_ns;
        stack->busy_ps = 0;
    }
    stack->busy_ps += cost_ps;
    stack->busy_ns += stack->busy_ps / PS_PER_NS;
    stack->busy_ps %= PS_PER_NS;
    packet->due_ns = stack->busy_ns;
    if (!stack->served.first)
        eventq_schedule(&stack->port->fabric->events, &stack->done, packet->due_ns);
    packet_append(&stack->served, packet);
    return true;
}

static struct socket *socket_of(const struct stack *stack, uint16_t udp_port)
{
    struct socket *socket = stack->sockets;
    while (socket && socket->udp_port != udp_port)
        socket = socket->next;
    return socket;
}

static uint16_t target_port(const struct packet *packet)
{
    return load16(packet->frame + packet->layout.transport + 2);
}

static void on_done(struct event *event, int64_t at_ns)
{
    struct stack *stack = CONTAINER_OF(event, struct stack, done);
    struct packet *packet = packet_take(&stack->served);
    if (stack->served.first)
        eventq_schedule(&stack->port->fabric->events, &stack->done, stack->served.first->due_ns);
    if (packet->link) {
        socket_receive(socket_of(stack, target_port(packet)), packet, at_ns);
        return;
    }
    stack->sending--;
    fabric_emit(stack->port, packet, at_ns);
    if (!stack->sending && !stack->port->egress.backlog)
        on_drained(&stack->port->egress, at_ns);
}

/* --- packets ------------------------------------------------------------------------------------------------------- */

static bool sinks(struct stack *stack, struct packet *packet, uint16_t udp_port)
{
    for (struct sink *sink = stack->sinks; sink; sink = sink->next)
        if (udp_port >= sink->first && udp_port <= sink->last) {
            sink->packets++;
            sink->bytes += packet->length;
            packet_free(&stack->port->fabric->pool, packet);
            return true;
        }
    return false;
}

bool stack_receive(struct stack *stack, struct packet *packet)
{
    if (packet_layout(packet)->protocol != PROTOCOL_UDP)
        return false;
    uint16_t udp_port = target_port(packet);
    struct socket *socket = socket_of(stack, udp_port);
    if (!socket)
        return sinks(stack, packet, udp_port);
    if (!serve(stack, packet, packet->due_ns))
        socket_receive(socket, packet, packet->due_ns);
    return true;
}

/* Account for what the NIC gets, or has from before, at `at_ns`, as its link will. */
static void account(struct stack *stack, uint64_t wire_bytes, int64_t at_ns)
{
    uint64_t rate_bps = stack->port->out->parameters.rate_bps, scaled = wire_bytes * 8 * NS_PER_S;
    if (at_ns > stack->nic_ns) {
        stack->nic_ns = at_ns;
        stack->nic_remainder = 0;
    }
    stack->nic_remainder += scaled % rate_bps;
    stack->nic_ns += (int64_t)(scaled / rate_bps + stack->nic_remainder / rate_bps);
    stack->nic_remainder %= rate_bps;
}

/* On the wire, of what waits in the NIC: nothing, where the sender asks whether it is free. */
static uint64_t waiting_bytes(const struct egress *egress)
{
    uint64_t bytes = 0;
    for (unsigned left = egress->backlog; left; left &= left - 1) {
        const struct packet *packet = egress->queues[__builtin_ctz(left)].packets.first;
        for (; packet; packet = packet->next)
            bytes += packet->length + (uint64_t)WIRE_OVERHEAD_BYTES;
    }
    return bytes;
}

void stack_send(struct stack *stack, struct packet_list packets, int64_t now_ns)
{
    const struct link *link = stack->port->out;
    if (!stack->sending) { /* what it has is in the link: its rate may have changed since, or a pause be over */
        stack->nic_ns = link->free_ns;
        stack->nic_remainder = link->remainder;
        account(stack, waiting_bytes(&stack->port->egress), now_ns);
    }
    for (struct packet *packet; (packet = packet_take(&packets));) {
        packet->link = NULL;
        bool waits = serve(stack, packet, now_ns);
        account(stack, packet->length + (uint64_t)WIRE_OVERHEAD_BYTES, waits ? packet->due_ns : now_ns);
        stack->sending += waits;
        if (!waits)
            fabric_emit(stack->port, packet, now_ns);
    }
}

bool stack_is_free(const struct stack *stack, int64_t now_ns)
{
    return !stack->sending && !stack->port->egress.backlog && stack->port->out->free_ns <= now_ns;
}

int64_t stack_free_ns(const struct stack *stack)
{
    return stack->sending || stack->port->egress.backlog ? EVENTQ_NEVER : stack->port->out->free_ns;
}

static void on_drained(struct egress *egress, int64_t now_ns)
{
    struct stack *stack = CONTAINER_OF(egress, struct fabric_port, egress)->stack;
    for (struct socket *socket = stack->sending ? NULL : stack->sockets; socket; socket = socket->next)
        socket_nic_drained(socket, now_ns);
}
