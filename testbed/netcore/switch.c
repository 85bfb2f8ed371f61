#include "switch.h"

#include "split.h"

#include <stdlib.h>
#include <string.h>

#define US_NS 1000
#define IPV4_MAX_BYTES 60 /* of a header with all options */

#define COUNT(of, packet, field, amount) LINK_COUNT(of, (packet)->flags, field, amount)

/* What an instance says before it is in force is of no packet that came, and not said in the loop's thread. */
static void on_log(void *self, const char *line)
{
    const struct pipeline *pipeline = self;
    struct p4_switch *of = pipeline->of;
    if (!pipeline->in_force)
        return;
    if (!records_keep(&of->messages, SWITCH_RECORDS, of->number, 0, line, strlen(line)))
        of->lost_messages++;
}

static void pipeline_free(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    if (pipeline->instance)
        pipeline->program->destroy(pipeline->instance);
    context_pool_destroy(&pipeline->contexts);
    free(pipeline->digest);
    free(pipeline);
}

/* NULL: no memory. */
static struct pipeline *pipeline_new(struct p4_switch *of, const struct p4_program *program, uint64_t seed)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return NULL;
    pipeline->of = of;
    pipeline->program = program;
    context_pool_init(&pipeline->contexts, program->context_bytes);
    pipeline->digest = malloc(program->digest_bytes + 1);
    pipeline->instance = program->create(&(struct p4_host){.self = pipeline, .log = on_log, .seed = seed});
    if (pipeline->digest && pipeline->instance)
        return pipeline;
    pipeline_free(pipeline);
    return NULL;
}

/* The pipeline whose ingress saw a packet. */
static inline struct pipeline *pipeline_of(const struct packet *packet)
{
    return (struct pipeline *)((struct context *)packet->context - 1)->pool;
}

/* Forget the pipelines before that no packet needs any more. */
static void retire(struct pipeline *now)
{
    for (struct pipeline **place = &now->before; *place;) {
        struct pipeline *old = *place;
        if (!context_pool_idle(&old->contexts)) {
            place = &old->before;
            continue;
        }
        *place = old->before;
        pipeline_free(old);
    }
}

bool switch_init(struct p4_switch *of, const struct p4_program *program, uint64_t seed, uint32_t dilation, uint32_t number,
                 struct packet_pool *pool)
{
    *of = (struct p4_switch){.dilation = dilation, .number = number, .pool = pool};
    of->told_depth = SWITCH_TRUE_DEPTH;
    return switch_load(of, program, seed) && switch_swap(of);
}

bool switch_load(struct p4_switch *of, const struct p4_program *program, uint64_t seed)
{
    pipeline_free(of->loaded);
    return (of->loaded = pipeline_new(of, program, seed));
}

bool switch_probe(struct p4_switch *of, uint32_t port, const uint8_t *frame, size_t length, int64_t now_ns,
                  struct p4_verdict *verdict)
{
    struct pipeline *loaded = of->loaded;
    size_t headroom = loaded->program->headroom_bytes;
    uint8_t *room = malloc(headroom + length + 1);
    void *context = room ? context_take(&loaded->contexts) : NULL;
    if (context) {
        memcpy(room + headroom, frame, length);
        struct p4_packet view = {room + headroom, (uint32_t)length, (uint32_t)headroom, context, 0};
        const struct p4_program *program = loaded->program;
        (program->forward ? program->forward : program->ingress)(loaded->instance, &view, port, now_ns / of->dilation, verdict);
        context_free(context);
    }
    free(room);
    return context;
}

bool switch_swap(struct p4_switch *of)
{
    if (!of->loaded)
        return false;
    of->loaded->before = of->now;
    of->now = of->loaded;
    of->now->in_force = true;
    of->loaded = NULL;
    retire(of->now);
    packet_pool_need(of->pool, of->now->program->headroom_bytes);
    return true;
}

