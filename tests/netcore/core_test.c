/* Tests of the native core in virtual time, run one by one under the sanitizers by test_core.py.
 *
 * Expected values come from closed forms, from published vectors, and from an Internet checksum and a CRC written a second
 * time here, bit by bit.
 */
#include "core_test.h"
#include "fabric.h"
#include "frame.h"
#include "histogram.h"
#include "icrc.h"
#include "link.h"
#include "offload.h"
#include "roce.h"
#include "split.h"
#include "transit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_ROUNDS 100000
#define TRIALS 200000
#define SIGMAS 5.0

/* Whether `hits` of `trials` is what chance `p` gives, within 5 standard deviations. */
static bool plausible(uint64_t hits, uint64_t trials, double p)
{
    return fabs((double)hits - (double)trials * p) <= SIGMAS * sqrt((double)trials * p * (1 - p)) + 1;
}

/* --- a link and what comes out of it -------------------------------------------------------------------------------- */

#define OUTPUT_MAX 400000

struct output {
    int64_t at_ns;
    uint32_t tag; /* written into the frame's bytes 6 to 9 */
    uint8_t tos;
    uint32_t flipped; /* bits that differ from the frame sent */
    int flipped_at;
};

struct bench {
    struct eventq events;
    struct packet_pool pool;
    struct link link;
    uint8_t sent[2048];
    size_t sent_bytes;
    struct output *out;
    size_t count;
};

static void take(void *receiver, struct packet *packet)
{
    struct bench *bench = receiver;
    struct output *out = &bench->out[bench->count++];
    CHECK(bench->count <= OUTPUT_MAX);
    *out = (struct output){.at_ns = packet->due_ns, .tag = load32(packet->frame + 6), .flipped_at = -1};
    out->tos = packet->layout.network ? packet->frame[packet->layout.network + 1] : 0;
    for (size_t i = 10; i < packet->length; i++) {
        unsigned difference = packet->frame[i] ^ bench->sent[i];
        if (difference && i != 15 && i != 24 && i != 25) { /* ToS and header checksum */
            out->flipped += (unsigned)__builtin_popcount(difference);
            out->flipped_at = (int)i;
        }
    }
    packet_free(&bench->pool, packet);
}

static struct bench *bench_new(struct link_parameters parameters, uint64_t seed, uint64_t index)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->out = calloc(OUTPUT_MAX, sizeof *bench->out);
    eventq_init(&bench->events);
    packet_pool_init(&bench->pool, &bench->events);
    CHECK(link_init(&bench->link, &bench->events, &bench->pool, seed, index));
    if (!parameters.to_good && !parameters.to_bad)
        CHECK(link_parameters_loss(&parameters, 0, 1));
    link_set(&bench->link, &parameters);
    bench->link.deliver = take;
    bench->link.receiver = bench;
    return bench;
}

static void bench_free(struct bench *bench)
{
    packet_pool_destroy(&bench->pool);
    eventq_destroy(&bench->events);
    free(bench->out);
    free(bench);
}

static void run_until(struct bench *bench, int64_t until_ns)
{
    eventq_run(&bench->events, until_ns, SIZE_MAX);
}

/* Send a frame of `bytes` (UDP, ECN-capable), tagged with a number, that arrived at or before `now_ns`. */
static void send_arrived(struct bench *bench, size_t bytes, uint32_t tag, int64_t now_ns, int64_t arrived_ns)
{
    if (bench->sent_bytes != bytes)
        make_frame(bench->sent, PROTOCOL_UDP, bytes - 42, 2);
    bench->sent_bytes = bytes;
    struct packet *packet = packet_new(&bench->pool, bytes);
    CHECK(packet);
    memcpy(packet->frame, bench->sent, bytes);
    store32(packet->frame + 6, tag);
    packet->layout = frame_parse(packet->frame, bytes);
    run_until(bench, now_ns);
    link_send(&bench->link, packet, arrived_ns);
}

static void send(struct bench *bench, size_t bytes, uint32_t tag, int64_t now_ns)
{
    send_arrived(bench, bytes, tag, now_ns, now_ns);
}

static void check_balance(const struct bench *bench)
{
    const struct link_counts *of = &bench->link.counts[LINK_NO_JOB];
    CHECK(link_in_flight(&bench->link, LINK_ALL) == 0);
    CHECK(of->packets == bench->count);
    CHECK(of->entered + of->duplicated == of->packets + of->dropped_queue + of->dropped_loss + of->dropped_down);
}

/* --- event queue ---------------------------------------------------------------------------------------------------- */

struct numbered {
    struct event event;
    uint64_t number;
};

static int64_t last_ns;
static uint64_t last_number;

static void fire_in_order(struct event *event, int64_t at_ns)
{
    struct numbered *this = CONTAINER_OF(event, struct numbered, event);
    CHECK(at_ns > last_ns || (at_ns == last_ns && this->number > last_number));
    last_ns = at_ns;
    last_number = this->number;
}

static void test_events_fire_by_time_then_by_order_of_scheduling(void)
{
    enum { EVENTS = 20000 };
    struct eventq queue;
    eventq_init(&queue);
    CHECK(eventq_attach(&queue, EVENTS));
    struct numbered *all = calloc(EVENTS, sizeof *all);
    for (uint64_t i = 0; i < EVENTS; i++) {
        all[i] = (struct numbered){{.fire = fire_in_order, .inward = i % 3 == 0}, i};
        eventq_schedule(&queue, &all[i].event, (int64_t)random_below(next_random(), 500));
    }
    last_ns = -1;
    CHECK(eventq_run(&queue, 249, SIZE_MAX) > 0);
    CHECK(last_ns == 249 && eventq_next_ns(&queue) == 250);
    CHECK(eventq_run(&queue, 250, 1) == 1);
    eventq_run(&queue, INT64_MAX, SIZE_MAX);
    CHECK(eventq_next_ns(&queue) == EVENTQ_NEVER);
    eventq_destroy(&queue);
    free(all);
}

/* What is asked of an event that is told that it is fired soon. */
struct foreseen {
    struct event event;
    unsigned soon, next;
    bool over; /* it was fired, or cancelled */
};

static void on_soon(const struct event *event, bool next)
{
    struct foreseen *this = CONTAINER_OF(event, struct foreseen, event);
    CHECK(!this->over);
    *(next ? &this->next : &this->soon) += 1;
}

static void fire_foreseen(struct event *event, int64_t at_ns)
{
    struct foreseen *this = CONTAINER_OF(event, struct foreseen, event);
    (void)at_ns;
    CHECK(!this->over);
    this->over = true;
}

static void test_events_are_told_before_they_are_fired(void)
{
    enum { EVENTS = 1000 };
    struct eventq queue;
    static struct foreseen all[EVENTS];
    eventq_init(&queue);
    CHECK(eventq_attach(&queue, EVENTS));
    for (int i = 0; i < EVENTS; i++) {
        all[i].event = (struct event){.fire = fire_foreseen, .soon = on_soon};
        eventq_schedule(&queue, &all[i].event, (i * 7) % EVENTS); /* each at an instant of its own */
    }
    CHECK(eventq_run(&queue, EVENTS / 2, SIZE_MAX) == EVENTS / 2 + 1);
    for (int i = 0; i < EVENTS; i += 3)
        if (!all[i].over) {
            eventq_cancel(&queue, &all[i].event);
            all[i].over = true;
        }
    eventq_run(&queue, INT64_MAX, SIZE_MAX);
    for (int i = 0; i < EVENTS; i++) {
        int place = (i * 7) % EVENTS;
        CHECK(all[i].over && all[i].soon <= 2 && all[i].next <= 2);
        if (place >= EVENTQ_AHEAD && place <= EVENTS / 2)
            CHECK(all[i].soon == 1 && all[i].next == 1);
    }
    eventq_destroy(&queue);
}

/* Events that schedule themselves and others, and cancel others, while they are fired. */
struct restless {
    struct event event;
    struct restless *all;
    struct eventq *queue;
    int64_t at_ns; /* EVENTQ_NEVER: it is not scheduled */
    uint64_t order;
};

enum { RESTLESS = 300 };

static uint64_t restless_order, restless_fired, restless_went_on;

static void schedule_restless(struct restless *this, int64_t at_ns)
{
    this->at_ns = at_ns;
    this->order = restless_order++;
    eventq_schedule(this->queue, &this->event, at_ns);
}

