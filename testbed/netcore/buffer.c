#include "buffer.h"

#include <stdlib.h>

#define LAST_QUEUES 2 /* source: public htsim's queue of an NDP switch, whose headers have twice the packets' room */

void buffer_destroy(struct buffer *buffer)
{
    for (size_t i = 0; i < BUFFER_PORTS; i++)
        free(buffer->ports[i]);
    *buffer = (struct buffer){0};
}

bool buffer_add_port(struct buffer *buffer, uint32_t number, const struct link *from, struct egress *egress)
{
    struct buffer_port *port = calloc(1, sizeof *port);
    if (!port || !pfc_init(&port->pfc, egress, from)) {
        free(port);
        return false;
    }
    buffer->ports[number] = port;
    return true;
}

static bool shares(const struct buffer *buffer, const struct egress *egress, const struct packet *packet)
{
    const struct buffer_options *of = &buffer->options;
    const struct link *link = egress->link;
    if (!of->dynamic) {
        uint64_t last = of->trim_bytes ? egress->queues[PACKET_PRIORITIES - 1].bytes : 0, room = link->parameters.queue_bytes;
        if (of->trim_bytes && packet->priority == PACKET_PRIORITIES - 1)
            return last + packet->length <= LAST_QUEUES * room;
        return link->queued_bytes - last + packet->length <= room;
    }
    if (buffer->used_bytes + packet->length > of->shared_bytes)
        return false;
    uint64_t queued = egress->queues[packet->priority].bytes + packet->length;
    return (double)queued <= of->alpha * (double)(of->shared_bytes - buffer->used_bytes);
}

static struct buffer_port *port_of(const struct buffer *buffer, const struct packet *packet)
{
    return packet->ingress < BUFFER_PORTS ? buffer->ports[packet->ingress] : NULL;
}

bool buffer_admit(struct buffer *buffer, const struct egress *egress, struct packet *packet, int64_t now_ns)
{
    const struct buffer_options *of = &buffer->options;
    struct buffer_port *port = port_of(buffer, packet);
    unsigned priority = packet->priority;
    bool controlled = port && of->pfc_priorities >> priority & 1;
    if (shares(buffer, egress, packet)) {
        buffer->used_bytes += packet->length;
        if (buffer->used_bytes > buffer->max_used_bytes)
            buffer->max_used_bytes = buffer->used_bytes;
    } else if (controlled && port->headroom_used + packet->length <= of->headroom_bytes) {
        port->headroom_bytes[priority] += packet->length;
        port->headroom_used += packet->length;
        if (port->headroom_used > port->max_headroom_used)
            port->max_headroom_used = port->headroom_used;
    } else {
        return false;
    }
    if (!port)
        return true;
    port->held_bytes[priority] += packet->length;
    bool asks = port->held_bytes[priority] >= of->xoff_bytes || port->headroom_bytes[priority];
    if (controlled && asks && !(port->pfc.asked >> priority & 1))
        pfc_ask(&port->pfc, priority, true, now_ns);
    return true;
}

void buffer_release(struct buffer *buffer, const struct packet *packet, int64_t now_ns)
{
    struct buffer_port *port = port_of(buffer, packet);
    unsigned priority = packet->priority;
    uint64_t shared_bytes = packet->length;
    if (port && port->headroom_bytes[priority]) {
        uint64_t headroom = port->headroom_bytes[priority] < shared_bytes ? port->headroom_bytes[priority] : shared_bytes;
        port->headroom_bytes[priority] -= headroom;
        port->headroom_used -= headroom;
        shared_bytes -= headroom;
    }
    buffer->used_bytes -= shared_bytes;
    if (!port)
        return;
    port->held_bytes[priority] -= packet->length;
    bool goes_on = port->held_bytes[priority] <= buffer->options.xon_bytes && !port->headroom_bytes[priority];
    if (port->pfc.asked >> priority & 1 && goes_on)
        pfc_ask(&port->pfc, priority, false, now_ns);
}