bool switch_configure(struct p4_switch *of, const struct buffer_options *options, const uint32_t *weights)
{
    of->buffer.options = *options;
    for (uint32_t i = 0; i < SWITCH_PORTS; i++) {
        const struct switch_port *port = of->ports[i];
        struct egress *egress = port ? port->egress : NULL;
        if (!egress)
            continue;
        bool asks = options->pfc_priorities && port->from;
        if (asks && !of->buffer.ports[i] && !buffer_add_port(&of->buffer, i, port->from, egress))
            return false;
        egress->buffer = &of->buffer;
        egress_schedule(egress, weights);
    }
    return true;
}

void switch_destroy(struct p4_switch *of)
{
    buffer_destroy(&of->buffer);
    pipeline_free(of->loaded);
    for (struct pipeline *pipeline = of->now, *before; pipeline; pipeline = before) {
        before = pipeline->before;
        pipeline_free(pipeline);
    }
    replicas_free(&of->groups);
    replicas_free(&of->sessions);
    records_free(of->digests.first);
    records_free(of->messages.first);
    records_free(of->punts.first);
}

/* --- packets as the program sees them ------------------------------------------------------------------------------ */

static struct p4_packet view_of(const struct packet *packet, uint32_t length)
{
    return (struct p4_packet){
        .data = packet->frame,
        .length = length,
        .headroom = (uint32_t)(packet->frame - packet->room),
        .context = packet->context,
    };
}

static struct p4_packet seen(const struct packet *packet)
{
    return view_of(packet, packet->frame_bytes);
}

/* Take over what the program made of a packet. */
static inline void wrote(struct packet *packet, const struct p4_packet *view)
{
    if (packet->flags & PACKET_SPLIT)
        packet->here -= (uint32_t)(view->data - packet->frame); /* headers came or went */
    packet->frame = view->data;
    packet->length = view->length;
    packet->flags |= PACKET_STALE;
    if (packet->tail.bytes > view->kept)
        packet->tail = (struct frame_tail){0};
}

/* Have all headers that the fabric looks at lie at the frame, also where the program took away what was before them; NULL: no
 * memory, and the packet is gone. */
static inline struct packet *show_headers(struct p4_switch *of, struct packet *packet)
{
    if (!(packet->flags & PACKET_SPLIT))
        return packet;
    uint32_t ipv4_bytes = packet->here > ETHERNET_BYTES ? (packet->frame[ETHERNET_BYTES] & 15u) * 4 : IPV4_MAX_BYTES;
    uint32_t bytes = ETHERNET_BYTES + ipv4_bytes + TCP_BYTES;
    if (packet->here >= bytes)
        return packet;
    struct packet *shown = split_fill(of->pool, packet, bytes);
    if (!shown) {
        COUNT(of, packet, dropped_memory, 1);
        packet_free(of->pool, packet);
    }
    return shown;
}

/* Write the headers anew; false: an assert of the deparser failed. */
static bool deparse(const struct pipeline *by, struct packet *packet)
{
    struct p4_packet view = seen(packet);
    if (!by->program->deparse(by->instance, &view))
        return false;
    wrote(packet, &view);
    packet->frame_bytes = packet->length;
    return true;
}

/* The program's time. */
static inline int64_t model_ns(const struct p4_switch *of, int64_t ns)
{
    return of->dilation == 1 ? ns : ns / of->dilation; /* a 64-bit division takes as long as a small program */
}

/* A packet that the program drops, or for which an assert failed. */
static void drop(struct p4_switch *of, struct packet *packet, bool failed)
{
    if (failed)
        COUNT(of, packet, dropped_assert, 1);
    else
        COUNT(of, packet, dropped_program, 1);
    packet_free(of->pool, packet);
}