/* Half of them fire again at once, where they are next, without having been scheduled. */
static void fire_restless(struct event *event, int64_t at_ns)
{
    struct restless *this = CONTAINER_OF(event, struct restless, event);
    for (bool goes_on = true; goes_on;) {
        CHECK(this->at_ns == at_ns);
        for (int i = 0; i < RESTLESS; i++) { /* it is the first of all that are scheduled */
            const struct restless *other = &this->all[i];
            CHECK(other->at_ns > at_ns || (other->at_ns == at_ns && other->order >= this->order));
        }
        this->at_ns = EVENTQ_NEVER;
        restless_fired++;
        uint64_t place = 0;
        int64_t again_ns = at_ns + (int64_t)random_below(next_random(), 3);
        goes_on = next_random() & 1 && eventq_is_next(this->queue, again_ns);
        if (goes_on) {
            this->at_ns = again_ns;
            this->order = restless_order++;
            place = eventq_place(this->queue);
        }
        for (uint64_t changes = random_below(next_random(), 4); changes; changes--) {
            struct restless *other = next_random() & 1 ? this : &this->all[random_below(next_random(), RESTLESS)];
            if (goes_on && other == this)
                continue;
            if (other->at_ns == EVENTQ_NEVER) {
                schedule_restless(other, at_ns + (int64_t)random_below(next_random(), 100));
            } else if (next_random() & 1) {
                eventq_cancel(other->queue, &other->event);
                other->at_ns = EVENTQ_NEVER;
            }
        }
        if (goes_on && !eventq_goes_on(this->queue, again_ns)) {
            eventq_schedule_at_place(this->queue, event, again_ns, place);
            goes_on = false;
        }
        restless_went_on += goes_on;
        at_ns = again_ns;
    }
}

static void test_events_may_be_scheduled_and_cancelled_by_those_that_fire(void)
{
    struct eventq queue;
    static struct restless all[RESTLESS];
    eventq_init(&queue);
    CHECK(eventq_attach(&queue, RESTLESS));
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < RESTLESS; i++) {
            all[i] = (struct restless){{.fire = fire_restless, .inward = i % 2}, all, &queue, EVENTQ_NEVER, 0};
            schedule_restless(&all[i], (int64_t)random_below(next_random(), 100));
        }
        CHECK(eventq_run(&queue, INT64_MAX, 5000) <= 5000);
        for (int i = 0; i < RESTLESS; i++)
            if (all[i].at_ns != EVENTQ_NEVER)
                eventq_cancel(&queue, &all[i].event);
        CHECK(eventq_next_ns(&queue) == EVENTQ_NEVER);
    }
    CHECK(restless_fired > 50 * RESTLESS && restless_fired <= 50 * 5000 && restless_went_on > 0);
    eventq_destroy(&queue);
}

/* --- link: rate and delay ------------------------------------------------------------------------------------------- */

static void test_departures_are_exact_and_do_not_drift(void)
{
    /* 3 Gb/s does not divide a packet's time into whole nanoseconds: the n-th leaves at floor(n x bits / rate). */
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = 3 * GBPS, .delay_ns = 777, .queue_bytes = UNLIMITED}, 1, 0);
    for (uint32_t i = 0; i < 10000; i++)
        send(bench, 1000, i, 100);
    run_until(bench, INT64_MAX);
    for (uint64_t i = 0; i < 10000; i++) {
        CHECK(bench->out[i].tag == i);
        CHECK(bench->out[i].at_ns == (int64_t)(100 + 777 + (i + 1) * 1024 * 8 / 3));
    }
    CHECK(bench->link.busy_ns == 10000 * 1024 * 8 / 3);
    check_balance(bench);
    bench_free(bench);
}

static void test_a_late_caller_does_not_delay_later_packets(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    for (uint32_t i = 0; i < 100; i++)
        send(bench, 976, i, 0); /* 1000 B on the wire: 8 us each */
    run_until(bench, 3 * 8000);
    run_until(bench, 77 * 8000 + 5000); /* the loop slept */
    run_until(bench, INT64_MAX);
    for (int64_t i = 0; i < 100; i++)
        CHECK(bench->out[i].at_ns == (i + 1) * 8000);
    bench_free(bench);
}

static void test_an_idle_link_serves_at_arrival(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .delay_ns = 10, .queue_bytes = 0}, 1, 0);
    for (uint32_t i = 0; i < 10; i++)
        send(bench, 976, i, i * 8000 + (i ? 1 : 0)); /* 1 ns after the one before has left: no queue is needed */
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 10);
    CHECK(bench->out[9].at_ns == 10 * 8000 + 1 + 10);
    bench_free(bench);
}

static void test_an_earlier_arrival_is_served_as_of_then_but_behind_what_has_left(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .delay_ns = 10, .queue_bytes = UNLIMITED}, 1, 0);
    send_arrived(bench, 976, 0, 50000, 1000); /* 8 us each: leaves at 9000 */
    send_arrived(bench, 976, 1, 60000, 3000); /* right behind it: 17000 */
    send_arrived(bench, 976, 2, 70000, 40000); /* 48000 */
    send_arrived(bench, 976, 3, 71000, 20000); /* overtaken on its way in: behind the third */
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 4);
    CHECK(bench->out[0].at_ns == 9000 + 10 && bench->out[1].at_ns == 17000 + 10);
    CHECK(bench->out[2].tag == 2 && bench->out[2].at_ns == 48000 + 10);
    CHECK(bench->out[3].tag == 3 && bench->out[3].at_ns == 56000 + 10);
    bench_free(bench);
}

static void test_a_late_packet_meets_the_queue_of_its_arrival(void)
{
    /* 8 us each; room for two beside the packet in service. All but the last are handed over long after they arrived. */
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = 2 * 976, .ecn = true};
    parameters.ecn_min_bytes = parameters.ecn_max_bytes = 976;
    struct bench *bench = bench_new(parameters, 1, 0);
    const struct link_counts *counts = &bench->link.counts[LINK_NO_JOB];
    send_arrived(bench, 976, 0, 100000, 0);     /* served from 0 to 8000 */
    send_arrived(bench, 976, 1, 100000, 1000);  /* waits until 8000, */
    send_arrived(bench, 976, 2, 100000, 2000);  /* and this one until 16000, behind one: at min, so not marked */
    send_arrived(bench, 976, 3, 100000, 7999);  /* two wait: no room */
    CHECK(counts->dropped_queue == 1 && counts->ecn_marked == 0 && bench->link.max_queued_bytes == 2 * 976);
    send_arrived(bench, 976, 4, 100000, 8000);  /* 1 has gone into service: room behind 2 */
    send_arrived(bench, 976, 5, 100000, 15999); /* 2 and 4 wait: no room */
    CHECK(counts->dropped_queue == 2 && counts->ecn_marked == 0);
    send_arrived(bench, 975, 6, 100000, 31999); /* all but 4, in service until 32000, have left */
    send_arrived(bench, 976, 7, 100000, 90000); /* long idle: served at once, until 98000 */
    send_arrived(bench, 976, 8, 100000, 91000); /* nothing waits but this */
    send_arrived(bench, 976, 9, 100000, 100000);
    CHECK(counts->dropped_queue == 2 && counts->ecn_marked == 0 && bench->link.max_queued_bytes == 2 * 976);
    run_until(bench, INT64_MAX);
    static const struct { uint32_t tag; int64_t at_ns; } expected[] = {
        {0, 8000}, {1, 16000}, {2, 24000}, {4, 32000}, {6, 39992}, {7, 98000}, {8, 106000}, {9, 114000}};
    CHECK(bench->count == 8);
    for (size_t i = 0; i < bench->count; i++)
        CHECK(bench->out[i].tag == expected[i].tag && bench->out[i].at_ns == expected[i].at_ns);
    check_balance(bench);
    bench_free(bench);
}

static void test_a_late_packet_is_marked_for_the_queue_of_its_arrival(void)
{
    /* All above 976 queued bytes are marked: of five that arrive together, the last two find two and three waiting. */
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .ecn = true};
    parameters.ecn_min_bytes = parameters.ecn_max_bytes = 976;
    struct bench *bench = bench_new(parameters, 1, 0);
    for (uint32_t i = 0; i < 5; i++)
        send_arrived(bench, 976, i, 1000000 + i * 50000, 5000);
    send_arrived(bench, 976, 5, 2000000, 5000 + 2 * 8000); /* the third is served: two wait */
    send_arrived(bench, 976, 6, 2000000, 5000 + 4 * 8000); /* one waits: not marked */
    CHECK(bench->link.max_queued_bytes == 4 * 976);
    run_until(bench, 2000000);
    link_mark(&bench->link);
    CHECK(bench->link.max_queued_bytes == 0);
    run_until(bench, INT64_MAX);
    for (size_t i = 0; i < 7; i++)
        CHECK(bench->out[i].tag == i && ((bench->out[i].tos & 3) == 3) == (i >= 3 && i <= 5));
    bench_free(bench);
}

static void test_an_overtaken_packet_meets_the_queue_behind_the_last(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = 976}, 1, 0);
    send_arrived(bench, 976, 0, 100000, 50000); /* served until 58000 */
    send_arrived(bench, 976, 1, 100000, 51000); /* waits */
    send_arrived(bench, 976, 2, 100000, 20000); /* came when the link was idle, but is behind both: no room */
    send_arrived(bench, 976, 3, 100000, 58000); /* 1 is in service */
    send_arrived(bench, 976, 4, 100000, 59000);
    CHECK(bench->link.counts[LINK_NO_JOB].dropped_queue == 2);
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 3 && bench->out[2].tag == 3 && bench->out[2].at_ns == 74000);
    check_balance(bench);
    bench_free(bench);
}

