#include "link.h"

#include "split.h"

#include <string.h>

#define NS_PER_S_AS_BITS (UINT64_C(8) * 1000000000)

#define COUNT(link, packet, field, amount) LINK_COUNT(link, (packet)->flags, field, amount)

static void on_service_end(struct event *event, int64_t at_ns);
static void on_arrival(struct event *event, int64_t at_ns);
static void on_reordered_arrival(struct event *event, int64_t at_ns);
static void arrives_soon(const struct event *event, bool next);
static void service_ends_soon(const struct event *event, bool next);

bool link_parameters_loss(struct link_parameters *parameters, double mean, double burst_packets)
{
    double to_good, to_bad;
    if (mean < 0 || mean > 1 || burst_packets < 1)
        return false;
    if (burst_packets == 1) {
        to_bad = mean;
        to_good = 1 - mean;
    } else {
        /* A burst lasts 1 / to_good packets, and the chain is bad for to_bad / (to_bad + to_good) of the time. */
        to_good = 1 / burst_packets;
        to_bad = mean < 1 ? to_good * mean / (1 - mean) : 2;
        if (to_bad > 1)
            return false;
    }
    parameters->to_bad = random_threshold(to_bad);
    parameters->to_good = random_threshold(to_good);
    parameters->loss_mean = mean;
    return true;
}

bool link_init(struct link *link, struct eventq *events, struct packet_pool *pool, uint64_t seed, uint64_t index)
{
    memset(link, 0, offsetof(struct link, begun)); /* a big ring, of which only what was written is read */
    link->events = events;
    link->pool = pool;
    link->service_end = (struct event){.fire = on_service_end, .soon = service_ends_soon};
    link->arrival = (struct event){.fire = on_arrival, .soon = arrives_soon};
    for (enum random_stream stream = 0; stream < RANDOM_STREAMS; stream++)
        link->keys[stream] = random_key(seed, stream, index);
    return eventq_attach(events, 2);
}

void link_set(struct link *link, const struct link_parameters *parameters)
{
    bool same_loss = link->parameters.to_bad == parameters->to_bad && link->parameters.to_good == parameters->to_good;
    if (link->parameters.rate_bps != parameters->rate_bps) {
        link->time = (struct link_time){0};
        link->remainder = 0;
    }
    link->parameters = *parameters;
    if (!same_loss) {
        uint64_t draw = random_draw(link->keys[RANDOM_LOSS_START], link->served);
        link->bad = random_chance(draw, random_threshold(parameters->loss_mean));
    }
    link->plain = !parameters->to_bad && !link->bad && !parameters->corrupt && !parameters->duplicate &&
                  !parameters->jitter_ns && !parameters->reorder;
}

static uint64_t draw(const struct link *link, enum random_stream stream)
{
    return random_draw(link->keys[stream], link->served);
}

/* Forget the oldest service that has begun. */
static void forget_begun(struct link *link)
{
    link->begun_bytes -= link->begun[link->begun_first].bytes;
    link->begun_first = (link->begun_first + 1) % LINK_BEGUN_PACKETS;
    link->begun_count--;
}

/* The service of a packet that waited begins at `at_ns`. */
static void remember_begun(struct link *link, const struct packet *packet, int64_t at_ns)
{
    struct link_begun begun = {at_ns, packet->length};
    if (link->begun_count == LINK_BEGUN_PACKETS)
        forget_begun(link);
    link->begun[(link->begun_first + link->begun_count++) % LINK_BEGUN_PACKETS] = begun;
    link->begun_bytes += begun.bytes;
}

/* The bytes that were queued at an arrival; if it was before the last one, then at that. */
static uint64_t queued_at(struct link *link, int64_t arrived_ns)
{
    while (link->begun_count && link->begun[link->begun_first].at_ns <= arrived_ns)
        forget_begun(link);
    return link->queued_bytes + link->begun_bytes;
}

/* A double's 53 bits are enough for an interpolated probability. */
static double ecn_probability(const struct link *link, uint64_t queued)
{
    const struct link_parameters *of = &link->parameters;
    if (!of->ecn || of->never_drops || queued <= of->ecn_min_bytes)
        return 0;
    if (queued > of->ecn_max_bytes)
        return 1;
    return of->ecn_probability * (double)(queued - of->ecn_min_bytes) / (double)(of->ecn_max_bytes - of->ecn_min_bytes);
}

static bool lost(struct link *link)
{
    if (!link->parameters.to_bad && !link->bad)
        return false;
    uint64_t chance = draw(link, RANDOM_LOSS);
    link->bad = link->bad ? !random_chance(chance, link->parameters.to_good)
                          : random_chance(chance, link->parameters.to_bad);
    return link->bad;
}

