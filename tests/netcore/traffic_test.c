/* Tests of queues, buffers and flow control in virtual time, run one by one under the sanitizers by test_core.py.
 *
 * A star: hosts, each with a NIC and a cable, around one switch that forwards to the host whose number a frame has. Expected
 * values are closed forms: of rates, delays and sizes, of deficit round robin's bound, and of Choudhury and Hahne's steady state.
 */
#include "buffer.h"
#include "context.h"
#include "core_test.h"

#include <math.h>

#define HOSTS 9
#define FRAME 976 /* 1000 B on the wire: 8 us at 1 Gb/s */
#define FRAME_NS INT64_C(8000)
#define PFC_NS INT64_C(672) /* 84 B at 1 Gb/s */
#define DELAY_NS INT64_C(5000)
#define SEEN_MAX 100000

#define TO_AT 0 /* where a frame has its target, its number and its source */
#define NUMBER_AT 1
#define FROM_AT 5

struct seen {
    int64_t at_ns;
    uint32_t number;
    uint32_t length;
    uint8_t from, tos;
    bool right; /* its checksums are */
};

struct host {
    struct star *star;
    unsigned number;
    struct link up, down;
    struct egress nic, port;
    struct seen *seen;
    size_t count;
    size_t pauses, resumes; /* frames that came here */
    int64_t pause_ns[64];
    bool deaf; /* to pause frames */
};

struct star {
    struct eventq events;
    struct packet_pool pool;
    struct context_pool contexts; /* of 0 bytes: packets have none */
    struct buffer buffer;
    struct host hosts[HOSTS];
};

static void at_switch(void *receiver, struct packet *packet)
{
    struct host *host = receiver;
    if (pfc_obey(&host->port, packet, packet->due_ns)) {
        packet_free(&host->star->pool, packet);
        return;
    }
    packet->ingress = (uint16_t)host->number;
    egress_send(&host->star->hosts[packet->frame[TO_AT]].port, packet, packet->due_ns);
}

static void at_host(void *receiver, struct packet *packet)
{
    struct host *host = receiver;
    struct pfc_frame frame;
    if (pfc_read(packet->frame, packet->length, &frame)) {
        bool pauses = false;
        for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
            pauses |= frame.quanta[i] > 0;
        if (pauses && host->pauses < 64)
            host->pause_ns[host->pauses] = packet->due_ns;
        host->pauses += pauses;
        host->resumes += !pauses;
        if (!host->deaf)
            CHECK(pfc_obey(&host->nic, packet, packet->due_ns));
    } else {
        CHECK(host->count < SEEN_MAX);
        host->seen[host->count++] = (struct seen){.at_ns = packet->due_ns,
                                                  .number = load32(packet->frame + NUMBER_AT),
                                                  .length = packet->length,
                                                  .from = packet->frame[FROM_AT],
                                                  .tos = packet->frame[15],
                                                  .right = network_right(packet->frame)};
    }
    packet_free(&host->star->pool, packet);
}

static void wire(struct star *star, struct link *link, uint64_t index, struct link_parameters parameters, struct host *host)
{
    CHECK(link_init(link, &star->events, &star->pool, 1, index));
    CHECK(link_parameters_loss(&parameters, parameters.loss_mean, 1));
    link_set(link, &parameters);
    link->receiver = host;
}

/* All cables with these parameters; hosts' NICs never drop. */
static struct star *star_new(struct link_parameters parameters, struct buffer_options options)
{
    struct star *star = calloc(1, sizeof *star);
    eventq_init(&star->events);
    packet_pool_init(&star->pool, &star->events);
    star->buffer.options = options;
    for (unsigned i = 0; i < HOSTS; i++) {
        struct host *host = &star->hosts[i];
        struct link_parameters nic = parameters;
        nic.never_drops = true;
        nic.ecn = false;
        host->star = star;
        host->number = i;
        host->seen = calloc(SEEN_MAX, sizeof *host->seen);
        wire(star, &host->up, 2 * i, nic, host);
        wire(star, &host->down, 2 * i + 1, parameters, host);
        host->up.deliver = at_switch;
        host->down.deliver = at_host;
        CHECK(egress_init(&host->nic, &host->up) && egress_init(&host->port, &host->down));
        host->port.buffer = &star->buffer;
        CHECK(buffer_add_port(&star->buffer, i, &host->up, &host->port));
    }
    return star;
}

static void star_free(struct star *star)
{
    for (unsigned i = 0; i < HOSTS; i++)
        free(star->hosts[i].seen);
    buffer_destroy(&star->buffer);
    packet_pool_destroy(&star->pool);
    context_pool_destroy(&star->contexts);
    eventq_destroy(&star->events);
    free(star);
}

static void run_until(struct star *star, int64_t until_ns)
{
    eventq_run(&star->events, until_ns, SIZE_MAX);
}

static struct packet *frame_of(struct star *star, unsigned from, unsigned to, unsigned priority, size_t bytes, uint32_t number)
{
    static uint8_t frame[10000];
    static size_t made;
    if (made != bytes)
        made = make_frame(frame, PROTOCOL_UDP, bytes - 42, 2);
    struct packet *packet = packet_new(&star->pool, bytes);
    CHECK(packet && made == bytes);
    memcpy(packet->frame, frame, bytes);
    packet->frame[TO_AT] = (uint8_t)to;
    store32(packet->frame + NUMBER_AT, number);
    packet->frame[FROM_AT] = (uint8_t)from;
    packet->layout = frame_parse(packet->frame, bytes);
    packet->priority = (uint8_t)priority;
    return packet;
}