/* A link on which everything can happen but reordering. */
static struct link_parameters eventful(uint64_t draw)
{
    struct link_parameters parameters = {
        .rate_bps = GBPS * (1 + draw % 3), .delay_ns = 20000, .jitter_ns = draw & 8 ? 15000 : 0, .ecn = draw & 16};
    parameters.queue_bytes = 500 + random_below(draw, 30000);
    parameters.ecn_min_bytes = parameters.queue_bytes / 4;
    parameters.ecn_max_bytes = parameters.queue_bytes / 2;
    parameters.ecn_probability = 0.5;
    parameters.duplicate = random_threshold(0.01);
    CHECK(link_parameters_loss(&parameters, 0.02, 4));
    return parameters;
}

static void test_packets_handed_over_late_but_in_order_fare_as_in_time(void)
{
    enum { ROUNDS = 60, PACKETS = 1000 };
    uint64_t dropped = 0, lost = 0, duplicated = 0, marked = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct link_parameters parameters = eventful(next_random());
        struct bench *in_time = bench_new(parameters, 5, round), *late = bench_new(parameters, 5, round);
        int64_t arrived_ns[PACKETS], now_ns = 0, pause_ns = (int64_t)random_below(next_random(), 12000);
        int64_t grain_ns = round % 3 ? 1 : 1000; /* the coarser, the more arrivals fall on the end of a service */
        size_t bytes[PACKETS];
        for (uint32_t i = 0; i < PACKETS; i++) { /* about as fast as the link, bursts, pauses; many at the same instant */
            uint64_t draw = next_random();
            int64_t step_ns = draw % 4 == 0 ? 0 : draw % 64 == 1 ? 200000 : (int64_t)random_below(draw, 1 + 2 * (uint64_t)pause_ns);
            arrived_ns[i] = (i ? arrived_ns[i - 1] : 0) + step_ns / grain_ns * grain_ns;
            bytes[i] = round % 3 ? 60 + random_below(next_random(), 1400) : 976;
            send(in_time, bytes[i], i, arrived_ns[i]);
        }
        for (uint32_t first = 0, next; first < PACKETS; first = next) {
            next = first + 1 + (uint32_t)random_below(next_random(), round % 2 ? 4 : 100);
            next = next < PACKETS ? next : PACKETS;
            int64_t after_ns = arrived_ns[next - 1] + (int64_t)random_below(next_random(), 1 + UINT64_C(1000) * (round % 100));
            now_ns = now_ns > after_ns ? now_ns : after_ns;
            for (uint32_t i = first; i < next; i++)
                send_arrived(late, bytes[i], i, now_ns, arrived_ns[i]);
        }
        run_until(in_time, INT64_MAX);
        run_until(late, INT64_MAX);
        CHECK(in_time->count == late->count);
        for (size_t i = 0; i < late->count; i++) {
            const struct output *expected = &in_time->out[i], *found = &late->out[i];
            CHECK(found->tag == expected->tag && found->at_ns == expected->at_ns && found->tos == expected->tos);
        }
        CHECK(memcmp(in_time->link.counts, late->link.counts, sizeof late->link.counts) == 0);
        CHECK(in_time->link.max_queued_bytes == late->link.max_queued_bytes);
        CHECK(in_time->link.busy_ns == late->link.busy_ns);
        const struct link_counts *of = &late->link.counts[LINK_NO_JOB];
        dropped += of->dropped_queue;
        lost += of->dropped_loss;
        duplicated += of->duplicated;
        marked += of->ecn_marked;
        bench_free(in_time);
        bench_free(late);
    }
    CHECK(dropped > ROUNDS && lost > ROUNDS && duplicated > ROUNDS && marked > ROUNDS);
}

static void test_the_memory_of_begun_services_is_bounded(void)
{
    /* A queue of many more packets than are remembered drains unseen; to a packet of before it seems that much shorter. */
    enum { PACKETS = 3 * LINK_BEGUN_PACKETS };
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    for (uint32_t i = 0; i < PACKETS; i++)
        send(bench, 976, i, 0);
    link_mark(&bench->link);
    send_arrived(bench, 976, PACKETS, PACKETS * INT64_C(8000), 0);
    CHECK(bench->link.max_queued_bytes == (PACKETS - 1) * UINT64_C(976)); /* of before */
    CHECK(bench->link.begun_count <= LINK_BEGUN_PACKETS);
    CHECK(bench->link.begun_bytes == bench->link.begun_count * UINT64_C(976));
    run_until(bench, INT64_MAX);
    CHECK(bench->count == PACKETS + 1 && bench->out[PACKETS].at_ns == (PACKETS + 1) * INT64_C(8000));
    bench_free(bench);
}

/* --- transit -------------------------------------------------------------------------------------------------------- */

static struct packet *udp_packet(struct bench *bench)
{
    struct packet *packet = packet_new(&bench->pool, 200);
    CHECK(packet);
    make_frame(packet->frame, PROTOCOL_UDP, 200 - 42, 0);
    packet->layout = frame_parse(packet->frame, 200);
    return packet;
}

static void test_a_packet_is_known_again_behind_a_switch(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    struct transit transit;
    CHECK(transit_init(&transit));
    enum { PACKETS = 200 };
    struct packet *packets[PACKETS];
    for (int64_t i = 0; i < PACKETS; i++) {
        packets[i] = udp_packet(bench);
        transit_enter(&transit, 3, packets[i], 1000 + i);
    }
    for (int64_t i = PACKETS - 1; i >= 0; i--) {
        memset(packets[i]->frame, 0xaa, 12); /* a switch may write both MAC addresses, */
        uint8_t *ip = packets[i]->frame + ETHERNET_BYTES;
        ip[1] = 3; /* mark, */
        ip[8]--;   /* and count hops */
        frame_seal_network(packets[i]->frame, &packets[i]->layout);
        CHECK(transit_leave(&transit, 3, packets[i], 500000) == 1000 + i);
    }
    CHECK(histogram_percentile(&transit.taken, 50) >= 499000 - PACKETS);
    struct packet *stranger = udp_packet(bench);
    CHECK(transit_leave(&transit, 3, stranger, 500000) == 500000);
    packets[0]->frame[60] ^= 1; /* another content is another packet */
    CHECK(transit_leave(&transit, 3, packets[0], 500000) == 500000);
    store16(stranger->frame + 12, 0x0806); /* not IPv4: never known */
    stranger->layout = frame_parse(stranger->frame, 200);
    transit_enter(&transit, 3, stranger, 1);
    CHECK(transit_leave(&transit, 3, stranger, 500000) == 500000);
    for (size_t i = 0; i < PACKETS; i++)
        packet_free(&bench->pool, packets[i]);
    packet_free(&bench->pool, stranger);
    transit_destroy(&transit);
    bench_free(bench);
}

static void test_packets_of_one_content_leave_as_they_entered_switch_by_switch(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    struct transit transit;
    CHECK(transit_init(&transit));
    struct packet *packet = udp_packet(bench), *other = udp_packet(bench);
    transit_enter(&transit, 1, packet, 1000);
    transit_enter(&transit, 2, packet, 2000); /* the same packet is on its way through the next switch, */
    transit_enter(&transit, 1, packet, 3000); /* and one like it comes behind */
    transit_enter(&transit, 1, other, 3500);
    transit_enter(&transit, 1, packet, 4000);
    CHECK(transit_leave(&transit, 1, packet, 9000) == 1000);
    CHECK(transit_leave(&transit, 3, packet, 9000) == 9000);
    CHECK(transit_leave(&transit, 1, other, 9000) == 3500);
    CHECK(transit_leave(&transit, 1, packet, 9000) == 3000);
    CHECK(transit_leave(&transit, 2, packet, 9000) == 2000);
    CHECK(transit_leave(&transit, 2, packet, 9000) == 9000);
    CHECK(transit_leave(&transit, 1, packet, 9000) == 4000);
    CHECK(transit_leave(&transit, 1, packet, 9000) == 9000); /* a copy that the switch made: it was never seen entering */
    packet_free(&bench->pool, packet);
    packet_free(&bench->pool, other);
    transit_destroy(&transit);
    bench_free(bench);
}

static void test_a_duplicate_is_known_like_its_packet(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .duplicate = random_threshold(1)};
    struct bench *bench = bench_new(parameters, 1, 0);
    send(bench, 500, 0, 0);
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 2 && bench->out[0].at_ns == bench->out[1].at_ns);
    struct transit transit;
    CHECK(transit_init(&transit));
    struct packet *packet = udp_packet(bench);
    for (size_t i = 0; i < 2; i++)
        transit_enter(&transit, 0, packet, bench->out[i].at_ns);
    for (size_t i = 0; i < 2; i++)
        CHECK(transit_leave(&transit, 0, packet, 100000) == bench->out[i].at_ns);
    CHECK(transit_leave(&transit, 0, packet, 100000) == 100000);
    packet_free(&bench->pool, packet);
    transit_destroy(&transit);
    bench_free(bench);
}