/* A copy of packet and context; NULL: no memory, which is counted. */
static struct packet *copy_of(struct p4_switch *of, struct packet *packet)
{
    struct pipeline *by = pipeline_of(packet);
    uint32_t length = packet->length;
    COUNT(of, packet, duplicated, 1);
    packet->length = packet->frame_bytes;
    struct packet *copy = packet_copy(of->pool, packet);
    packet->length = length;
    if (copy && (copy->context = context_take(&by->contexts))) {
        copy->length = length;
        memcpy(copy->context, packet->context, by->program->context_bytes);
        return copy;
    }
    if (copy)
        packet_free(of->pool, copy);
    COUNT(of, packet, dropped_memory, 1);
    return NULL;
}

/* Whether a packet may come round once more; if not it is gone. */
static bool come_round(struct p4_switch *of, struct packet *packet, int64_t now_ns)
{
    if (of->instant_ns != now_ns) {
        of->instant_ns = now_ns;
        of->passes = 0;
    }
    if (of->passes < SWITCH_PASSES) {
        of->passes++;
        return true;
    }
    COUNT(of, packet, dropped_passes, 1);
    packet_free(of->pool, packet);
    return false;
}

/* --- between ingress and egress ------------------------------------------------------------------------------------ */

static void punt_one(struct p4_switch *of, struct packet *packet, int64_t now_ns)
{
    struct switch_port port = {.of = of, .number = SWITCH_CPU_PORT};
    packet->enqueued_ns = now_ns;
    packet->enqueued_depth = 0;
    if (packet->context && !(packet = switch_leave(&port, packet, 0, now_ns)))
        return;
    struct packet *filled = split_fill(of->pool, packet, SPLIT_ALL);
    if (filled)
        packet = filled;
    if (filled && records_keep(&of->punts, SWITCH_RECORDS, of->number, packet->ingress, packet->frame, packet->length))
        COUNT(of, packet, punted, 1);
    else
        COUNT(of, packet, dropped_punt, 1);
    packet_free(of->pool, packet);
}

/* To the control plane, by way of the program's egress. What that sends there again has its turn next: the stack would not
 * hold all that may come round. */
static void punt(struct p4_switch *of, struct packet *packet, int64_t now_ns)
{
    packet_append(&of->punting, packet);
    if (of->punts_now)
        return;
    of->punts_now = true;
    while ((packet = packet_take(&of->punting)))
        punt_one(of, packet, now_ns);
    of->punts_now = false;
}

/* To the queue of a port. */
static inline void enqueue(struct p4_switch *of, struct packet *packet, uint32_t number, int64_t now_ns)
{
    struct switch_exit by = number < SWITCH_PORTS ? of->exits[number] : (struct switch_exit){0};
    if (by.egress) {
        egress_soon(by.egress, by.link);
        egress_send(by.egress, packet, now_ns);
    } else if (number == SWITCH_CPU_PORT) {
        punt(of, packet, now_ns);
    } else {
        COUNT(of, packet, dropped_port, 1);
        packet_free(of->pool, packet);
    }
}

/* Send copies of a packet to all replicas but the last, and itself to that. */
static void replicate(struct p4_switch *of, struct packet *packet, struct replica_list list, int64_t now_ns)
{
    for (uint32_t i = 0; i + 1 < list.count; i++) {
        struct packet *copy = copy_of(of, packet);
        if (!copy)
            continue;
        copy->rid = list.replicas[i].rid;
        enqueue(of, copy, list.replicas[i].port, now_ns);
    }
    const struct replica *last = &list.replicas[list.count - 1];
    packet->rid = last->rid;
    enqueue(of, packet, last->port, now_ns);
}

/* Send clones of a packet to where a session has them go. */
static void clone(struct p4_switch *of, struct packet *packet, uint32_t session, bool egress, int64_t now_ns)
{
    struct replica_list list = replicas_of(&of->sessions, session);
    struct packet *copy = list.count ? copy_of(of, packet) : NULL;
    if (!copy || (egress && !come_round(of, copy, now_ns)))
        return;
    const struct pipeline *by = pipeline_of(packet);
    struct p4_packet original = seen(packet), view = seen(copy);
    (egress ? by->program->clone_egress : by->program->clone_ingress)(by->instance, &original, &view);
    copy->length = copy->frame_bytes;
    copy->priority = 0;
    replicate(of, copy, list, now_ns);
}

