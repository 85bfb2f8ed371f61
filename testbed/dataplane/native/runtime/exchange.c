/* The order of things at the end of ingress and egress, on a queue of work items. */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

enum work { WORK_INGRESS, WORK_RESUBMIT, WORK_RECIRCULATE, WORK_EGRESS };

/* A packet on its way; the frame ends where its buffer does, so that a sanitizer sees a read beyond it. */
struct item {
    struct item *next;
    enum work work;
    uint32_t port;
    uint16_t rid;
    struct p4_packet packet;
    uint8_t *buffer;
};

struct output {
    uint32_t port, length;
    uint8_t *data;
};

struct exchange {
    const struct p4_program *program;
    struct p4_instance *instance;
    struct replication replication;
    struct item *first, **last;
    struct output *outputs;
    uint32_t output_count, output_capacity;
    uint64_t digests, stopped;
    uint8_t *digest;
    int64_t now_ns;
    uint32_t depth;
};

struct exchange *exchange_new(const struct p4_program *program, uint64_t seed, void (*log)(void *, const char *))
{
    if (program->abi != P4_ABI_VERSION)
        return NULL;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->program = program;
    exchange->last = &exchange->first;
    exchange->digest = malloc(program->digest_bytes + 1);
    exchange->instance = program->create(&(struct p4_host){.log = log, .seed = seed});
    if (exchange->digest && exchange->instance)
        return exchange;
    exchange_destroy(exchange);
    return NULL;
}

void exchange_forget(struct exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->output_count; i++)
        free(exchange->outputs[i].data);
    exchange->output_count = 0;
}

void exchange_destroy(struct exchange *exchange)
{
    exchange_forget(exchange);
    if (exchange->instance)
        exchange->program->destroy(exchange->instance);
    replication_free(&exchange->replication);
    free(exchange->outputs);
    free(exchange->digest);
    free(exchange);
}

struct p4_instance *exchange_instance(struct exchange *exchange)
{
    return exchange->instance;
}

const struct p4_program *exchange_program(const struct exchange *exchange)
{
    return exchange->program;
}

bool exchange_set_group(struct exchange *exchange, uint16_t group, const struct replica *replicas, uint32_t count)
{
    return replication_set_group(&exchange->replication, group, replicas, count);
}

bool exchange_set_session(struct exchange *exchange, uint16_t session, const struct clone_session *config)
{
    return replication_set_session(&exchange->replication, session, *config);
}

void exchange_set_depth(struct exchange *exchange, uint32_t depth)
{
    exchange->depth = depth;
}

static void item_free(struct item *item)
{
    if (!item)
        return;
    free(item->packet.context);
    free(item->buffer);
    free(item);
}

/* Give a packet's bytes a buffer of their own with the headroom that the program asks for. */
static bool item_settle(const struct exchange *exchange, struct item *item, const uint8_t *frame, uint32_t length)
{
    uint32_t headroom = exchange->program->headroom_bytes;
    uint8_t *buffer = malloc((size_t)headroom + length + (length == 0));
    if (!buffer)
        return false;
    uint8_t *data = buffer + headroom;
    if (length)
        memcpy(data, frame, length);
    free(item->buffer);
    item->buffer = buffer;
    item->packet.data = data;
    item->packet.length = length;
    item->packet.headroom = headroom;
    return true;
}

static struct item *item_new(const struct exchange *exchange, const uint8_t *frame, uint32_t length)
{
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    size_t bytes = (exchange->program->context_bytes + P4_CONTEXT_ALIGNMENT - 1) / P4_CONTEXT_ALIGNMENT * P4_CONTEXT_ALIGNMENT;
    item->packet.context = aligned_alloc(P4_CONTEXT_ALIGNMENT, bytes);
    if (item->packet.context && item_settle(exchange, item, frame, length))
        return item;
    item_free(item);
    return NULL;
}

static void push(struct exchange *exchange, struct item *item, enum work work, uint32_t port, uint16_t rid)
{
    item->work = work;
    item->port = port;
    item->rid = rid;
    item->next = NULL;
    *exchange->last = item;
    exchange->last = &item->next;
}

/* A copy of bytes and context to egress at a port. */
static bool push_copy(struct exchange *exchange, const struct item *item, uint32_t port, uint16_t rid)
{
    struct item *copy = item_new(exchange, item->packet.data, item->packet.length);
    if (!copy)
        return false;
    memcpy(copy->packet.context, item->packet.context, exchange->program->context_bytes);
    push(exchange, copy, WORK_EGRESS, port, rid);
    return true;
}

static bool multicast(struct exchange *exchange, const struct item *item, uint32_t number)
{
    const struct replica_group *group = replication_group(&exchange->replication, number);
    for (uint32_t i = 0; i < group->count; i++)
        if (!push_copy(exchange, item, group->replicas[i].port, group->replicas[i].rid))
            return false;
    return true;
}