static void test_a_packet_lost_in_a_switch_is_forgotten(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    struct transit transit;
    CHECK(transit_init(&transit));
    struct packet *packet = udp_packet(bench);
    transit_enter(&transit, 0, packet, 1000);
    int64_t again_ns = 1001 + TRANSIT_LONGEST_NS;
    transit_enter(&transit, 0, packet, again_ns); /* the same bytes, sent again */
    CHECK(transit_leave(&transit, 0, packet, again_ns + 5000) == again_ns);
    CHECK(transit_leave(&transit, 0, packet, again_ns + 5000) == again_ns + 5000);
    transit_enter(&transit, 0, packet, 2000); /* only slow: nothing like it came since */
    CHECK(transit_leave(&transit, 0, packet, 2000 + 5 * TRANSIT_LONGEST_NS) == 2000);
    CHECK(histogram_percentile(&transit.taken, 100) >= 5 * TRANSIT_LONGEST_NS);
    packet_free(&bench->pool, packet);
    transit_destroy(&transit);
    bench_free(bench);
}

static void test_transits_agree_with_a_list_of_what_is_inside(void)
{
    enum { CONTENTS = 8, SWITCHES = 3, STEPS = 400000, INSIDE = 2 * TRANSIT_PACKETS };
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    struct transit transit;
    CHECK(transit_init(&transit));
    struct packet *packets[CONTENTS];
    /* The instants at which each content entered each switch, oldest first; `order` numbers all entries. */
    static struct { int64_t due_ns[STEPS]; uint64_t order[STEPS]; size_t first, end; } inside[SWITCHES][CONTENTS];
    for (size_t i = 0; i < CONTENTS; i++)
        packets[i] = udp_packet(bench);
    uint64_t entered = 0;
    for (int64_t now_ns = 1; now_ns <= STEPS; now_ns++) {
        uint64_t draw = next_random();
        uint32_t number = (uint32_t)(draw % SWITCHES), content = (uint32_t)(draw >> 8) % CONTENTS;
        size_t *first = &inside[number][content].first, *end = &inside[number][content].end;
        bool filling = now_ns / INSIDE % 2 == 0; /* beyond what is remembered, then empty again */
        if ((draw >> 16) % 8 < (filling ? 7 : 1)) {
            inside[number][content].order[*end] = entered++;
            inside[number][content].due_ns[(*end)++] = now_ns;
            transit_enter(&transit, number, packets[content], now_ns);
            continue;
        }
        while (*first < *end && inside[number][content].order[*first] + TRANSIT_PACKETS < entered)
            ++*first; /* forgotten */
        int64_t expected = *first < *end ? inside[number][content].due_ns[(*first)++] : now_ns;
        CHECK(transit_leave(&transit, number, packets[content], now_ns) == expected);
    }
    for (size_t i = 0; i < CONTENTS; i++)
        packet_free(&bench->pool, packets[i]);
    transit_destroy(&transit);
    bench_free(bench);
}

static void test_a_new_rate_holds_from_the_next_packet_on(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = UNLIMITED}, 1, 0);
    for (uint32_t i = 0; i < 3; i++)
        send(bench, 976, i, 0);
    run_until(bench, 4000); /* the first is half way out */
    struct link_parameters faster = bench->link.parameters;
    faster.rate_bps = 2 * GBPS;
    link_set(&bench->link, &faster);
    run_until(bench, INT64_MAX);
    CHECK(bench->out[0].at_ns == 8000 && bench->out[1].at_ns == 12000 && bench->out[2].at_ns == 16000);
    bench_free(bench);
}

/* --- link: queue and marks ------------------------------------------------------------------------------------------ */

static void test_the_queue_holds_its_bytes_beside_the_packet_in_service(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS, .queue_bytes = 10 * 976 + 975}, 1, 0);
    for (uint32_t i = 0; i < 50; i++)
        send(bench, 976, i, 0);
    CHECK(bench->link.counts[LINK_NO_JOB].dropped_queue == 50 - 11);
    CHECK(bench->link.max_queued_bytes == 10 * 976);
    /* One leaves the queue each 8 us. */
    for (uint32_t i = 0; i < 5; i++)
        send(bench, 976, 100 + i, 3 * 8000);
    CHECK(bench->link.counts[LINK_NO_JOB].dropped_queue == 50 - 11 + 2);
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 14 && bench->out[10].tag == 10 && bench->out[13].tag == 102);
    check_balance(bench);
    bench_free(bench);
}

static void test_a_host_port_neither_drops_nor_marks(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = 1000, .never_drops = true, .ecn = true};
    struct bench *bench = bench_new(parameters, 1, 0);
    for (uint32_t i = 0; i < 1000; i++)
        send(bench, 976, i, 0);
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 1000 && bench->link.counts[LINK_NO_JOB].ecn_marked == 0);
    bench_free(bench);
}

static void test_marks_follow_the_queue_at_arrival(void)
{
    /* Packet k of a burst finds k - 1 packets queued: below 10 none is marked, then up to 40 % at 20, then all. */
    enum { BURST = 30, BURSTS = 4000 };
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .ecn = true};
    parameters.ecn_min_bytes = 10 * 1000;
    parameters.ecn_max_bytes = 20 * 1000;
    parameters.ecn_probability = 0.4;
    struct bench *bench = bench_new(parameters, 3, 5);
    for (uint32_t burst = 0; burst < BURSTS; burst++)
        for (uint32_t k = 0; k < BURST; k++)
            send(bench, 1000, k, (int64_t)burst * 1000000);
    run_until(bench, INT64_MAX);
    uint64_t marked[BURST] = {0}, total = 0;
    for (size_t i = 0; i < bench->count; i++) {
        CHECK((bench->out[i].tos & 3) == 2 || (bench->out[i].tos & 3) == 3);
        marked[bench->out[i].tag] += (bench->out[i].tos & 3) == 3;
    }
    for (uint32_t k = 0; k < BURST; k++) {
        double queued = k == 0 ? 0 : k - 1;
        double expected = queued <= 10 ? 0 : queued > 20 ? 1 : 0.4 * (queued - 10) / 10;
        CHECK(expected == 0 ? marked[k] == 0 : expected == 1 ? marked[k] == BURSTS : plausible(marked[k], BURSTS, expected));
        total += marked[k];
    }
    CHECK(bench->link.counts[LINK_NO_JOB].ecn_marked == total);
    bench_free(bench);
}

static void test_only_capable_packets_are_marked_and_the_checksum_follows(void)
{
    for (int tos = 0; tos < 256; tos++) {
        uint8_t frame[200];
        size_t length = make_frame(frame, PROTOCOL_UDP, 100, (uint8_t)tos);
        struct frame_layout layout = frame_parse(frame, length);
        bool capable = (tos & 3) == 1 || (tos & 3) == 2;
        CHECK(frame_mark_congestion(frame, &layout) == capable);
        CHECK(frame[15] == (capable ? (tos | 3) : tos));
        CHECK(network_right(frame));
    }
}

/* --- link: what strikes --------------------------------------------------------------------------------------------- */

static void send_evenly(struct bench *bench, uint32_t packets)
{
    for (uint32_t i = 0; i < packets; i++)
        send(bench, 500, i, (int64_t)i * 10000);
    run_until(bench, INT64_MAX);
    check_balance(bench);
}

static void check_loss(double mean, double burst)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED};
    CHECK(link_parameters_loss(&parameters, mean, burst));
    struct bench *bench = bench_new(parameters, 11, 2);
    send_evenly(bench, TRIALS);
    uint64_t lost = bench->link.counts[LINK_NO_JOB].dropped_loss, bursts = 0;
    int64_t expected = 0;
    for (size_t i = 0; i < bench->count; i++) {
        bursts += bench->out[i].tag != expected;
        expected = bench->out[i].tag + INT64_C(1);
    }
    bursts += expected != TRIALS;
    /* Bursts are geometric, so the variance of the count is (2 burst - 1) times the binomial one (for small means). */
    double sigma = sqrt(TRIALS * mean * (1 - mean) * (2 * burst - 1));
    CHECK(fabs((double)lost - TRIALS * mean) <= SIGMAS * sigma);
    /* Where losses are independent, neighbours make bursts of 1 / (1 - mean) too. */
    double length = burst == 1 ? 1 / (1 - mean) : burst;
    double found = (double)lost / (double)bursts, spread = sqrt(length * (length - 1) / (double)bursts);
    CHECK(fabs(found - length) <= SIGMAS * spread + 0.01);
    bench_free(bench);
}

static void test_bernoulli_loss_has_its_mean(void)
{
    check_loss(0.001, 1);
    check_loss(0.01, 1);
    check_loss(0.3, 1);
}

static void test_gilbert_elliott_loss_has_its_mean_and_its_bursts(void)
{
    check_loss(0.01, 8);
    check_loss(0.1, 3);
    check_loss(0.3, 1.5);
}

static void test_all_or_nothing_is_lost_at_the_ends(void)
{
    for (int all = 0; all < 2; all++) {
        struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED};
        CHECK(link_parameters_loss(&parameters, all, 1));
        struct bench *bench = bench_new(parameters, 1, 1);
        send_evenly(bench, 10000);
        CHECK(bench->count == (all ? 0 : 10000));
        bench_free(bench);
    }
}