static void keep_digest(struct p4_switch *of, const struct packet *packet, uint32_t list)
{
    const struct pipeline *by = of->now;
    struct p4_packet view = seen(packet);
    size_t bytes = by->program->digest_read(by->instance, &view, list, by->digest);
    of->digest_count++;
    if (!records_keep(&of->digests, SWITCH_RECORDS, list, 0, by->digest, bytes))
        of->lost_digests++;
}

/* Carry out what ingress said of a packet. */
static inline void after_ingress(struct p4_switch *of, struct packet *packet, struct p4_verdict *verdict, int64_t now_ns)
{
    for (;;) {
        if (verdict->clone)
            clone(of, packet, verdict->clone_session, false, now_ns);
        if (verdict->digest)
            keep_digest(of, packet, verdict->digest_list);
        if (verdict->fate != P4_RESUBMIT)
            break;
        if (!come_round(of, packet, now_ns))
            return;
        struct p4_packet view = seen(packet);
        of->now->program->resubmit(of->now->instance, &view, model_ns(of, now_ns), verdict);
    }
    if (verdict->length != packet->length)
        packet_layout(packet); /* while `length` is that of the frame as it lies there */
    packet->length = verdict->length;
    packet->priority = verdict->priority;
    if (verdict->fate == P4_UNICAST) {
        packet->rid = 0;
        enqueue(of, packet, verdict->port, now_ns);
        return;
    }
    struct replica_list group = {0};
    if (verdict->fate == P4_MULTICAST)
        group = replicas_of(&of->groups, verdict->group);
    if (group.count)
        replicate(of, packet, group, now_ns);
    else
        drop(of, packet, verdict->fate == P4_FAILED);
}

/* All that a program does with a packet, before the queue. */
static inline void forward(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns)
{
    const struct pipeline *by = of->now;
    struct p4_verdict verdict;
    struct p4_packet view = view_of(packet, packet->length);
    bool marked = frame_congested(packet->frame, packet->length);
    by->program->forward(by->instance, &view, port, model_ns(of, now_ns), &verdict);
    if (verdict.fate != P4_UNICAST) {
        drop(of, packet, verdict.fate == P4_FAILED);
        return;
    }
    wrote(packet, &view);
    if (!(packet = show_headers(of, packet)))
        return;
    packet->priority = verdict.priority;
    if (!marked && frame_congested(packet->frame, packet->length))
        packet->flags |= PACKET_MARKED;
    enqueue(of, packet, verdict.port, now_ns);
}

/* Give a packet the headroom that the program needs, and the bytes that it looks at; NULL: no memory, and it is gone. */
static inline struct packet *make_ready(struct p4_switch *of, struct packet *packet)
{
    uint32_t looks_bytes = of->now->program->looks_bytes;
    struct packet *ready = packet_settle(of->pool, packet);
    if (ready && packet_here(ready) < looks_bytes && ready->flags & PACKET_SPLIT) {
        packet = ready;
        ready = split_fill(of->pool, packet, looks_bytes);
    }
    if (!ready) {
        COUNT(of, packet, dropped_memory, 1);
        packet_free(of->pool, packet);
    }
    return ready;
}

/* Have the program see a packet for the first time, which has the headroom for it. */
static void begin(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns)
{
    const struct pipeline *by = of->now;
    if (packet->context)
        context_free(packet->context);
    packet->context = NULL;
    packet->ingress = (uint16_t)port;
    if (by->program->forward) {
        forward(of, port, packet, now_ns);
        return;
    }
    if (!(packet->context = context_take(&of->now->contexts))) {
        COUNT(of, packet, dropped_memory, 1);
        packet_free(of->pool, packet);
        return;
    }
    struct p4_verdict verdict;
    packet->frame_bytes = packet->length;
    struct p4_packet view = seen(packet);
    by->program->ingress(by->instance, &view, port, model_ns(of, now_ns), &verdict);
    after_ingress(of, packet, &verdict, now_ns);
}

