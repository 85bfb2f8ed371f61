#include "egress.h"

#include "buffer.h"
#include "split.h"

#define QUANTUM_BYTES 1600 /* of the least weight: at least a usual packet, so that each turn sends one */

static void on_freed(struct link_source *source, int64_t at_ns);
static void on_cut(struct link_source *source, int64_t at_ns);
static void on_mended(struct link_source *source, int64_t at_ns);
static void on_soon(const struct link_source *source);
static void on_resume(struct event *event, int64_t at_ns);

bool egress_init(struct egress *egress, struct link *link)
{
    static const struct link_source_type type = {on_freed, on_cut, on_mended, on_soon};
    *egress = (struct egress){.source = {&type}, .link = link, .resume.fire = on_resume};
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
static struct packet *take(struct egress *egress, unsigned priority, int64_t now_ns)
{
    struct egress_queue *queue = &egress->queues[priority];
    struct packet *packet = packet_take(&queue->packets);
    queue->bytes -= packet->length;
    egress->link->queued_bytes -= packet->length;
    if (!queue->packets.first) {
        egress->backlog &= (uint8_t)~(1u << priority);
        queue->deficit = 0;
    }
    if (egress->buffer)
        buffer_release(egress->buffer, packet, now_ns);
    return packet;
}

void egress_cut(struct packet *packet, uint32_t length)
{
    const struct frame_layout *layout = packet_layout(packet);
    length = length > layout->payload ? length : layout->payload;
    if (packet->length < length)
        return;
    if (layout->end > length)
        frame_cut(packet->frame, layout, length);
    packet->length = length;
    packet->tail = (struct frame_tail){0};
    packet->flags |= PACKET_STALE;
    if (packet->flags & PACKET_SPLIT && packet->here >= length) {
        packet->flags &= (uint16_t)~PACKET_SPLIT;
        payload_drop(packet->payload);
    }
}

/* Send a packet for which the link is free, unless the owner takes it. */
static inline void depart(struct egress *egress, struct packet *packet, int64_t now_ns)
{
    struct link *link = egress->link;
    if (packet->context) {
        uint16_t flags = packet->flags;
        uint32_t length = packet->length;
        bool marked = frame_congested(packet->frame, packet->frame_bytes);
        packet = egress->leave(egress->owner, packet, egress->queues[packet->priority].bytes, now_ns);
        if (!packet) {
            LINK_COUNT(link, flags, consumed, 1);
            return;
        }
        if (!marked && frame_congested(packet->frame, packet->length))
            LINK_COUNT(link, flags, ecn_marked, 1); /* by the program */
        if (packet->flags & PACKET_TRIMMED)
            egress_cut(packet, length);
    } else if (packet->flags & PACKET_TRIMMED) {
        egress_cut(packet, packet->length);
    }
    if (packet->flags & PACKET_MARKED)
        LINK_COUNT(link, packet->flags, ecn_marked, 1);
    if (packet->flags & PACKET_CONGESTED && frame_mark_congestion(packet->frame, packet_layout(packet)))
        LINK_COUNT(link, packet->flags, ecn_marked, 1);
    packet->flags &= (uint16_t)~(PACKET_CONGESTED | PACKET_TRIMMED | PACKET_MARKED);
    if (egress->capture)
        split_capture(egress->capture, packet, now_ns, CAPTURE_OUTBOUND);
    link_serve(link, packet, now_ns);
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

void egress_serve(struct egress *egress, int64_t now_ns)
{
    struct link *link = egress->link;
    struct pfc *pfc = link->down ? NULL : egress->pfc; /* what is untold stays so */
    uint8_t ready = 0;
    if (egress->serving)
        return;
    egress->serving = true;
    while (link->free_ns <= now_ns) {
        struct packet *packet = pfc && pfc->untold ? pfc_take(pfc, now_ns) : NULL;
        if (!packet) {
            ready = egress->backlog & (uint8_t)~paused(egress, now_ns);
            if (!ready)
                break;
            unsigned priority = egress->weighted ? pick_weighted(egress, ready) : 31 - (unsigned)__builtin_clz(ready);
            packet = take(egress, priority, now_ns);
        }
        depart(egress, packet, now_ns);
    }
    egress->serving = false;
    if (link->free_ns > now_ns && (egress->backlog & (uint8_t)~paused(egress, now_ns) || (pfc && pfc->untold)))
        link_await(link, egress->leave);
    if (egress->backlog & egress->paused)
        await_resume(egress);
    else if (egress->drained && !egress->backlog)
        egress->drained(egress, now_ns);
}

/* Whether a packet of a priority would be served at once. */
static bool free_for(struct egress *egress, unsigned priority, int64_t now_ns)
{
    if (egress->serving || egress->link->free_ns > now_ns)
        return false;
    uint8_t held = egress->paused ? paused(egress, now_ns) : 0;
    return !(egress->backlog & (uint8_t)~held) && !(held >> priority & 1);
}

static bool admit(struct egress *egress, struct packet *packet, int64_t now_ns)
{
    const struct link *link = egress->link;
    if (egress->buffer)
        return buffer_admit(egress->buffer, egress, packet, now_ns);
    return link->parameters.never_drops || link->queued_bytes + packet->length <= link->parameters.queue_bytes;
}

/* Have a packet that there is no room for go into the last queue, cut if it is longer than what is cut; false: it may not. */
static bool trim(const struct egress *egress, struct packet *packet)
{
    uint32_t bytes = egress->buffer ? egress->buffer->options.trim_bytes : 0;
    const struct frame_layout *layout = packet_layout(packet);
    if (!bytes || layout->protocol != PROTOCOL_UDP || bytes < layout->payload)
        return false;
    packet->priority = PACKET_PRIORITIES - 1;
    if (packet->length > bytes) {
        packet->length = bytes;
        packet->flags |= PACKET_TRIMMED | PACKET_SHORT;
    }
    return true;
}

void egress_send(struct egress *egress, struct packet *packet, int64_t now_ns)
{
    struct link *link = egress->link;
    if (!link_enter(link, packet))
        return;
    packet->flags &= (uint16_t)~(PACKET_CONGESTED | PACKET_TRIMMED); /* of another queue */
    bool free = free_for(egress, packet->priority, now_ns);
    if (!free && !admit(egress, packet, now_ns)) {
        bool last = trim(egress, packet);
        free = last && free_for(egress, packet->priority, now_ns);
        if (!free && !(last && admit(egress, packet, now_ns))) {
            link_drop_queued(link, packet);
            return;
        }
        if (packet->flags & PACKET_TRIMMED)
            LINK_COUNT(link, packet->flags, trimmed, 1);
    }
    struct egress_queue *queue = &egress->queues[packet->priority];
    uint64_t queued_bytes = free ? 0 : queue->bytes;
    if (packet->context) {
        packet->enqueued_ns = now_ns;
        packet->enqueued_depth = (uint32_t)queued_bytes;
    }
    if (link_congested(link, queued_bytes))
        packet->flags |= PACKET_CONGESTED;
    if (free) {
        egress->serving = true;
        depart(egress, packet, now_ns);
        egress->serving = false;
        if (egress->backlog || (egress->pfc && egress->pfc->untold))
            egress_serve(egress, now_ns);
        return;
    }
    packet_append(&queue->packets, packet);
    queue->bytes += packet->length;
    egress->backlog |= (uint8_t)(1u << packet->priority);
    link->queued_bytes += packet->length;
    if (link->queued_bytes > link->max_queued_bytes)
        link->max_queued_bytes = link->queued_bytes;
    if (!link->awaited || egress->paused)
        egress_serve(egress, now_ns);
}

int64_t egress_paused_ns(const struct egress *egress, int64_t now_ns)
{
    int64_t end_ns = now_ns < egress->pause_end_ns ? now_ns : egress->pause_end_ns;
    return egress->paused_ns + (end_ns > egress->pause_since_ns ? end_ns - egress->pause_since_ns : 0);
}

void egress_pause(struct egress *egress, unsigned priority, int64_t until_ns, int64_t now_ns)
{
    egress->paused_ns = egress_paused_ns(egress, now_ns);
    egress->pause_since_ns = egress->pause_end_ns = now_ns;
    if (egress->queues[priority].paused_until_ns < now_ns)
        egress->queues[priority].paused_since_ns = now_ns;
    egress->queues[priority].paused_until_ns = until_ns;
    egress->paused |= (uint8_t)(1u << priority);
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        if (egress->paused >> i & 1 && egress->queues[i].paused_until_ns > egress->pause_end_ns)
            egress->pause_end_ns = egress->queues[i].paused_until_ns;
    egress_serve(egress, now_ns);
}

static void on_freed(struct link_source *source, int64_t at_ns)
{
    egress_serve(CONTAINER_OF(source, struct egress, source), at_ns);
}

static void on_soon(const struct link_source *source)
{
    const struct egress *egress = CONTAINER_OF(source, struct egress, source);
    if (egress->backlog)
        __builtin_prefetch(egress->queues[31 - __builtin_clz(egress->backlog)].packets.first);
}

static void on_resume(struct event *event, int64_t at_ns)
{
    struct egress *egress = CONTAINER_OF(event, struct egress, resume);
    egress->resuming = false;
    egress_serve(egress, at_ns);
}

static void on_cut(struct link_source *source, int64_t at_ns)
{
    struct egress *egress = CONTAINER_OF(source, struct egress, source);
    egress->serving = true;
    while (egress->backlog)
        link_drop_down(egress->link, take(egress, (unsigned)__builtin_ctz(egress->backlog), at_ns));
    egress->serving = false; /* pauses stay: who asked for them says anew what holds when the cable is mended */
    if (egress->drained)
        egress->drained(egress, at_ns);
}

static void on_mended(struct link_source *source, int64_t at_ns)
{
    struct egress *egress = CONTAINER_OF(source, struct egress, source);
    if (egress->pfc)
        pfc_tell_all(egress->pfc, at_ns);
}