/* A host sends. */
static void send_up(struct star *star, unsigned from, unsigned to, unsigned priority, size_t bytes, uint32_t number, int64_t now_ns)
{
    run_until(star, now_ns);
    egress_send(&star->hosts[from].nic, frame_of(star, from, to, priority, bytes, number), now_ns);
}

/* A packet comes to a port's queue, from nowhere or as if it had come by a host's port. */
static void send_down(struct star *star, unsigned from, unsigned to, unsigned priority, size_t bytes, uint32_t number, int64_t now_ns)
{
    struct packet *packet = frame_of(star, from, to, priority, bytes, number);
    packet->ingress = from < HOSTS ? (uint16_t)from : PACKET_NO_INGRESS;
    packet->context = star->contexts.bytes ? context_take(&star->contexts) : NULL;
    run_until(star, now_ns);
    egress_send(&star->hosts[to].port, packet, now_ns);
}

/* Nothing is left anywhere, and what came in went out or was counted. */
static void check_empty(const struct star *star)
{
    CHECK(star->buffer.used_bytes == 0);
    for (unsigned i = 0; i < HOSTS; i++) {
        const struct host *host = &star->hosts[i];
        const struct buffer_port *port = star->buffer.ports[i];
        const struct link *links[] = {&host->up, &host->down};
        const struct egress *egresses[] = {&host->nic, &host->port};
        for (int side = 0; side < 2; side++) {
            CHECK(link_in_flight(links[side], LINK_ALL) == 0 && links[side]->queued_bytes == 0);
            CHECK(egresses[side]->backlog == 0);
        }
        CHECK(host->down.counts[LINK_NO_JOB].packets == host->count);
        CHECK(port->headroom_used == 0 && port->pfc.asked == 0);
        for (unsigned p = 0; p < PACKET_PRIORITIES; p++)
            CHECK(port->held_bytes[p] == 0 && port->headroom_bytes[p] == 0 && host->port.queues[p].bytes == 0);
    }
}

static const struct link_parameters gigabit = {.rate_bps = GBPS, .delay_ns = DELAY_NS, .queue_bytes = UNLIMITED};
static const struct buffer_options plain = {0};

/* --- schedulers ----------------------------------------------------------------------------------------------------- */

static void test_a_larger_priority_goes_first_and_none_overtakes_its_own(void)
{
    struct star *star = star_new(gigabit, plain);
    struct host *host = &star->hosts[0];
    for (uint32_t i = 0; i < 80; i++) /* the first is in service when the others come */
        send_down(star, HOSTS, 0, i % 8, FRAME, i, 0);
    CHECK(host->down.max_queued_bytes == 79 * FRAME);
    run_until(star, INT64_MAX);
    CHECK(host->count == 80 && host->seen[0].number == 0);
    for (uint32_t i = 1, expected = 7; i < 80; i++) { /* 7, 15, ... 79, 6, 14, ... */
        CHECK(host->seen[i].number == expected && host->seen[i].at_ns == (i + 1) * FRAME_NS + DELAY_NS);
        expected = expected + 8 < 80 ? expected + 8 : expected % 8 == 1 ? 8 : expected % 8 - 1;
    }
    check_empty(star);
    star_free(star);
}

static void test_weights_share_the_bytes_whatever_the_sizes(void)
{
    /* While all queues wait, none is further from its share than a quantum and a packet (Shreedhar and Varghese, lemma 2). */
    static const uint32_t weights[] = {1, 1, 2, 3, 4, 8, 16, 5};
    static const size_t sizes[] = {1500, 64, 9000, 100, 1024, 576, 1500, 700};
    enum { WEIGHTS = 40, ROUNDS = 100 };
    struct star *star = star_new(gigabit, plain);
    struct host *host = &star->hosts[0];
    egress_schedule(&host->port, weights);
    for (unsigned priority = 0; priority < 8; priority++)
        for (size_t bytes = 0; bytes < 2 * ROUNDS * 1600 * weights[priority]; bytes += sizes[priority])
            send_down(star, priority, 0, priority, sizes[priority], 0, 0);
    run_until(star, ROUNDS * INT64_C(1600) * WEIGHTS * 8); /* less than half of it, at 1 B in 8 ns */
    double sent[8] = {0}, total = 0;
    for (size_t i = 0; i < host->count; i++) {
        sent[host->seen[i].from] += host->seen[i].length;
        total += host->seen[i].length;
    }
    double rounds = total / (1600 * WEIGHTS);
    CHECK(rounds > ROUNDS / 2.0);
    for (unsigned priority = 0; priority < 8; priority++)
        CHECK(fabs(sent[priority] - rounds * 1600 * weights[priority]) <= 1600.0 * weights[priority] + 9000);
    run_until(star, INT64_MAX);
    check_empty(star);
    star_free(star);
}

static void test_an_unused_share_is_left_to_the_others(void)
{
    static const uint32_t weights[] = {1, 1, 1, 1, 1, 1, 1, 100};
    struct star *star = star_new(gigabit, plain);
    egress_schedule(&star->hosts[0].port, weights);
    for (uint32_t i = 0; i < 100; i++)
        send_down(star, HOSTS, 0, i % 2, FRAME, i, 0);
    run_until(star, INT64_MAX);
    CHECK(star->hosts[0].count == 100 && star->hosts[0].seen[99].at_ns == 100 * FRAME_NS + DELAY_NS);
    star_free(star);
}