static void test_impossible_loss_is_refused(void)
{
    struct link_parameters parameters = {0};
    CHECK(!link_parameters_loss(&parameters, 0.9, 2)); /* at most 2 / 3 */
    CHECK(!link_parameters_loss(&parameters, 1.1, 1));
    CHECK(!link_parameters_loss(&parameters, -0.1, 1));
    CHECK(!link_parameters_loss(&parameters, 0.1, 0.5));
    CHECK(link_parameters_loss(&parameters, 0.66, 2));
}

static void test_jitter_spreads_the_delay_and_keeps_the_order(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .delay_ns = 50000, .jitter_ns = 30000};
    struct bench *bench = bench_new(parameters, 1, 1);
    send_evenly(bench, 50000); /* one each 10 us: draws overlap */
    for (size_t i = 0; i < bench->count; i++) {
        int64_t late = bench->out[i].at_ns - ((int64_t)i * 10000 + 524 * 8 + 50000);
        CHECK(bench->out[i].tag == i);
        CHECK(late >= -30000 && late <= 30000);
        CHECK(i == 0 || bench->out[i].at_ns >= bench->out[i - 1].at_ns);
    }
    bench_free(bench);
}

static void test_jitter_reorders_when_asked_and_is_uniform(void)
{
    struct link_parameters parameters = {
        .rate_bps = GBPS, .queue_bytes = UNLIMITED, .delay_ns = 50000, .jitter_ns = 30000, .reorder = true};
    struct bench *bench = bench_new(parameters, 1, 1);
    send_evenly(bench, 50000);
    uint64_t swapped = 0, quarters[4] = {0};
    for (size_t i = 0; i < bench->count; i++) {
        swapped += i > 0 && bench->out[i].tag < bench->out[i - 1].tag;
        int64_t late = bench->out[i].at_ns - ((int64_t)bench->out[i].tag * 10000 + 524 * 8 + 50000);
        quarters[(late + 30000) * 4 / 60001]++;
    }
    CHECK(swapped > 10000);
    for (int i = 0; i < 4; i++)
        CHECK(plausible(quarters[i], 50000, 0.25));
    bench_free(bench);
}

static void test_duplicates_come_right_after_their_packet(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .duplicate = random_threshold(0.02)};
    struct bench *bench = bench_new(parameters, 1, 1);
    send_evenly(bench, 100000);
    CHECK(plausible(bench->link.counts[LINK_NO_JOB].duplicated, 100000, 0.02));
    CHECK(bench->count == 100000 + bench->link.counts[LINK_NO_JOB].duplicated);
    for (size_t i = 1; i < bench->count; i++)
        CHECK(bench->out[i].tag - bench->out[i - 1].tag <= 1);
    bench_free(bench);
}

static void test_corruption_flips_one_bit_of_the_payload(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .corrupt = random_threshold(0.05)};
    struct bench *bench = bench_new(parameters, 1, 1);
    send_evenly(bench, 100000);
    uint64_t hit = 0, early = 0;
    for (size_t i = 0; i < bench->count; i++) {
        CHECK(bench->out[i].flipped <= 1);
        hit += bench->out[i].flipped;
        if (bench->out[i].flipped) {
            CHECK(bench->out[i].flipped_at >= 42 && bench->out[i].flipped_at < 500);
            early += bench->out[i].flipped_at < 42 + 229; /* half of the payload */
        }
    }
    CHECK(hit == bench->link.counts[LINK_NO_JOB].corrupted);
    CHECK(plausible(hit, 100000, 0.05) && plausible(early, hit, 0.5));
    bench_free(bench);
}

struct corrupted {
    struct packet_pool *pool;
    uint16_t checksum;
    bool right;
    uint8_t payload[100];
};

static void take_corrupted(void *receiver, struct packet *packet)
{
    struct corrupted *got = receiver;
    const uint8_t *transport = packet->frame + packet->layout.transport;
    got->checksum = load16(transport + (packet->layout.protocol == PROTOCOL_UDP ? 6 : 16));
    got->right = transport_right(packet->frame);
    memcpy(got->payload, packet->frame + packet->layout.payload, sizeof got->payload);
    packet_free(got->pool, packet);
}

static void test_only_corrupted_udp_packets_of_the_job_lose_their_checksum(void)
{
    const struct {
        uint8_t protocol, flags;
        bool checksum_stays;
        uint16_t port;
    } cases[] = {
        {PROTOCOL_UDP, PACKET_JOB, false, 4791},
        {PROTOCOL_UDP, PACKET_JOB, true, SUMS_PORT},
        {PROTOCOL_UDP, 0, true, 4791},
        {PROTOCOL_TCP, PACKET_JOB, true, 5000},
    };
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .corrupt = random_threshold(1)};
    struct bench *bench = bench_new(parameters, 1, 1);
    struct corrupted got = {.pool = &bench->pool};
    bench->link.deliver = take_corrupted;
    bench->link.receiver = &got;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = make_frame(bench->sent, cases[i].protocol, sizeof got.payload, 2);
        struct packet *packet = packet_new(&bench->pool, bytes);
        memcpy(packet->frame, bench->sent, bytes);
        packet->layout = frame_parse(packet->frame, bytes);
        packet->flags = cases[i].flags;
        store16(packet->frame + packet->layout.transport + 2, cases[i].port);
        frame_seal_transport(packet->frame, &packet->layout, (struct frame_tail){0});
        memcpy(bench->sent, packet->frame, bytes);
        const uint8_t *transport = bench->sent + packet->layout.transport, *payload = bench->sent + packet->layout.payload;
        link_send(&bench->link, packet, bench->link.free_ns);
        run_until(bench, INT64_MAX);
        unsigned flipped = 0;
        for (size_t at = 0; at < sizeof got.payload; at++)
            flipped += (unsigned)__builtin_popcount(got.payload[at] ^ payload[at]);
        CHECK(flipped == 1);
        if (cases[i].checksum_stays)
            CHECK(!got.right && got.checksum == load16(transport + (cases[i].protocol == PROTOCOL_UDP ? 6 : 16)));
        else
            CHECK(got.checksum == 0); /* RFC 768: the sender made none */
    }
    bench_free(bench);
}

static void test_a_cut_cable_loses_everything_inside(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED, .delay_ns = 20000};
    struct bench *bench = bench_new(parameters, 1, 1);
    for (uint32_t i = 0; i < 10; i++)
        send(bench, 976, i, 0);
    run_until(bench, 3 * 8000 + 4000); /* one delivered, two on the wire, one in service, six queued */
    CHECK(bench->count == 1 && link_in_flight(&bench->link, LINK_ALL) == 9);
    link_set_up(&bench->link, false, 3 * 8000 + 4000);
    send(bench, 976, 10, 3 * 8000 + 5000);
    link_set_up(&bench->link, true, 3 * 8000 + 5000); /* at once: what was inside stays lost */
    send(bench, 976, 11, 3 * 8000 + 6000);
    run_until(bench, INT64_MAX);
    CHECK(bench->count == 2 && bench->out[1].tag == 11);
    CHECK(bench->link.counts[LINK_NO_JOB].dropped_down == 10);
    check_balance(bench);
    bench_free(bench);
}

static void test_fate_depends_on_seed_link_and_packet_number_only(void)
{
    struct link_parameters parameters = {.rate_bps = GBPS, .queue_bytes = UNLIMITED};
    CHECK(link_parameters_loss(&parameters, 0.1, 1));
    struct bench *first = bench_new(parameters, 7, 3), *again = bench_new(parameters, 7, 3);
    struct bench *other_link = bench_new(parameters, 7, 4), *other_seed = bench_new(parameters, 8, 3);
    struct bench *all[] = {first, again, other_link, other_seed};
    for (int b = 0; b < 4; b++)
        for (uint32_t i = 0; i < 5000; i++)
            send(all[b], 500, i, (int64_t)i * (10000 + b * 1000)); /* other times, same packets */
    size_t same_link = 0, same_seed = 0;
    for (int b = 0; b < 4; b++)
        run_until(all[b], INT64_MAX);
    CHECK(first->count == again->count);
    for (size_t i = 0; i < first->count; i++)
        CHECK(first->out[i].tag == again->out[i].tag);
    for (size_t i = 0; i < 4000; i++) {
        same_link += first->out[i].tag == other_link->out[i].tag;
        same_seed += first->out[i].tag == other_seed->out[i].tag;
    }
    CHECK(same_link < 2000 && same_seed < 2000);
    for (int b = 0; b < 4; b++)
        bench_free(all[b]);
}