static bool clone(struct exchange *exchange, const struct item *item, uint32_t number, bool egress)
{
    struct clone_session session = replication_session(&exchange->replication, number);
    if (!session.to_port && !session.to_group)
        return true;
    struct item *copy = item_new(exchange, item->packet.data, item->packet.length);
    if (!copy)
        return false;
    const struct p4_program *program = exchange->program;
    (egress ? program->clone_egress : program->clone_ingress)(exchange->instance, &item->packet, &copy->packet);
    bool done = !session.to_group || multicast(exchange, copy, session.group);
    if (done && session.to_port)
        push(exchange, copy, WORK_EGRESS, session.port, 0);
    else
        item_free(copy);
    return done;
}

/* These two own the item; false: no memory. */
static bool after_ingress(struct exchange *exchange, struct item *item, const struct p4_verdict *verdict)
{
    bool done = !verdict->clone || clone(exchange, item, verdict->clone_session, false);
    if (verdict->digest) {
        exchange->program->digest_read(exchange->instance, &item->packet, verdict->digest_list, exchange->digest);
        exchange->digests++;
    }
    switch (done ? verdict->fate : P4_DROP) {
    case P4_RESUBMIT:
        push(exchange, item, WORK_RESUBMIT, 0, 0);
        return true;
    case P4_UNICAST:
        push(exchange, item, WORK_EGRESS, verdict->port, 0);
        return true;
    case P4_MULTICAST:
        done = multicast(exchange, item, verdict->group);
        break;
    default:
        break;
    }
    item_free(item);
    return done;
}

static bool send(struct exchange *exchange, const struct item *item)
{
    if (exchange->output_count == exchange->output_capacity) {
        uint32_t capacity = exchange->output_capacity ? exchange->output_capacity * 2 : 16;
        struct output *outputs = realloc(exchange->outputs, capacity * sizeof *outputs);
        if (!outputs)
            return false;
        exchange->outputs = outputs;
        exchange->output_capacity = capacity;
    }
    uint8_t *data = malloc(item->packet.length + (item->packet.length == 0));
    if (!data)
        return false;
    if (item->packet.length)
        memcpy(data, item->packet.data, item->packet.length);
    exchange->outputs[exchange->output_count++] = (struct output){item->port, item->packet.length, data};
    return true;
}

static bool after_egress(struct exchange *exchange, struct item *item, const struct p4_verdict *verdict)
{
    bool done = !verdict->clone || clone(exchange, item, verdict->clone_session, true);
    if (done && verdict->fate != P4_DROP) {
        exchange->program->deparse(exchange->instance, &item->packet);
        if (verdict->fate == P4_RECIRCULATE) {
            if ((done = item_settle(exchange, item, item->packet.data, item->packet.length))) {
                push(exchange, item, WORK_RECIRCULATE, 0, 0);
                return true;
            }
        } else {
            done = send(exchange, item);
        }
    }
    item_free(item);
    return done;
}

static bool work(struct exchange *exchange, struct item *item)
{
    const struct p4_program *program = exchange->program;
    struct p4_verdict verdict;
    switch (item->work) {
    case WORK_INGRESS:
        program->ingress(exchange->instance, &item->packet, item->port, exchange->now_ns, &verdict);
        return after_ingress(exchange, item, &verdict);
    case WORK_RESUBMIT:
        program->resubmit(exchange->instance, &item->packet, exchange->now_ns, &verdict);
        return after_ingress(exchange, item, &verdict);
    case WORK_RECIRCULATE:
        program->recirculate(exchange->instance, &item->packet, exchange->now_ns, &verdict);
        return after_ingress(exchange, item, &verdict);
    default:
        program->egress(exchange->instance, &item->packet,
                        &(struct p4_departure){.port = item->port,
                                               .rid = item->rid,
                                               .enq_qdepth = exchange->depth,
                                               .deq_qdepth = exchange->depth,
                                               .now_ns = exchange->now_ns},
                        &verdict);
        return after_egress(exchange, item, &verdict);
    }
}

bool exchange_inject(struct exchange *exchange, uint32_t port, const uint8_t *frame, uint32_t length, int64_t now_ns)
{
    struct item *item = item_new(exchange, frame, length);
    if (!item)
        return false;
    exchange->now_ns = now_ns;
    push(exchange, item, WORK_INGRESS, port, 0);
    bool done = true;
    for (uint32_t passes = 0; (item = exchange->first); passes++) {
        if (!(exchange->first = item->next))
            exchange->last = &exchange->first;
        if (!done || passes >= EXCHANGE_PASSES) {
            exchange->stopped += passes == EXCHANGE_PASSES;
            item_free(item);
        } else {
            done = work(exchange, item);
        }
    }
    return done;
}

uint32_t exchange_output_count(const struct exchange *exchange)
{
    return exchange->output_count;
}

struct exchange_output exchange_output(const struct exchange *exchange, uint32_t index)
{
    const struct output *output = &exchange->outputs[index];
    return (struct exchange_output){output->port, output->length, output->data};
}

uint64_t exchange_digest_count(const struct exchange *exchange)
{
    return exchange->digests;
}

uint64_t exchange_stopped_count(const struct exchange *exchange)
{
    return exchange->stopped;
}