/* --- the owner ------------------------------------------------------------------------------------------------------ */

struct owner {
    struct star *star;
    size_t told;
    int64_t enqueued_ns[8], left_ns[8];
    uint32_t enqueued_depth[8];
    uint64_t deq_depth[8];
};

static struct packet *owner_leave(void *of, struct packet *packet, uint64_t deq_depth, int64_t now_ns)
{
    struct owner *owner = of;
    uint32_t number = load32(packet->frame + NUMBER_AT);
    CHECK(number == owner->told++);
    owner->enqueued_ns[number] = packet->enqueued_ns;
    owner->enqueued_depth[number] = packet->enqueued_depth;
    owner->deq_depth[number] = deq_depth;
    owner->left_ns[number] = now_ns;
    context_free(packet->context);
    packet->context = NULL;
    if (number == 2) { /* a program drops it */
        packet_free(&owner->star->pool, packet);
        return NULL;
    }
    if (number == 3) /* and takes 500 B from this */
        packet->length -= 500;
    return packet;
}

static void test_the_owner_sees_depths_and_times_and_may_take_or_change_a_packet(void)
{
    struct star *star = star_new(gigabit, plain);
    struct host *host = &star->hosts[0];
    struct owner owner = {.star = star};
    host->port.leave = owner_leave;
    host->port.owner = &owner;
    context_pool_init(&star->contexts, 1);
    for (uint32_t i = 0; i < 5; i++)
        send_down(star, HOSTS, 0, 0, FRAME, i, 1000 * i);
    run_until(star, INT64_MAX);
    static const int64_t left_ns[] = {0, 8000, 16000, 16000, 20000}; /* the third takes no time, the fourth half of it */
    static const uint32_t depths[] = {0, 0, 1, 2, 3}, stay[] = {0, 3, 2, 1, 0}; /* beside the packet in service */
    for (uint32_t i = 0; i < 5; i++) {
        CHECK(owner.enqueued_ns[i] == 1000 * i && owner.left_ns[i] == left_ns[i]);
        CHECK(owner.enqueued_depth[i] == depths[i] * FRAME && owner.deq_depth[i] == stay[i] * FRAME);
    }
    CHECK(host->count == 4 && host->seen[2].length == FRAME - 500);
    CHECK(host->seen[2].at_ns == 20000 + DELAY_NS && host->seen[3].at_ns == 28000 + DELAY_NS);
    CHECK(host->down.counts[LINK_NO_JOB].entered == 5 && host->down.counts[LINK_ALL].consumed == 1);
    check_empty(star);
    star_free(star);
}

/* --- pauses --------------------------------------------------------------------------------------------------------- */

static void test_a_pause_holds_its_priority_only_and_ends_by_itself(void)
{
    struct star *star = star_new(gigabit, plain);
    struct host *host = &star->hosts[0];
    egress_pause(&host->port, 5, 100000, 0);
    for (uint32_t i = 0; i < 4; i++)
        send_down(star, HOSTS, 0, i % 2 ? 5 : 2, FRAME, i, 0);
    run_until(star, INT64_MAX);
    static const uint32_t order[] = {0, 2, 1, 3};
    static const int64_t end_ns[] = {8000, 16000, 108000, 116000};
    for (size_t i = 0; i < 4; i++)
        CHECK(host->seen[i].number == order[i] && host->seen[i].at_ns == end_ns[i] + DELAY_NS);
    CHECK(egress_paused_ns(&host->port, 60000) == 60000 && egress_paused_ns(&host->port, 500000) == 100000);
    star_free(star);
}

static void test_a_pause_may_be_shortened_lengthened_and_lifted(void)
{
    struct star *star = star_new(gigabit, plain);
    struct host *host = &star->hosts[0];
    egress_pause(&host->port, 3, 100000, 0);
    send_down(star, HOSTS, 0, 3, FRAME, 0, 1000);
    egress_pause(&host->port, 3, 50000, 2000); /* ends sooner than was said */
    run_until(star, 55000);
    CHECK(host->down.free_ns == 58000);
    egress_pause(&host->port, 3, 90000, 55000);
    send_down(star, HOSTS, 0, 3, FRAME, 1, 56000);
    run_until(star, 80000);
    egress_pause(&host->port, 3, 120000, 80000); /* later */
    run_until(star, 100000);
    CHECK(host->count == 1);
    egress_pause(&host->port, 3, 100000, 100000); /* lifted */
    run_until(star, INT64_MAX);
    CHECK(host->count == 2 && host->seen[0].at_ns == 58000 + DELAY_NS && host->seen[1].at_ns == 108000 + DELAY_NS);
    CHECK(egress_paused_ns(&host->port, 200000) == 50000 + (100000 - 55000));
    check_empty(star);
    star_free(star);
}

/* --- buffer --------------------------------------------------------------------------------------------------------- */