/* Flip one bit of the transport's payload; of a frame without one, a bit of what it has after the Ethernet header. Returns
 * the packet, which may have moved.
 *
 * A job's RoCE packets have a check of their own (ICRC): without a UDP checksum (RFC 768: 0) it is their receiver that finds
 * out and counts, and not the kernel, which throws packets away before it knows whose they are. All others are told by the
 * UDP checksum.
 */
static struct packet *corrupt(struct link *link, struct packet *packet)
{
    struct packet *filled = split_fill(link->pool, packet, SPLIT_ALL);
    if (!filled) {
        link->pool_exhausted++;
        return packet;
    }
    packet = filled;
    const struct frame_layout *layout = packet_layout(packet);
    uint32_t from = ETHERNET_BYTES, to = packet->length;
    if (layout->transport) {
        from = layout->payload < layout->end ? layout->payload : layout->transport;
        to = layout->end;
    }
    if (from >= to)
        return packet;
    uint64_t bit = random_below(draw(link, RANDOM_CORRUPT_PLACE), (uint64_t)(to - from) * 8);
    packet->frame[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
    packet->flags |= PACKET_CORRUPTED;
    packet->tail = (struct frame_tail){0};
    bool roce = layout->protocol == PROTOCOL_UDP && load16(packet->frame + layout->transport + 2) == ROCE_PORT;
    if (packet->flags & PACKET_JOB && roce)
        store16(packet->frame + layout->transport + UDP_CHECKSUM_AT, 0);
    COUNT(link, packet, corrupted, 1);
    return packet;
}

/* Have a packet arrive when it is due, which is not before those that fly already. */
static void follow(struct link *link, struct packet *packet)
{
    if (!link->flying.first)
        eventq_schedule(link->events, &link->arrival, packet->due_ns);
    packet_append(&link->flying, packet);
}

/* Have a packet arrive when it is due. */
static void fly(struct link *link, struct packet *packet)
{
    if (link->parameters.reorder) {
        packet->event.fire = on_reordered_arrival;
        packet->event.soon = NULL;
        eventq_schedule(link->events, &packet->event, packet->due_ns);
        return;
    }
    follow(link, packet);
}

/* Put a packet on the wire, where it will be at `at_ns`: its serialisation is done then, and the delay begins. */
static void propagate(struct link *link, struct packet *packet, int64_t at_ns)
{
    const struct link_parameters *of = &link->parameters;
    bool control = packet->flags & PACKET_PFC;
    if (of->corrupt && !control && random_chance(draw(link, RANDOM_CORRUPT), of->corrupt))
        packet = corrupt(link, packet);
    int64_t arrival_ns = at_ns + of->delay_ns;
    if (of->jitter_ns && !control) {
        uint64_t range_ns = 2 * (uint64_t)of->jitter_ns + 1;
        arrival_ns += (int64_t)random_below(draw(link, RANDOM_JITTER), range_ns) - of->jitter_ns;
        arrival_ns = arrival_ns < at_ns ? at_ns : arrival_ns;
    }
    if (arrival_ns > link->last_arrival_ns)
        link->last_arrival_ns = arrival_ns;
    else if (!of->reorder)
        arrival_ns = link->last_arrival_ns;
    packet->due_ns = arrival_ns;
    struct packet *copy = NULL;
    if (of->duplicate && !control && random_chance(draw(link, RANDOM_DUPLICATE), of->duplicate)) {
        copy = packet_copy(link->pool, packet);
        link->pool_exhausted += !copy;
    }
    fly(link, packet);
    if (copy) {
        COUNT(link, copy, duplicated, 1);
        if (copy->flags & PACKET_CORRUPTED)
            COUNT(link, copy, corrupted, 1);
        fly(link, copy);
    }
}

/* The time for so many bytes, with what the last time was rounded down by carried over. */
static int64_t serialisation_ns(struct link *link, uint64_t wire_bytes)
{
    uint64_t rate_bps = link->parameters.rate_bps;
    if (wire_bytes != link->time.wire_bytes) {
        uint64_t scaled = wire_bytes * NS_PER_S_AS_BITS;
        link->time = (struct link_time){wire_bytes, scaled / rate_bps, scaled % rate_bps};
    }
    uint64_t ns = link->time.ns;
    link->remainder += link->time.remainder;
    if (link->remainder >= rate_bps) {
        link->remainder -= rate_bps;
        ns++;
    }
    return (int64_t)ns;
}

void link_serve(struct link *link, struct packet *packet, int64_t start_ns)
{
    if (start_ns != link->free_ns) {
        link->remainder = 0;
        link->run++;
        link->run_bytes = 0;
    }
    uint64_t wire_bytes = packet->length + WIRE_OVERHEAD_BYTES;
    int64_t duration_ns = serialisation_ns(link, wire_bytes);
    link->busy_ns += duration_ns;
    link->run_bytes += (uint32_t)wire_bytes;
    link->free_ns = start_ns + duration_ns;
    packet->link = link;
    packet->epoch = link->epoch;
    packet->run = link->run;
    packet->run_bytes = link->run_bytes;
    bool control = packet->flags & PACKET_PFC;
    link->in_service_lost = !link->plain && !control && lost(link);
    if (link->in_service_lost) {
        COUNT(link, packet, dropped_loss, 1);
        packet_free(link->pool, packet);
    } else if (link->plain) {
        int64_t arrival_ns = link->free_ns + link->parameters.delay_ns;
        if (arrival_ns > link->last_arrival_ns)
            link->last_arrival_ns = arrival_ns;
        packet->due_ns = link->last_arrival_ns;
        follow(link, packet);
    } else {
        propagate(link, packet, link->free_ns);
    }
    link->served += !control;
}

void link_await(struct link *link, bool shows)
{
    if (link->awaited)
        return;
    link->awaited = true;
    link->service_end.inward = !shows && !link->in_service_lost;
    if (link->ending && eventq_is_next(link->events, link->free_ns)) {
        link->goes_on = true;
        link->place = eventq_place(link->events);
    } else {
        eventq_schedule(link->events, &link->service_end, link->free_ns);
    }
}

void link_drop_queued(struct link *link, struct packet *packet)
{
    COUNT(link, packet, dropped_queue, 1);
    packet_free(link->pool, packet);
}

void link_drop_down(struct link *link, struct packet *packet)
{
    COUNT(link, packet, dropped_down, 1);
    packet_free(link->pool, packet);
}

bool link_marks(const struct link *link, uint64_t queued_bytes, uint64_t number)
{
    double marks = ecn_probability(link, queued_bytes);
    return marks > 0 && random_chance(random_draw(link->keys[RANDOM_ECN], number), random_threshold(marks));
}

void link_send(struct link *link, struct packet *packet, int64_t arrived_ns)
{
    const struct link_parameters *of = &link->parameters;
    if (!link_enter(link, packet))
        return;
    uint64_t queued = queued_at(link, arrived_ns);
    bool waits = link->awaited || arrived_ns < link->free_ns;
    if (waits && !of->never_drops && queued + packet->length > of->queue_bytes) {
        link_drop_queued(link, packet);
        return;
    }
    if (link_congested(link, queued) && frame_mark_congestion(packet->frame, packet_layout(packet)))
        COUNT(link, packet, ecn_marked, 1);
    if (!waits) {
        link_serve(link, packet, arrived_ns);
        return;
    }
    if (queued + packet->length > link->max_queued_bytes)
        link->max_queued_bytes = queued + packet->length;
    packet_append(&link->queue, packet);
    link->queued_bytes += packet->length;
    link_await(link, false);
}

static void serve_next(struct link *link, int64_t at_ns)
{
    if (link->source) {
        link->source->type->freed(link->source, at_ns);
        return;
    }
    struct packet *next = packet_take(&link->queue);
    if (!next)
        return;
    link->queued_bytes -= next->length;
    remember_begun(link, next, at_ns);
    link_serve(link, next, at_ns);
    if (link->queue.first)
        link_await(link, false);
}

/* As long as the next end here is what happens next anyway, it needs no event. */
static void on_service_end(struct event *event, int64_t at_ns)
{
    struct link *link = CONTAINER_OF(event, struct link, service_end);
    link->ending = true;
    do {
        link->goes_on = false;
        link->awaited = false;
        serve_next(link, at_ns);
        at_ns = link->free_ns;
    } while (link->goes_on && eventq_goes_on(link->events, at_ns));
    link->ending = false;
    if (link->goes_on)
        eventq_schedule_at_place(link->events, event, at_ns, link->place);
}

static void arrive(struct link *link, struct packet *packet)
{
    bool control = packet->flags & PACKET_PFC;
    if (packet->epoch != link->epoch) {
        if (!control)
            COUNT(link, packet, dropped_down, 1);
        packet_free(link->pool, packet);
        return;
    }
    if (!control) {
        COUNT(link, packet, packets, 1);
        COUNT(link, packet, bytes, packet->length);
    }
    link->deliver(link->receiver, packet);
}

/* As long as the next arrival here is what happens next anyway, it needs no event. */
static void on_arrival(struct event *event, int64_t at_ns)
{
    struct link *link = CONTAINER_OF(event, struct link, arrival);
    struct eventq *events = link->events;
    (void)at_ns;
    for (;;) {
        struct packet *packet = packet_take(&link->flying);
        struct packet *following = link->flying.first;
        if (!following) {
            arrive(link, packet);
            return;
        }
        int64_t due_ns = following->due_ns;
        __builtin_prefetch(following->frame); /* packets in flight are more than the nearest cache holds */
        __builtin_prefetch(following->next);
        if (!eventq_is_next(events, due_ns)) {
            eventq_schedule(events, event, due_ns);
            arrive(link, packet);
            return;
        }
        uint64_t place = eventq_place(events);
        arrive(link, packet);
        if (!eventq_goes_on(events, due_ns)) {
            eventq_schedule_at_place(events, event, due_ns, place);
            return;
        }
    }
}

static void arrives_soon(const struct event *event, bool next)
{
    const struct link *link = CONTAINER_OF(event, struct link, arrival);
    const struct packet *packet = link->flying.first;
    if (!next) {
        packet_soon(link->pool, packet);
        __builtin_prefetch(&link->counts[LINK_FIRST_JOB].packets);
        __builtin_prefetch(link->receiver);
    } else if (link->soon) {
        link->soon(link->receiver);
    }
}

static void service_ends_soon(const struct event *event, bool next)
{
    const struct link *link = CONTAINER_OF(event, struct link, service_end);
    if (!link->source)
        return;
    if (next) {
        link->source->type->soon(link->source);
        return;
    }
    __builtin_prefetch(&link->arrival);
    __builtin_prefetch(&link->epoch);
    __builtin_prefetch(link->source);
    __builtin_prefetch((const char *)link->source + CACHE_LINE); /* what waits, of what the source belongs to */
}

static void on_reordered_arrival(struct event *event, int64_t at_ns)
{
    struct packet *packet = CONTAINER_OF(event, struct packet, event);
    (void)at_ns;
    arrive(packet->link, packet);
}

void link_set_up(struct link *link, bool up, int64_t now_ns)
{
    bool changes = up == link->down;
    link->down = !up;
    if (changes && up && link->source)
        link->source->type->mended(link->source, now_ns);
    if (!changes || up)
        return;
    link->epoch++;
    for (struct packet *packet; (packet = packet_take(&link->queue));) {
        link->queued_bytes -= packet->length;
        link_drop_down(link, packet);
    }
    if (link->source)
        link->source->type->cut(link->source, now_ns);
}

/* Add the run being measured to the finished ones, if it is long enough. */
static void close_run(struct link_rate_meter *meter)
{
    int64_t span_ns = meter->last_ns - meter->first_ns;
    if (meter->packets >= RATE_RUN_PACKETS && span_ns >= RATE_RUN_NS) {
        meter->bits += meter->run_bytes * 8;
        meter->span_ns += span_ns;
    }
    meter->packets = 0;
}

void link_came_out(struct link *link, const struct packet *packet, int64_t real_ns)
{
    struct link_rate_meter *meter = &link->meter;
    histogram_add(&link->lateness, real_ns - packet->due_ns);
    if (!meter->packets || meter->run != packet->run) {
        close_run(meter);
        meter->run = packet->run;
        meter->run_bytes = 0;
        meter->first_ns = real_ns;
    } else {
        meter->run_bytes += packet->run_bytes - meter->last_bytes; /* of 32 bits, where it may go round */
    }
    meter->packets++;
    meter->last_bytes = packet->run_bytes;
    meter->last_ns = real_ns;
}

uint64_t link_measured_bps(const struct link *link)
{
    struct link_rate_meter meter = link->meter;
    close_run(&meter);
    return meter.span_ns ? (uint64_t)((double)meter.bits * 1e9 / (double)meter.span_ns + 0.5) : 0;
}

void link_mark(struct link *link)
{
    link->max_queued_bytes = link->queued_bytes;
    link->lateness = (struct histogram){0};
    link->meter = (struct link_rate_meter){0};
}

void link_sum(const uint64_t *counts, size_t fields, enum link_class class, uint64_t *sums)
{
    for (size_t field = 0; field < fields; field++) {
        sums[field] = class == LINK_ALL ? counts[field] : 0;
        for (unsigned owner = LINK_FIRST_JOB; owner < LINK_OWNERS; owner++)
            if (class <= LINK_JOB || owner - LINK_FIRST_JOB == (unsigned)class - LINK_ONE_JOB)
                sums[field] += counts[owner * fields + field];
    }
}

struct link_counts link_counts_of(const struct link *link, enum link_class class)
{
    struct link_counts sum;
    link_sum(&link->counts[0].entered, sizeof sum / sizeof(uint64_t), class, &sum.entered);
    return sum;
}

uint64_t link_in_flight(const struct link *link, enum link_class class)
{
    struct link_counts of = link_counts_of(link, class);
    return of.entered + of.duplicated - of.packets - of.dropped_queue - of.dropped_loss - of.dropped_down - of.consumed;
}