static void test_the_measured_rate_is_that_of_back_to_back_packets(void)
{
    struct bench *bench = bench_new((struct link_parameters){.rate_bps = GBPS / 100, .queue_bytes = UNLIMITED}, 1, 1);
    struct packet packet = {.run = 1};
    for (int i = 0; i < 15; i++) { /* too few */
        packet.run_bytes += 1000;
        packet.due_ns = i * 800000;
        link_came_out(&bench->link, &packet, packet.due_ns + 1000);
    }
    CHECK(link_measured_bps(&bench->link) == 0);
    packet = (struct packet){.run = 2};
    for (int i = 0; i < 101; i++) {
        packet.run_bytes += 1000;
        packet.due_ns = i * 800000;
        link_came_out(&bench->link, &packet, packet.due_ns + 1000);
    }
    CHECK(link_measured_bps(&bench->link) == GBPS / 100);
    CHECK(histogram_percentile(&bench->link.lateness, 50) >= 1000);
    CHECK(histogram_percentile(&bench->link.lateness, 99) <= 1000 * 17 / 16);
    link_mark(&bench->link);
    CHECK(link_measured_bps(&bench->link) == 0 && histogram_percentile(&bench->link.lateness, 50) == -1);
    bench_free(bench);
}

/* --- histogram, random numbers -------------------------------------------------------------------------------------- */

static void test_percentiles_are_within_a_sixteenth(void)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);
    for (int64_t value = 1; value <= 100000; value++)
        histogram_add(histogram, value);
    for (int percent = 1; percent <= 100; percent++) {
        int64_t exact = percent * 1000, found = histogram_percentile(histogram, percent);
        CHECK(found >= exact && found <= exact + exact / 16);
    }
    histogram_add(histogram, INT64_MAX);
    histogram_add(histogram, INT64_MIN);
    CHECK(histogram_percentile(histogram, 0) == 0);
    free(histogram);
}

static void test_splitmix_gives_its_published_numbers(void)
{
    /* The first five of java.util.SplittableRandom's generator with seed 1234567. */
    static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                        UINT64_C(16408922859458223821)};
    for (uint64_t n = 0; n < 5; n++)
        CHECK(random_draw(1234567, n) == expected[n]);
}

static void test_chances_are_never_or_always_at_the_ends(void)
{
    CHECK(!random_chance(0, random_threshold(0)) && !random_chance(0, random_threshold(-1)));
    CHECK(random_chance(UINT64_MAX, random_threshold(1)) && random_chance(UINT64_MAX, random_threshold(2)));
    CHECK(random_threshold(NAN) == 0);
}

/* --- CRC and ICRC --------------------------------------------------------------------------------------------------- */

static uint32_t bitwise_crc32(const uint8_t *bytes, size_t length)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++)
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (((crc ^ bytes[i] >> bit) & 1) ? 0xedb88320 : 0);
    return ~crc;
}

static void test_crc32_is_the_same_by_bits_by_table_and_by_multiplication(void)
{
    CHECK(crc32_update(0, (const uint8_t *)"123456789", 9) == 0xcbf43926); /* the check value of CRC-32 */
    uint8_t bytes[1400];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)next_random();
    for (size_t length = 0; length < 1300; length++) {
        size_t from = length % 17;
        uint32_t expected = bitwise_crc32(bytes + from, length);
        CHECK(crc32_update(0, bytes + from, length) == expected);
        CHECK(crc32_update_portable(0, bytes + from, length) == expected);
        size_t half = length / 3;
        CHECK(crc32_update(crc32_update(0, bytes + from, half), bytes + from + half, length - half) == expected);
    }
}

/* IPv4 header to ICRC of a congestion notification packet captured on a ConnectX-4 Lx (scapy, test/contrib/roce.uts). */
static const uint8_t captured_cnp[] = {
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01,
    0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a};

static void test_icrc_is_that_of_the_hardware(void)
{
    CHECK(icrc(captured_cnp, 20, captured_cnp + 20, captured_cnp + 28, 28) == 0x2a00fd82);
    struct icrc_flow flow = {0x0a001101, 0x0a001201, 0, 4791};
    CHECK(icrc_of_flow(&flow, 0x718c, captured_cnp + 28, 28) == 0x2a00fd82);
}

static void test_icrc_changes_with_the_identification_as_told(void)
{
    struct icrc_flow flow = {1, 2, 3, 4791};
    uint8_t data[1100];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)next_random();
    for (int round = 0; round < 2000; round++) {
        size_t length = 12 + random_below(next_random(), 1000);
        uint16_t id = (uint16_t)next_random(), other = (uint16_t)next_random();
        struct icrc_id_changes changes;
        icrc_id_changes(&changes, length);
        uint32_t expected = icrc_of_flow(&flow, id, data, length) ^ icrc_of_flow(&flow, other, data, length);
        CHECK(icrc_id_change(&changes, id ^ other) == expected);
    }
}

/* --- segmentation offload ------------------------------------------------------------------------------------------- */

struct flat {
    uint8_t bytes[FRAME_MAX_BYTES];
    size_t length;
};

/* What join_describe describes, as the kernel would read it. */
static void flatten(const struct iovec *pieces, size_t count, struct flat *flat)
{
    flat->length = 0;
    for (size_t i = 1; i < count; i++) {
        CHECK(flat->length + pieces[i].iov_len <= sizeof flat->bytes);
        memcpy(flat->bytes + flat->length, pieces[i].iov_base, pieces[i].iov_len);
        flat->length += pieces[i].iov_len;
    }
}

static void free_packets(struct packet_pool *pool, struct packet_list *list)
{
    for (struct packet *packet; (packet = packet_take(list));)
        packet_free(pool, packet);
}

/* Cut a super-packet, join the wire packets, cut what came of it: the same wire packets, each with right checksums. */
static void round_trip(uint8_t protocol, size_t payload_bytes, size_t segment_bytes)
{
    struct eventq events;
    struct packet_pool pool;
    static struct flat frame, joined, first[JOIN_SEGMENTS];
    struct packet_list list;
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    frame.length = make_frame(frame.bytes, protocol, payload_bytes, 0x62);
    uint8_t *transport = frame.bytes + 34;
    if (protocol == PROTOCOL_TCP)
        transport[13] = 0x18; /* PSH, ACK */
    size_t payload_at = frame.length - payload_bytes;
    struct virtio_header header = {.flags = 1,
                                   .segmentation = protocol == PROTOCOL_UDP ? 5 : 1,
                                   .segment_bytes = (uint16_t)segment_bytes,
                                   .checksum_start = 34,
                                   .checksum_offset = protocol == PROTOCOL_UDP ? 6 : 16};
    CHECK(offload_cut(&pool, NULL, &header, frame.bytes, frame.length, &list));
    struct join join = {0};
    size_t count = 0, offset = 0, expected = (payload_bytes + segment_bytes - 1) / segment_bytes;
    for (struct packet *packet; (packet = packet_take(&list)); count++) {
        size_t bytes = packet->length - payload_at;
        CHECK(bytes == (count + 1 < expected ? segment_bytes : payload_bytes - offset));
        CHECK(memcmp(packet->frame + payload_at, frame.bytes + payload_at + offset, bytes) == 0);
        CHECK(network_right(packet->frame) && transport_right(packet->frame));
        CHECK(load16(packet->frame + 18) == count); /* identification */
        if (protocol == PROTOCOL_TCP) {
            CHECK(load32(packet->frame + 38) == load32(transport + 4) + offset);
            CHECK((packet->frame[47] & 8) == (count + 1 == expected ? 8 : 0));
        }
        memcpy(first[count].bytes, packet->frame, packet->length);
        first[count].length = packet->length;
        CHECK(join_may_begin(packet));
        CHECK(!count || join_fit(&join, packet) == JOIN_FITS);
        join_append(&join, packet);
        offset += bytes;
    }
    CHECK(count == expected && offset == payload_bytes);
    struct iovec pieces[JOIN_PIECES];
    flatten(pieces, join_describe(&join, &header, pieces), &joined);
    CHECK(joined.length == frame.length);
    CHECK(count == 1 || header.segment_bytes == segment_bytes);
    CHECK(offload_cut(&pool, NULL, &header, joined.bytes, joined.length, &list));
    count = 0;
    for (struct packet *packet = list.first; packet; packet = packet->next, count++)
        CHECK(packet->length == first[count].length && memcmp(packet->frame, first[count].bytes, packet->length) == 0);
    CHECK(count == expected);
    free_packets(&pool, &list);
    free_packets(&pool, &join.packets);
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_cut_and_join_give_back_the_same_packets(void)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        uint8_t protocol = tcp ? PROTOCOL_TCP : PROTOCOL_UDP;
        round_trip(protocol, 44 * 1064, 1064);
        round_trip(protocol, 43 * 1064 + 20, 1064);
        round_trip(protocol, 1, 1064);
        round_trip(protocol, 65495, 1448);
        for (int round = 0; round < 200; round++) {
            size_t segment = 1 + random_below(next_random(), 3000), most = segment * JOIN_SEGMENTS;
            round_trip(protocol, 1 + random_below(next_random(), most < 65000 ? most : 65000), segment);
        }
    }
}

static struct packet *as_packet(struct packet_pool *pool, const uint8_t *frame, size_t length)
{
    struct packet *packet = packet_new(pool, length);
    memcpy(packet->frame, frame, length);
    packet->layout = frame_parse(packet->frame, length);
    return packet;
}