/* Overload the first queues: of as many ports, or of as many priorities of one; each settles at alpha B / (1 + n alpha). */
static void check_thresholds(double alpha, unsigned queues, bool one_port)
{
    struct buffer_options options = {.dynamic = true, .shared_bytes = 400000, .alpha = alpha};
    static const uint32_t equal[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct star *star = star_new(gigabit, options);
    egress_schedule(&star->hosts[0].port, equal);
    for (uint32_t round = 0; round < 1500; round++) /* twice the rate of each, or more */
        for (unsigned i = 0; i < queues; i++)
            send_down(star, HOSTS, one_port ? 0 : i, one_port ? i : 0, FRAME, 0, round * FRAME_NS / 2);
    double steady = alpha * 400000 / (1 + queues * alpha);
    for (unsigned i = 0; i < queues; i++) {
        double found = (double)star->hosts[one_port ? 0 : i].port.queues[one_port ? i : 0].bytes;
        CHECK(fabs(found - steady) <= (1 + alpha) * (queues + 1) * FRAME);
    }
    CHECK(star->buffer.max_used_bytes <= 400000);
    run_until(star, INT64_MAX);
    check_empty(star);
    star_free(star);
}

static void test_dynamic_thresholds_settle_where_theory_says(void)
{
    static const double alphas[] = {0.125, 0.5, 1, 2, 8};
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++)
        for (unsigned queues = 1; queues <= 8; queues *= 2) {
            check_thresholds(alphas[i], queues, false);
            check_thresholds(alphas[i], queues, true);
        }
}

static void test_without_a_shared_buffer_the_link_bounds_the_port(void)
{
    struct link_parameters parameters = gigabit;
    parameters.queue_bytes = 3 * FRAME + FRAME / 2;
    struct star *star = star_new(parameters, plain);
    for (uint32_t i = 0; i < 10; i++)
        send_down(star, HOSTS, 0, i % 8, FRAME, i, 0);
    CHECK(star->hosts[0].down.counts[LINK_NO_JOB].dropped_queue == 6); /* one in service, three wait */
    run_until(star, INT64_MAX);
    check_empty(star);
    star_free(star);
}

static void test_marks_look_at_the_bytes_of_the_packet_s_own_queue(void)
{
    struct link_parameters parameters = gigabit;
    parameters.ecn = true;
    parameters.ecn_min_bytes = parameters.ecn_max_bytes = 3 * FRAME;
    struct star *star = star_new(parameters, plain);
    struct host *host = &star->hosts[0];
    for (uint32_t i = 0; i < 8; i++)
        send_down(star, HOSTS, 0, 0, FRAME, i, 0);
    for (uint32_t i = 8; i < 13; i++)
        send_down(star, HOSTS, 0, 1, FRAME, i, 0);
    run_until(star, INT64_MAX);
    CHECK(host->count == 13);
    for (size_t i = 0; i < 13; i++) {
        uint32_t number = host->seen[i].number; /* it found number - 1 packets, or number - 8 in the other queue */
        bool marked = number < 8 ? number > 4 : number > 11;
        CHECK(((host->seen[i].tos & ECN_MASK) == ECN_CE) == marked && host->seen[i].right);
    }
    CHECK(host->down.counts[LINK_NO_JOB].ecn_marked == 4);
    star_free(star);
}

/* --- trimming ------------------------------------------------------------------------------------------------------- */

static struct packet *keep_frame(void *of, struct packet *packet, uint64_t deq_depth, int64_t now_ns)
{
    struct owner *owner = of;
    (void)deq_depth;
    (void)now_ns;
    packet->length = FRAME; /* as a program's deparser does, which knows nothing of the queue */
    owner->told++;
    return packet;
}

static void take_trimmed(void *receiver, struct packet *packet)
{
    size_t *right = receiver;
    struct frame_layout layout = frame_parse(packet->frame, packet->length);
    CHECK(layout.protocol == PROTOCOL_UDP && network_right(packet->frame));
    CHECK(load16(packet->frame + 16) == packet->length - 14 && load16(packet->frame + 38) == packet->length - 34);
    CHECK(packet->length == FRAME || load16(packet->frame + 40) == 0);
    *right += packet->length == 64;
    packet_free(packet->link->pool, packet);
}

static void test_what_would_be_dropped_is_cut_and_goes_first(void)
{
    for (int program = 0; program < 2; program++) {
        struct link_parameters parameters = gigabit;
        parameters.queue_bytes = 2 * FRAME;
        struct star *star = star_new(parameters, (struct buffer_options){.trim_bytes = 64});
        struct owner owner = {0};
        struct host *host = &star->hosts[0];
        if (program) {
            host->port.leave = keep_frame;
            host->port.owner = &owner;
        }
        for (uint32_t i = 0; i < 68; i++) /* one in service, two wait, 61 of 64 B in twice their room; the rest finds none */
            send_down(star, HOSTS, 0, 0, FRAME, i, 0);
        CHECK(host->down.counts[LINK_NO_JOB].trimmed == 61 && host->down.counts[LINK_ALL].dropped_queue == 4);
        run_until(star, INT64_MAX);
        CHECK(host->count == 64);
        for (size_t i = 0; i < 64; i++) {
            bool cut = i > 0 && i < 62;
            uint32_t number = cut ? (uint32_t)i + 2 : i ? (uint32_t)i - 61 : 0;
            CHECK(host->seen[i].number == number && host->seen[i].length == (cut ? 64 : FRAME));
        }
        CHECK(host->seen[1].at_ns == FRAME_NS + 88 * 8 + DELAY_NS);
        check_empty(star);
        star_free(star);
    }
}

