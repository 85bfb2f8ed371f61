#include "egress.h"

#define QUANTUM_BYTES 1600 /* of the least weight: at least a usual packet, so that each turn sends one */

static void on_freed(struct link_source *source, int64_t at_ns);
static void on_cut(struct link_source *source, int64_t at_ns);
static void on_resume(struct event *event, int64_t at_ns);

bool egress_init(struct egress *egress, struct link *link)
{
    *egress = (struct egress){.source = {on_freed, on_cut}, .link = link, .resume.fire = on_resume};
    link->source = &egress->source;
    return eventq_attach(link->events, 1);
}

void egress_schedule(struct egress *egress, const uint32_t *weights)
{
    uint32_t least = UINT32_MAX;
    egress->weighted = weights;
    if (!weights)
        return;
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        least = weights[i] < least ? weights[i] : least;
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        egress->queues[i].quantum = (uint64_t)weights[i] * QUANTUM_BYTES / least;
}

/* The priorities that may not be served. */
static uint8_t paused(struct egress *egress, int64_t now_ns)
{
    for (uint8_t left = egress->paused; left; left &= (uint8_t)(left - 1)) {
        int priority = __builtin_ctz(left);
        if (egress->queues[priority].paused_until_ns <= now_ns)
            egress->paused &= (uint8_t)~(1u << priority);
    }
    return egress->paused;
}

/* Deficit round robin among the priorities in `ready`. */
static unsigned pick_weighted(struct egress *egress, uint8_t ready)
{
    unsigned turn = egress->turn;
    while (!(ready >> turn & 1) || egress->queues[turn].deficit < egress->queues[turn].packets.first->length) {
        unsigned from_next = (unsigned)(ready | ready << PACKET_PRIORITIES) >> (turn + 1);
        turn = (turn + 1 + (unsigned)__builtin_ctz(from_next)) % PACKET_PRIORITIES;
        egress->queues[turn].deficit += egress->queues[turn].quantum;
    }
    egress->turn = (uint8_t)turn;
    egress->queues[turn].deficit -= egress->queues[turn].packets.first->length;
    return turn;
}

/* Take the first packet out of a queue. */
static struct packet *take(struct egress *egress, unsigned priority)
{
    struct egress_queue *queue = &egress->queues[priority];
    struct packet *packet = packet_take(&queue->packets);
    queue->bytes -= packet->length;
    egress->link->queued_bytes -= packet->length;
    if (!queue->packets.first) {
        egress->backlog &= (uint8_t)~(1u << priority);
        queue->deficit = 0;
    }
    return packet;
}

/* Send a packet for which the link is free; false: the owner took it. */
static bool depart(struct egress *egress, struct packet *packet, int64_t now_ns)
{
    struct link *link = egress->link;
    if (egress->leave) {
        uint8_t flags = packet->flags;
        packet = egress->leave(egress->owner, packet, egress->queues[packet->priority].bytes, now_ns);
        if (!packet) {
            LINK_COUNT(link, flags, consumed, 1);
            return false;
        }
    }
    if (packet->flags & PACKET_CONGESTED && frame_mark_congestion(packet->frame, packet_layout(packet)))
        LINK_COUNT(link, packet->flags, ecn_marked, 1);
    packet->flags &= (uint8_t)~PACKET_CONGESTED;
    link_serve(link, packet, now_ns);
    return true;
}

/* Have the earliest end of a pause told that holds up what waits. */
static void await_resume(struct egress *egress)
{
    int64_t at_ns = INT64_MAX;
    for (unsigned left = egress->backlog & egress->paused; left; left &= left - 1) {
        int64_t until_ns = egress->queues[__builtin_ctz(left)].paused_until_ns;
        at_ns = until_ns < at_ns ? until_ns : at_ns;
    }
    if (at_ns == INT64_MAX || (egress->resuming && egress->resume_ns <= at_ns))
        return;
    if (egress->resuming)
        eventq_cancel(egress->link->events, &egress->resume);
    egress->resuming = true;
    egress->resume_ns = at_ns;
    eventq_schedule(egress->link->events, &egress->resume, at_ns);
}

/* Serve what the link is free for, and see to it that the rest has its time. */
static void serve(struct egress *egress, int64_t now_ns)
{
    struct link *link = egress->link;
    uint8_t ready;
    if (egress->serving)
        return;
    egress->serving = true;
    while ((ready = egress->backlog & (uint8_t)~paused(egress, now_ns)) && link->free_ns <= now_ns) {
        unsigned priority = egress->weighted ? pick_weighted(egress, ready) : 31 - (unsigned)__builtin_clz(ready);
        depart(egress, take(egress, priority), now_ns);
    }
    egress->serving = false;
    if (ready)
        link_await(link, egress->leave);
    if (egress->backlog & egress->paused)
        await_resume(egress);
}

void egress_send(struct egress *egress, struct packet *packet, int64_t now_ns)
{
    struct link *link = egress->link;
    if (!link_enter(link, packet))
        return;
    struct egress_queue *queue = &egress->queues[packet->priority];
    uint8_t bit = (uint8_t)(1u << packet->priority), held = paused(egress, now_ns);
    bool free = !egress->serving && link->free_ns <= now_ns && !(egress->backlog & (uint8_t)~held) && !(held & bit);
    if (!free && !link->parameters.never_drops && link->queued_bytes + packet->length > link->parameters.queue_bytes) {
        link_drop_queued(link, packet);
        return;
    }
    packet->enqueued_ns = now_ns;
    packet->enqueued_depth = (uint32_t)queue->bytes;
    if (link_congested(link, queue->bytes))
        packet->flags |= PACKET_CONGESTED;
    if (free) {
        egress->serving = true;
        depart(egress, packet, now_ns);
        egress->serving = false;
        if (egress->backlog)
            serve(egress, now_ns);
        return;
    }
    packet_append(&queue->packets, packet);
    queue->bytes += packet->length;
    egress->backlog |= bit;
    link->queued_bytes += packet->length;
    if (link->queued_bytes > link->max_queued_bytes)
        link->max_queued_bytes = link->queued_bytes;
    if (!link->awaited || held & bit)
        serve(egress, now_ns);
}

void egress_pause(struct egress *egress, unsigned priority, int64_t until_ns, int64_t now_ns)
{
    egress->queues[priority].paused_until_ns = until_ns;
    egress->paused |= (uint8_t)(1u << priority);
    serve(egress, now_ns);
}

static void on_freed(struct link_source *source, int64_t at_ns)
{
    serve(CONTAINER_OF(source, struct egress, source), at_ns);
}

static void on_resume(struct event *event, int64_t at_ns)
{
    struct egress *egress = CONTAINER_OF(event, struct egress, resume);
    egress->resuming = false;
    serve(egress, at_ns);
}

static void on_cut(struct link_source *source, int64_t at_ns)
{
    struct egress *egress = CONTAINER_OF(source, struct egress, source);
    (void)at_ns;
    while (egress->backlog)
        link_drop_down(egress->link, take(egress, (unsigned)__builtin_ctz(egress->backlog)));
    egress->paused = 0;
}