/* Cut a super-packet into packets that share it; the flags and kinds as of a kernel's. */
static struct packet_list cut_shared(struct packet_pool *pool, struct intake *intake, uint8_t protocol, size_t length,
                                     size_t segment_bytes)
{
    struct virtio_header header = {.flags = 1,
                                   .segmentation = protocol == PROTOCOL_UDP ? 5 : 1,
                                   .segment_bytes = (uint16_t)segment_bytes,
                                   .checksum_start = 34,
                                   .checksum_offset = protocol == PROTOCOL_UDP ? 6 : 16};
    struct packet_list list;
    CHECK(offload_cut(pool, intake, &header, intake->bytes, length, &list));
    return list;
}

static void join_all(struct join *join, struct packet_list *list)
{
    *join = (struct join){0};
    for (struct packet *packet; (packet = packet_take(list));) {
        CHECK(join_knows(packet) && join_may_begin(packet));
        CHECK(!join->count || join_fit(join, packet) == JOIN_FITS);
        join_append(join, packet);
    }
}

static void test_packets_that_share_a_super_packet_are_the_same_and_are_joined_in_place(void)
{
    enum { SEGMENT = 1024, SEGMENTS = 40, CHANGED = 3, CHANGED_AT = 8 };
    struct eventq events;
    struct packet_pool pool;
    static struct flat flat;
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    for (int tcp = 0; tcp < 2; tcp++) {
        uint8_t protocol = tcp ? PROTOCOL_TCP : PROTOCOL_UDP;
        size_t payload = SEGMENTS * SEGMENT - 7;
        struct intake *intake = intake_new(&pool, FRAME_MAX_BYTES);
        CHECK(intake);
        size_t length = make_frame(intake->bytes, protocol, payload, 0x62), payload_at = length - payload;
        if (tcp)
            intake->bytes[47] = 0x18;
        /* The same as those that are copied, whole as well as their first bytes. */
        struct packet_list split = cut_shared(&pool, intake, protocol, length, SEGMENT), copied;
        struct virtio_header header = {.flags = 1, .segmentation = tcp ? 1 : 5, .segment_bytes = SEGMENT};
        CHECK(offload_cut(&pool, NULL, &header, intake->bytes, length, &copied));
        struct packet *copy = copied.first;
        for (struct packet *packet = split.first; packet; packet = packet->next, copy = copy->next) {
            CHECK(packet->flags & PACKET_SPLIT && !(copy->flags & PACKET_SPLIT) && packet->length == copy->length);
            CHECK(memcmp(packet->frame, copy->frame, packet_here(packet)) == 0);
            struct packet *whole = split_fill(&pool, packet_copy(&pool, packet), UINT32_MAX);
            CHECK(!(whole->flags & PACKET_SPLIT) && memcmp(whole->frame, copy->frame, copy->length) == 0);
            packet_free(&pool, whole);
        }
        CHECK(!copy && intake->payload.references == 1 + SEGMENTS);
        free_packets(&pool, &copied);
        /* Joined they are one piece behind the headers, the super-packet's own. */
        struct join join;
        struct iovec pieces[JOIN_PIECES];
        join_all(&join, &split);
        CHECK(join_describe(&join, &header, pieces) == 3 && pieces[2].iov_base == intake->bytes + payload_at);
        flatten(pieces, 3, &flat);
        CHECK(flat.length == length && memcmp(flat.bytes + payload_at, intake->bytes + payload_at, payload) == 0);
        free_packets(&pool, &join.packets);
        CHECK(intake->payload.references == 1);
        /* What was changed on the way is what arrives. */
        split = cut_shared(&pool, intake, protocol, length, SEGMENT);
        struct packet *changed = split.first;
        for (int i = 0; i < CHANGED; i++)
            changed = changed->next;
        changed->frame[payload_at + CHANGED_AT] ^= 1;
        frame_seal_transport(changed->frame, &changed->layout, changed->tail);
        join_all(&join, &split);
        flatten(pieces, join_describe(&join, &header, pieces), &flat);
        CHECK(flat.length == length);
        for (size_t i = 0; i < payload; i++)
            CHECK((flat.bytes[payload_at + i] ^ intake->bytes[payload_at + i]) == (i == CHANGED * SEGMENT + CHANGED_AT));
        free_packets(&pool, &join.packets);
        /* Whose sum nobody knows any more has to be put together. */
        split = cut_shared(&pool, intake, protocol, length, SEGMENT);
        struct packet *unknown = packet_take(&split);
        unknown->tail = (struct frame_tail){0};
        CHECK(!join_knows(unknown));
        unknown = split_fill(&pool, unknown, UINT32_MAX);
        CHECK(join_knows(unknown) && join_may_begin(unknown));
        packet_free(&pool, unknown);
        free_packets(&pool, &split);
        /* A buffer that nobody refers to is used again. */
        CHECK(intake_again(&pool, intake, FRAME_MAX_BYTES) == intake);
        split = cut_shared(&pool, intake, protocol, length, SEGMENT);
        struct intake *other = intake_again(&pool, intake, FRAME_MAX_BYTES);
        CHECK(other && other != intake && intake->payload.references == SEGMENTS);
        free_packets(&pool, &split);
        payload_drop(&other->payload);
        CHECK(pool.packets == 0);
    }
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_small_super_packets_are_copied(void)
{
    struct eventq events;
    struct packet_pool pool;
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    struct intake *intake = intake_new(&pool, FRAME_MAX_BYTES);
    size_t length = make_frame(intake->bytes, PROTOCOL_UDP, 4000, 2);
    struct packet_list list = cut_shared(&pool, intake, PROTOCOL_UDP, length, 1000);
    CHECK(list.first && !(list.first->flags & PACKET_SPLIT) && intake->payload.references == 1);
    free_packets(&pool, &list);
    length = make_frame(intake->bytes, PROTOCOL_UDP, 12800, 2);
    list = cut_shared(&pool, intake, PROTOCOL_UDP, length, 200);
    CHECK(list.first && !(list.first->flags & PACKET_SPLIT) && intake->payload.references == 1);
    free_packets(&pool, &list);
    payload_drop(&intake->payload);
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_only_what_one_super_packet_could_be_is_joined(void)
{
    struct eventq events;
    struct packet_pool pool;
    uint8_t frame[600], other[600];
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    struct join join = {0};
    size_t length = make_frame(frame, PROTOCOL_UDP, 500, 2);
    join_append(&join, as_packet(&pool, frame, length));
    /* field, value, and what the packet then is to the join */
    static const struct {
        size_t at;
        int value;
        enum join_fit fit;
    } cases[] = {
        {0, 0, JOIN_FITS},     {15, 3, JOIN_BREAKS}, /* ToS: a mark */
        {22, 63, JOIN_BREAKS},                       /* TTL */
        {19, 2, JOIN_BREAKS},                        /* identification: one is missing */
        {34, 99, JOIN_OTHER},                        /* source port */
        {29, 99, JOIN_OTHER},                        /* source address */
        {17, 99, JOIN_BREAKS},                       /* replaced below: longer */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = length;
        memcpy(other, frame, length);
        other[19] = 1;
        if (cases[i].at == 17) {
            bytes = length + 2;
            store16(other + 16, (uint16_t)(bytes - 14));
            store16(other + 38, (uint16_t)(bytes - 34));
        } else if (cases[i].at) {
            other[cases[i].at] = (uint8_t)cases[i].value;
        }
        struct frame_layout layout = frame_parse(other, bytes);
        frame_seal_network(other, &layout);
        frame_seal_transport(other, &layout, (struct frame_tail){0});
        struct packet *packet = as_packet(&pool, other, bytes);
        CHECK(join_may_begin(packet));
        CHECK(join_fit(&join, packet) == cases[i].fit);
        other[50] ^= 1;
        packet_free(&pool, packet);
        packet = as_packet(&pool, other, bytes);
        CHECK(!join_may_begin(packet)); /* its checksum is wrong */
        packet_free(&pool, packet);
    }
    free_packets(&pool, &join.packets);
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_sums_are_joined_whatever_their_identification(void)
{
    struct eventq events;
    struct packet_pool pool;
    uint8_t frame[600];
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    for (int sums = 0; sums < 2; sums++) {
        struct join join = {0};
        size_t length = make_frame(frame, PROTOCOL_UDP, 500, 0);
        struct frame_layout layout = frame_parse(frame, length);
        store16(frame + 34, sums ? SUMS_PORT : SUMS_PORT + 1);
        frame_seal_transport(frame, &layout, (struct frame_tail){0});
        struct packet *first = as_packet(&pool, frame, length), *second = as_packet(&pool, frame, length);
        CHECK(join_may_begin(first));
        join_append(&join, first);
        CHECK((join_fit(&join, second) == JOIN_FITS) == sums);
        packet_free(&pool, second);
        free_packets(&pool, &join.packets);
    }
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_hostile_frames_and_headers_never_crash(void)
{
    struct eventq events;
    struct packet_pool pool;
    static uint8_t frame[4096];
    struct join joins[4] = {0};
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        uint64_t r = next_random();
        size_t length = make_frame(frame, r & 1 ? PROTOCOL_UDP : PROTOCOL_TCP, random_below(next_random(), 1000), 0);
        if (r & 64) { /* IPv6, whose transport has what was 20 bytes of payload */
            store16(frame + 12, 0x86dd);
            frame[14] = 0x60;
            store16(frame + 18, (uint16_t)(length - 54));
            frame[54 + 12] = 0x50;
        }
        for (unsigned flips = r >> 8 & 7; flips; flips--)
            frame[random_below(next_random(), 80)] = (uint8_t)next_random();
        if (r & 2)
            length = random_below(next_random(), length + 1);
        unsigned kind = r & 1 ? 5 : r & 64 ? 4 : 1;
        struct virtio_header header = {.flags = r >> 16 & 1,
                                       .segmentation = (uint8_t)(r & 4 ? r >> 17 : kind),
                                       .segment_bytes = (uint16_t)(next_random() >> (48 + (r >> 20 & 15))),
                                       .checksum_start = (uint16_t)(r & 8 ? next_random() : r & 64 ? 54 : 34),
                                       .checksum_offset = (uint16_t)(r & 16 ? next_random() : 6)};
        struct packet_list list;
        /* An exact copy on the heap, so that the sanitizer sees a read beyond the end. */
        uint8_t *exact = malloc(length ? length : 1);
        memcpy(exact, frame, length);
        if (!offload_cut(&pool, NULL, &header, exact, length, &list))
            CHECK(!list.first);
        free(exact);
        for (struct packet *packet; (packet = packet_take(&list));) {
            struct join *join = &joins[random_below(next_random(), 4)];
            frame_mark_congestion(packet->frame, &packet->layout);
            if (!join_may_begin(packet) || (join->count && join_fit(join, packet) != JOIN_FITS)) {
                packet_free(&pool, packet);
                continue;
            }
            join_append(join, packet);
            if (join->count == JOIN_SEGMENTS || r & 32) {
                struct iovec pieces[JOIN_PIECES];
                static struct flat flat;
                flatten(pieces, join_describe(join, &header, pieces), &flat);
                free_packets(&pool, &join->packets);
                *join = (struct join){0};
            }
        }
    }
    for (int i = 0; i < 4; i++)
        free_packets(&pool, &joins[i].packets);
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

static void test_a_kernel_s_unfinished_checksum_is_finished(void)
{
    struct eventq events;
    struct packet_pool pool;
    uint8_t frame[600];
    struct packet_list list;
    eventq_init(&events);
    packet_pool_init(&pool, &events);
    size_t length = make_frame(frame, PROTOCOL_UDP, 501, 2);
    struct frame_layout layout = frame_parse(frame, length);
    checksum_store(frame + 40, checksum_fold(checksum_pseudo_header(frame + 14, PROTOCOL_UDP, 509)));
    struct virtio_header header = {.flags = 1, .checksum_start = 34, .checksum_offset = 6};
    CHECK(!frame_transport_intact(frame, &layout, (struct frame_tail){0}));
    CHECK(offload_cut(&pool, NULL, &header, frame, length, &list));
    CHECK(transport_right(list.first->frame));
    free_packets(&pool, &list);
    packet_pool_destroy(&pool);
    eventq_destroy(&events);
}

/* --- RoCEv2 --------------------------------------------------------------------------------------------------------- */

static void test_hostile_datagrams_never_crash_the_reader(void)
{
    uint8_t opcodes[256];
    struct icrc_flow flow = {1, 2, 3, 4791};
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        size_t length = random_below(next_random(), 300), segment = random_below(next_random(), 100);
        uint8_t *data = malloc(length ? length : 1);
        for (size_t i = 0; i < length; i++)
            data[i] = (uint8_t)next_random();
        for (int i = 0; i < 256; i++)
            opcodes[i] = (uint8_t)next_random();
        /* Make most ICRCs right, so that the reader goes on. */
        size_t step = segment ? segment : length;
        for (size_t at = 0; step >= 16 && at < length; at += step) {
            size_t bytes = length - at < step ? length - at : step;
            if (bytes < 16)
                break;
            uint32_t crc = icrc_of_flow(&flow, (uint16_t)random_below(next_random(), 70), data + at, bytes - 4);
            for (int i = 0; i < 4; i++)
                data[at + bytes - 4 + (size_t)i] = (uint8_t)(crc >> 8 * i);
        }
        struct roce_reader reader = {.data = data, .length = length, .segment_bytes = segment, .flow = flow, .opcodes = opcodes};
        struct roce_packet packet;
        while (roce_read(&reader, &packet)) {
            CHECK(packet.header_at + packet.header_bytes + packet.payload_bytes <= length);
            CHECK(packet.payload_at <= packet.header_at + packet.header_bytes);
            roce_gather(&reader, &packet);
        }
        free(data);
    }
}

/* --- calls to a loop ------------------------------------------------------------------------------------------------- */

static void note_call(struct fabric *fabric, void *called)
{
    (void)fabric;
    *(bool *)called = true;
}

static void test_a_loop_that_is_stuck_is_not_waited_for_for_ever(void)
{
    struct fabric *fabric = fabric_new(1, false);
    bool called = false;
    CHECK(fabric && fabric_call(fabric, note_call, &called) && called);
    called = false;
    fabric->running = true; /* but nothing does */
    CHECK(!fabric_call(fabric, note_call, &called) && !called && !fabric->call);
    CHECK(fabric_hold(fabric) == ETIMEDOUT && !fabric->held);
    fabric->running = false;
    CHECK(fabric_call(fabric, note_call, &called) && called);
    fabric_destroy(fabric);
}

/* -------------------------------------------------------------------------------------------------------------------- */

static const struct test tests[] = {
    TEST(events_fire_by_time_then_by_order_of_scheduling),
    TEST(events_are_told_before_they_are_fired),
    TEST(events_may_be_scheduled_and_cancelled_by_those_that_fire),
    TEST(departures_are_exact_and_do_not_drift),
    TEST(a_late_caller_does_not_delay_later_packets),
    TEST(an_idle_link_serves_at_arrival),
    TEST(an_earlier_arrival_is_served_as_of_then_but_behind_what_has_left),
    TEST(a_late_packet_meets_the_queue_of_its_arrival),
    TEST(a_late_packet_is_marked_for_the_queue_of_its_arrival),
    TEST(an_overtaken_packet_meets_the_queue_behind_the_last),
    TEST(packets_handed_over_late_but_in_order_fare_as_in_time),
    TEST(the_memory_of_begun_services_is_bounded),
    TEST(a_packet_is_known_again_behind_a_switch),
    TEST(packets_of_one_content_leave_as_they_entered_switch_by_switch),
    TEST(a_duplicate_is_known_like_its_packet),
    TEST(a_packet_lost_in_a_switch_is_forgotten),
    TEST(transits_agree_with_a_list_of_what_is_inside),
    TEST(a_new_rate_holds_from_the_next_packet_on),
    TEST(the_queue_holds_its_bytes_beside_the_packet_in_service),
    TEST(a_host_port_neither_drops_nor_marks),
    TEST(marks_follow_the_queue_at_arrival),
    TEST(only_capable_packets_are_marked_and_the_checksum_follows),
    TEST(bernoulli_loss_has_its_mean),
    TEST(gilbert_elliott_loss_has_its_mean_and_its_bursts),
    TEST(all_or_nothing_is_lost_at_the_ends),
    TEST(impossible_loss_is_refused),
    TEST(jitter_spreads_the_delay_and_keeps_the_order),
    TEST(jitter_reorders_when_asked_and_is_uniform),
    TEST(duplicates_come_right_after_their_packet),
    TEST(corruption_flips_one_bit_of_the_payload),
    TEST(only_corrupted_udp_packets_of_the_job_lose_their_checksum),
    TEST(a_cut_cable_loses_everything_inside),
    TEST(fate_depends_on_seed_link_and_packet_number_only),
    TEST(the_measured_rate_is_that_of_back_to_back_packets),
    TEST(percentiles_are_within_a_sixteenth),
    TEST(splitmix_gives_its_published_numbers),
    TEST(chances_are_never_or_always_at_the_ends),
    TEST(crc32_is_the_same_by_bits_by_table_and_by_multiplication),
    TEST(icrc_is_that_of_the_hardware),
    TEST(icrc_changes_with_the_identification_as_told),
    TEST(cut_and_join_give_back_the_same_packets),
    TEST(packets_that_share_a_super_packet_are_the_same_and_are_joined_in_place),
    TEST(small_super_packets_are_copied),
    TEST(only_what_one_super_packet_could_be_is_joined),
    TEST(sums_are_joined_whatever_their_identification),
    TEST(hostile_frames_and_headers_never_crash),
    TEST(a_kernel_s_unfinished_checksum_is_finished),
    TEST(hostile_datagrams_never_crash_the_reader),
    TEST(a_loop_that_is_stuck_is_not_waited_for_for_ever),
};

int main(int argc, char **argv)
{
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