static void test_what_is_short_already_is_not_dropped_for_a_full_queue(void)
{
    struct link_parameters parameters = gigabit;
    parameters.queue_bytes = FRAME;
    struct star *star = star_new(parameters, (struct buffer_options){.trim_bytes = 64});
    struct host *host = &star->hosts[0];
    for (uint32_t i = 0; i < 2; i++)
        send_down(star, HOSTS, 0, 0, FRAME, i, 0);
    for (uint32_t i = 2; i < 4; i++)
        send_down(star, HOSTS, 0, 0, 60, i, 0);
    CHECK(host->down.counts[LINK_NO_JOB].trimmed == 0 && host->down.counts[LINK_ALL].dropped_queue == 0);
    run_until(star, INT64_MAX);
    static const uint32_t order[] = {0, 2, 3, 1};
    CHECK(host->count == 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(host->seen[i].number == order[i] && host->seen[i].length == (i % 3 ? 60 : FRAME));
    check_empty(star);
    star_free(star);
}

static void test_a_cut_packet_has_the_lengths_and_checksums_of_what_is_left(void)
{
    struct link_parameters parameters = gigabit;
    parameters.queue_bytes = 1000;
    struct star *star = star_new(parameters, (struct buffer_options){.trim_bytes = 64});
    size_t right = 0;
    star->hosts[0].down.deliver = take_trimmed;
    star->hosts[0].down.receiver = &right;
    send_down(star, HOSTS, 0, 0, FRAME, 0, 0);
    for (uint32_t i = 0; i < 4; i++)
        send_down(star, HOSTS, 0, 0, FRAME + 200, i, 0);
    struct packet *packet = frame_of(star, 0, 0, 0, FRAME + 200, 0);
    packet->frame[23] = PROTOCOL_TCP; /* what is no UDP is dropped whole */
    packet->frame[46] = 0x50;
    packet->layout = frame_parse(packet->frame, packet->length);
    CHECK(packet->layout.protocol == PROTOCOL_TCP);
    egress_send(&star->hosts[0].port, packet, 0);
    CHECK(star->hosts[0].down.counts[LINK_NO_JOB].dropped_queue == 1);
    run_until(star, INT64_MAX);
    CHECK(right == 4);
    star_free(star);
}

/* --- flow control --------------------------------------------------------------------------------------------------- */

static void test_pause_frames_are_those_of_the_standard(void)
{
    /* IEEE 802.3, figure 31D-1: address, type, opcode, class-enable vector, eight times; 64 B with FCS. */
    static const uint8_t expected[60] = {0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0x01, 0x01, 0x00, 0x88,
                                         0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
    struct pfc_frame frame = {.enabled = 0x88, .quanta = {[3] = 0xffff, [7] = 0x1234}}, read;
    uint8_t written[PFC_FRAME_BYTES];
    pfc_write(written, &frame);
    CHECK(sizeof written == sizeof expected && memcmp(written, expected, sizeof expected) == 0);
    CHECK(pfc_read(written, sizeof written, &read) && read.enabled == 0x88);
    CHECK(read.quanta[3] == 0xffff && read.quanta[7] == 0x1234 && read.quanta[0] == 0);
    for (size_t length = 0; length < 34; length++)
        CHECK(!pfc_read(written, length, &read));
    for (size_t i = 0; i < 16; i++) {
        if (i >= 6 && i < 12)
            continue; /* whoever sends it */
        written[i] ^= 1;
        CHECK(!pfc_read(written, sizeof written, &read));
        written[i] ^= 1;
    }
    CHECK(pfc_pause_ns(0xffff, 100 * GBPS) == 335539 && pfc_pause_ns(1, GBPS) == 512 && pfc_pause_ns(0, GBPS) == 0);
}

/* The first hosts send to host 0 in priority 3, all at once. */
static struct star *incast(struct link_parameters parameters, struct buffer_options options, unsigned senders, uint32_t frames)
{
    struct star *star = star_new(parameters, options);
    for (unsigned i = 1; i <= senders; i++)
        for (uint32_t k = 0; k < frames; k++)
            send_up(star, i, 0, 3, FRAME, k, 0);
    return star;
}

static void test_xoff_and_xon_stop_and_start_the_sender_in_time(void)
{
    struct buffer_options options = {.pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct star *star = incast(gigabit, options, 1, 100);
    struct host *sender = &star->hosts[1], *target = &star->hosts[0];
    egress_pause(&target->port, 3, 200000, 0); /* so nothing leaves until then */
    run_until(star, 200000 - 1);
    /* The fourth frame arrives at 4 x 8000 + 5000 and is asked about at once: the way back is idle. */
    int64_t heard_ns = 4 * FRAME_NS + DELAY_NS + PFC_NS + DELAY_NS;
    CHECK(sender->pauses == 1 && sender->pause_ns[0] == heard_ns);
    /* By then the sixth is in service: 5 x 8000 < 42672 < 6 x 8000. */
    CHECK(sender->up.counts[LINK_NO_JOB].packets == 6 && sender->resumes == 0);
    /* Two remain when the fourth goes into service, at 224 us. */
    int64_t resumed_ns = 200000 + 3 * FRAME_NS + PFC_NS + DELAY_NS;
    run_until(star, resumed_ns - 1);
    CHECK(sender->resumes == 0 && star->buffer.ports[1]->held_bytes[3] == 2 * FRAME);
    run_until(star, resumed_ns);
    CHECK(sender->resumes == 1 && sender->up.free_ns == resumed_ns + FRAME_NS);
    CHECK(egress_paused_ns(&sender->nic, 300000) == resumed_ns - heard_ns);
    run_until(star, INT64_MAX);
    CHECK(target->count == 100 && target->down.counts[LINK_NO_JOB].entered == 100);
    check_empty(star);
    star_free(star);
}

static void test_a_pause_is_asked_for_again_before_it_ends(void)
{
    /* 65535 quanta are 33.55 ms; they are said again after half of it, for as long as it takes. */
    struct buffer_options options = {.pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct star *star = incast(gigabit, options, 1, 100);
    struct host *sender = &star->hosts[1], *target = &star->hosts[0];
    int64_t whole_ns = pfc_pause_ns(0xffff, GBPS), half_ns = pfc_pause_ns(0x7fff, GBPS);
    egress_pause(&target->port, 3, 10 * whole_ns, 0);
    run_until(star, 10 * whole_ns - 1);
    CHECK(sender->up.counts[LINK_NO_JOB].packets == 6 && sender->pauses == 20);
    for (size_t i = 1; i < 20; i++)
        CHECK(sender->pause_ns[i] - sender->pause_ns[i - 1] == half_ns && half_ns < whole_ns);
    CHECK(star->buffer.ports[1]->pfc.sent == 20);
    star_free(star);
}

static void test_a_slow_way_back_pauses_in_time_again(void)
{
    struct buffer_options options = {.dynamic = true, .shared_bytes = 60000, .alpha = 1, .headroom_bytes = 20 * FRAME,
                                     .pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct link_parameters slow = gigabit;
    slow.rate_bps = GBPS / 10;
    struct star *star = star_new(gigabit, options);
    link_set(&star->hosts[1].down, &slow);
    egress_pause(&star->hosts[0].port, 3, 3 * pfc_pause_ns(0xffff, slow.rate_bps), 0); /* a second */
    for (uint32_t k = 0; k < 400; k++)
        send_up(star, 1, 0, 3, FRAME, k, 0);
    run_until(star, INT64_MAX);
    CHECK(star->hosts[0].count == 400 && star->hosts[0].down.counts[LINK_NO_JOB].dropped_queue == 0);
    check_empty(star);
    star_free(star);
}

static void test_a_sender_that_hears_no_more_goes_on_when_its_pause_is_over(void)
{
    struct buffer_options options = {.pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct star *star = incast(gigabit, options, 1, 100);
    struct host *sender = &star->hosts[1];
    int64_t whole_ns = pfc_pause_ns(0xffff, GBPS);
    egress_pause(&star->hosts[0].port, 3, 10 * whole_ns, 0);
    run_until(star, whole_ns / 4);
    sender->deaf = true;
    int64_t until_ns = sender->pause_ns[0] + whole_ns;
    run_until(star, until_ns - 1);
    CHECK(sender->up.counts[LINK_NO_JOB].packets == 6 && sender->up.free_ns == 6 * FRAME_NS);
    run_until(star, until_ns);
    CHECK(sender->up.free_ns == until_ns + FRAME_NS);
    star_free(star);
}

static void test_a_pause_frame_goes_ahead_of_what_waits_but_not_into_a_frame(void)
{
    struct buffer_options options = {.pfc_priorities = 1 << 3, .xoff_bytes = 1, .xon_bytes = 0};
    struct star *star = star_new(gigabit, options);
    struct host *host = &star->hosts[1];
    for (uint32_t i = 0; i < 10; i++)
        send_down(star, HOSTS, 1, 7, FRAME, i, 0);
    egress_pause(&star->hosts[0].port, 3, 1000000, 0);
    send_down(star, 1, 0, 3, FRAME, 0, FRAME_NS + 1); /* as if host 1 had sent it, when its second frame is on the way to it */
    run_until(star, 100000);
    CHECK(host->pauses == 1 && host->pause_ns[0] == 2 * FRAME_NS + PFC_NS + DELAY_NS);
    CHECK(host->count == 10 && host->seen[1].at_ns == 2 * FRAME_NS + DELAY_NS);
    CHECK(host->seen[2].at_ns == 3 * FRAME_NS + PFC_NS + DELAY_NS);
    CHECK(host->down.counts[LINK_NO_JOB].entered == 10 && host->down.counts[LINK_ALL].packets == 10);
    star_free(star);
}

/* The bytes of frames that may come by a port after the packet that made it ask: while the pause frame waits for a frame in
 * service on the way back, is sent, and travels; while the sender ends its frame; and what is on the way. */
static uint64_t headroom_needed(int64_t delay_ns, bool busy_back)
{
    int64_t ns = 2 * delay_ns + PFC_NS + FRAME_NS + (busy_back ? FRAME_NS : 0);
    return (uint64_t)((ns + FRAME_NS - 1) / FRAME_NS) * FRAME;
}

static void check_incast(uint64_t headroom, unsigned senders, bool busy_back, bool stuck, bool lossless)
{
    struct buffer_options options = {.dynamic = true, .shared_bytes = 60000, .alpha = 0.5, .headroom_bytes = headroom,
                                     .pfc_priorities = 1 << 3, .xoff_bytes = 60000, .xon_bytes = 30000};
    struct link_parameters parameters = gigabit;
    parameters.delay_ns = 50000;
    struct star *star = star_new(parameters, options);
    if (stuck) /* nothing leaves meanwhile: the worst that can come */
        egress_pause(&star->hosts[0].port, 3, 5000000, 0);
    if (busy_back)
        for (uint32_t k = 0; k < 2000; k++)
            for (unsigned i = 1; i <= senders; i++)
                send_up(star, 0, i, 0, FRAME, k, 0);
    uint32_t frames = 400;
    for (uint32_t k = 0; k < frames; k++)
        for (unsigned i = 1; i <= senders; i++)
            send_up(star, i, 0, 3, FRAME, k, 0);
    run_until(star, INT64_MAX);
    const struct link_counts *counts = &star->hosts[0].down.counts[LINK_NO_JOB];
    CHECK((counts->dropped_queue == 0) == lossless);
    CHECK(counts->packets + counts->dropped_queue == frames * senders);
    for (unsigned i = 1; i <= senders; i++)
        CHECK(star->hosts[i].pauses > 0 && star->buffer.ports[i]->max_headroom_used <= headroom);
    if (!stuck) { /* and the port never idled: all came as fast as one link carries them */
        const struct host *host = &star->hosts[0];
        CHECK(host->seen[host->count - 1].at_ns - host->seen[0].at_ns == (int64_t)(host->count - 1) * FRAME_NS);
    }
    check_empty(star);
    star_free(star);
}

static void test_incast_loses_nothing_with_headroom_for_rate_and_delay(void)
{
    for (unsigned senders = 2; senders <= 8; senders *= 2) {
        check_incast(headroom_needed(50000, false), senders, false, false, true);
        check_incast(headroom_needed(50000, true), senders, true, false, true);
        check_incast(headroom_needed(50000, false), senders, false, true, true);
        check_incast(headroom_needed(50000, false) - 2 * FRAME, senders, false, true, false);
    }
}

static void test_a_cable_that_is_cut_for_a_while_loses_no_more_than_what_is_in_it(void)
{
    /* Nothing leaves for 1.2 ms, and the cut lasts 1 ms: it begins before the sender is paused, when it has just been, while it
     * is, and when it goes on. Headroom is for what comes meanwhile once, not again after the cut. */
    int64_t stuck_ns = 1200000;
    for (int64_t cut_ns = 20000; cut_ns < 1400000; cut_ns += cut_ns < 60000 || cut_ns > stuck_ns ? 1777 : 97777)
        for (int order = 0; order < 2; order++) {
            struct buffer_options options = {.dynamic = true, .shared_bytes = 4 * FRAME, .alpha = 8,
                                             .headroom_bytes = 2 * FRAME, .pfc_priorities = 1 << 3,
                                             .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
            struct star *star = incast(gigabit, options, 1, 400);
            struct host *sender = &star->hosts[1], *target = &star->hosts[0];
            struct link *cable[] = {&sender->up, &sender->down};
            egress_pause(&target->port, 3, stuck_ns, 0);
            run_until(star, cut_ns);
            link_set_up(cable[order], false, cut_ns);
            link_set_up(cable[!order], false, cut_ns);
            uint64_t lost = sender->up.counts[LINK_NO_JOB].dropped_down; /* the NIC's queue */
            int64_t mended_ns = cut_ns + 1000000;
            run_until(star, mended_ns);
            link_set_up(cable[order], true, mended_ns);
            link_set_up(cable[!order], true, mended_ns);
            for (uint32_t k = 0; k < 100; k++)
                send_up(star, 1, 0, 3, FRAME, k, mended_ns);
            int64_t since_ns = mended_ns > stuck_ns ? mended_ns : stuck_ns;
            run_until(star, since_ns + 100 * FRAME_NS + 100000); /* nor does it wait for the end of a pause */
            CHECK(target->down.counts[LINK_NO_JOB].dropped_queue == 0);
            CHECK(sender->up.counts[LINK_NO_JOB].dropped_down - lost <= 2); /* in the cable */
            CHECK(sender->up.counts[LINK_NO_JOB].dropped_down + target->count == 500);
            run_until(star, INT64_MAX);
            check_empty(star);
            star_free(star);
        }
}

static void test_a_pause_is_said_again_over_a_mended_cable(void)
{
    struct buffer_options options = {.pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct star *star = incast(gigabit, options, 1, 10);
    struct host *sender = &star->hosts[1];
    egress_pause(&star->hosts[0].port, 3, 10000000, 0);
    run_until(star, 4 * FRAME_NS + DELAY_NS + 1);
    link_set_up(&sender->down, false, 4 * FRAME_NS + DELAY_NS + 1); /* with the pause frame in it */
    run_until(star, 1000000);
    CHECK(sender->pauses == 0);
    link_set_up(&sender->down, true, 1000000);
    run_until(star, 2000000);
    CHECK(sender->pauses == 1 && sender->pause_ns[0] == 1000000 + PFC_NS + DELAY_NS);
    star_free(star);
}

/* --- all at once ---------------------------------------------------------------------------------------------------- */

static void test_bytes_and_packets_are_conserved_whatever_happens(void)
{
    for (uint64_t round = 0; round < 24; round++) {
        static const uint32_t weights[] = {1, 2, 3, 4, 5, 6, 7, 8};
        struct link_parameters parameters = {.rate_bps = GBPS, .delay_ns = 3000, .queue_bytes = 30000, .ecn = true,
                                             .ecn_min_bytes = 5000, .ecn_max_bytes = 15000, .ecn_probability = 0.3};
        parameters.loss_mean = round & 1 ? 0.02 : 0;
        parameters.duplicate = round & 2 ? random_threshold(0.02) : 0;
        parameters.jitter_ns = round & 4 ? 2000 : 0;
        struct buffer_options options = {.dynamic = round % 3, .shared_bytes = 60000, .alpha = 1, .headroom_bytes = 8000,
                                         .pfc_priorities = round % 3 == 2 ? 0x0c : 0, .xoff_bytes = 6000, .xon_bytes = 3000,
                                         .trim_bytes = round % 4 == 3 ? 70 : 0};
        struct star *star = star_new(parameters, options);
        for (unsigned i = 0; i < HOSTS && round & 8; i++)
            egress_schedule(&star->hosts[i].port, weights);
        uint64_t sent = 0;
        for (int64_t now_ns = 0; sent < 6000; now_ns += (int64_t)random_below(next_random(), 3000), sent++) {
            unsigned from = (unsigned)random_below(next_random(), HOSTS), to = (unsigned)random_below(next_random(), 2);
            send_up(star, from, to, (unsigned)(next_random() & 7), 60 + random_below(next_random(), 1400), 0, now_ns);
            if (sent % 1000 == 999 && round & 16) {
                link_set_up(&star->hosts[0].down, false, now_ns);
                link_set_up(&star->hosts[0].up, false, now_ns);
            } else if (sent % 1000 == 200) {
                link_set_up(&star->hosts[0].down, true, now_ns);
                link_set_up(&star->hosts[0].up, true, now_ns);
            }
        }
        run_until(star, INT64_MAX);
        check_empty(star);
        uint64_t made = sent, gone = 0;
        for (unsigned i = 0; i < HOSTS; i++) {
            const struct link *links[] = {&star->hosts[i].up, &star->hosts[i].down};
            gone += star->hosts[i].count;
            for (int side = 0; side < 2; side++) {
                const struct link_counts *of = &links[side]->counts[LINK_NO_JOB];
                made += of->duplicated;
                gone += of->dropped_queue + of->dropped_loss + of->dropped_down;
            }
        }
        CHECK(made == gone);
        star_free(star);
    }
}

static void test_what_waits_is_lost_with_its_cable_and_the_buffer_is_free_again(void)
{
    struct buffer_options options = {.dynamic = true, .shared_bytes = 1000000, .alpha = 1, .headroom_bytes = 0,
                                     .pfc_priorities = 1 << 3, .xoff_bytes = 4 * FRAME, .xon_bytes = 2 * FRAME};
    struct star *star = incast(gigabit, options, 2, 50);
    struct host *target = &star->hosts[0];
    run_until(star, 100000);
    CHECK(star->buffer.used_bytes > 0 && star->hosts[1].pauses == 1);
    link_set_up(&target->down, false, 100000);
    CHECK(star->buffer.used_bytes == 0 && star->buffer.ports[1]->pfc.asked == 0);
    run_until(star, INT64_MAX); /* the senders go on, into nothing */
    CHECK(star->hosts[1].up.counts[LINK_NO_JOB].packets == 50);
    CHECK(target->count + target->down.counts[LINK_NO_JOB].dropped_down == 100);
    check_empty(star);
    star_free(star);
}

/* -------------------------------------------------------------------------------------------------------------------- */

static const struct test tests[] = {
    TEST(a_larger_priority_goes_first_and_none_overtakes_its_own),
    TEST(weights_share_the_bytes_whatever_the_sizes),
    TEST(an_unused_share_is_left_to_the_others),
    TEST(the_owner_sees_depths_and_times_and_may_take_or_change_a_packet),
    TEST(a_pause_holds_its_priority_only_and_ends_by_itself),
    TEST(a_pause_may_be_shortened_lengthened_and_lifted),
    TEST(dynamic_thresholds_settle_where_theory_says),
    TEST(without_a_shared_buffer_the_link_bounds_the_port),
    TEST(marks_look_at_the_bytes_of_the_packet_s_own_queue),
    TEST(what_would_be_dropped_is_cut_and_goes_first),
    TEST(what_is_short_already_is_not_dropped_for_a_full_queue),
    TEST(a_cut_packet_has_the_lengths_and_checksums_of_what_is_left),
    TEST(pause_frames_are_those_of_the_standard),
    TEST(xoff_and_xon_stop_and_start_the_sender_in_time),
    TEST(a_pause_is_asked_for_again_before_it_ends),
    TEST(a_slow_way_back_pauses_in_time_again),
    TEST(a_sender_that_hears_no_more_goes_on_when_its_pause_is_over),
    TEST(a_pause_frame_goes_ahead_of_what_waits_but_not_into_a_frame),
    TEST(incast_loses_nothing_with_headroom_for_rate_and_delay),
    TEST(a_cable_that_is_cut_for_a_while_loses_no_more_than_what_is_in_it),
    TEST(a_pause_is_said_again_over_a_mended_cable),
    TEST(bytes_and_packets_are_conserved_whatever_happens),
    TEST(what_waits_is_lost_with_its_cable_and_the_buffer_is_free_again),
};

int main(int argc, char **argv)
{
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