static void ingress(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns)
{
    struct packet *ready = make_ready(of, packet);
    of->passes = 0;
    if (ready)
        begin(of, port, ready, now_ns);
}

void switch_lead_out(struct switch_port *port, struct egress *egress)
{
    port->egress = egress;
    port->of->exits[port->number] = (struct switch_exit){egress, egress->link};
}

void switch_receive(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns)
{
    COUNT(of, packet, received, 1);
    ingress(of, port, packet, now_ns);
}

void switch_inject(struct p4_switch *of, uint32_t port, struct packet *packet, int64_t now_ns)
{
    COUNT(of, packet, injected, 1);
    ingress(of, port, packet, now_ns);
}

void switch_send_out(struct switch_port *port, struct packet *packet, int64_t now_ns)
{
    COUNT(port->of, packet, injected, 1);
    packet->ingress = PACKET_NO_INGRESS;
    egress_send(port->egress, packet, now_ns);
}

/* --- after the queue ----------------------------------------------------------------------------------------------- */

static void recirculate(struct p4_switch *of, struct packet *packet, int64_t now_ns)
{
    struct packet *ready = make_ready(of, packet);
    if (!ready || !come_round(of, ready, now_ns))
        return;
    if (pipeline_of(ready) != of->now) {
        begin(of, ready->ingress, ready, now_ns);
        return;
    }
    struct p4_verdict verdict;
    struct p4_packet view = seen(ready);
    of->now->program->recirculate(of->now->instance, &view, model_ns(of, now_ns), &verdict);
    after_ingress(of, ready, &verdict, now_ns);
}

static uint32_t told(const struct p4_switch *of, uint64_t depth)
{
    if (of->told_depth != SWITCH_TRUE_DEPTH)
        return of->told_depth;
    return depth < UINT32_MAX ? (uint32_t)depth : UINT32_MAX;
}

struct packet *switch_leave(void *owner, struct packet *packet, uint64_t deq_depth, int64_t now_ns)
{
    const struct switch_port *port = owner;
    struct p4_switch *of = port->of;
    struct p4_departure departure = {
        .port = port->number,
        .rid = packet->rid,
        .enq_timestamp_us = (uint32_t)(model_ns(of, packet->enqueued_ns) / US_NS),
        .enq_qdepth = told(of, packet->enqueued_depth),
        .deq_timedelta_us = (uint32_t)(model_ns(of, now_ns - packet->enqueued_ns) / US_NS),
        .deq_qdepth = told(of, deq_depth),
        .now_ns = model_ns(of, now_ns),
    };
    const struct pipeline *by = pipeline_of(packet);
    struct p4_verdict verdict;
    struct p4_packet view = seen(packet);
    by->program->egress(by->instance, &view, &departure, &verdict);
    if (verdict.clone)
        clone(of, packet, verdict.clone_session, true, now_ns);
    uint32_t length = packet->length;
    bool dropped = verdict.fate == P4_DROP;
    if (dropped || verdict.fate == P4_FAILED || !deparse(by, packet)) {
        drop(of, packet, !dropped);
        return NULL;
    }
    if (!(packet = show_headers(of, packet)))
        return NULL;
    if (verdict.fate == P4_RECIRCULATE) {
        if (packet->flags & PACKET_TRIMMED) {
            egress_cut(packet, length);
            packet->frame_bytes = packet->length;
            packet->flags &= (uint16_t)~PACKET_TRIMMED;
        }
        recirculate(of, packet, now_ns);
        return NULL;
    }
    context_free(packet->context);
    packet->context = NULL;
    return packet;
}
