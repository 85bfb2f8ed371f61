#include "fastpath.h"

#include <stdlib.h>
#include <string.h>

/* Source of the layouts: testbed.wire.roce. */
#define WRITE_FIRST 0x06
#define WRITE_MIDDLE 0x07
#define WRITE_LAST_IMMEDIATE 0x09
#define WRITE_ONLY_IMMEDIATE 0x0b
#define ACKNOWLEDGE 0x11
#define BTH_BYTES 12
#define RETH_BYTES 16
#define IMMEDIATE_BYTES 4
#define AETH_BYTES 4
#define LONGEST_HEADER_BYTES (BTH_BYTES + RETH_BYTES + IMMEDIATE_BYTES)
#define DEFAULT_PKEY 0xffff
#define ACK_REQUEST (UINT32_C(1) << 31)
#define CREDITS_UNLIMITED 0x1f
#define PSN_MASK 0xffffff
#define FCS_BYTES 4

/* --- queues -------------------------------------------------------------------------------------------------------- */

static bool push(struct fast_queue *queue, uint32_t id)
{
    if (queue->count == queue->capacity) {
        uint32_t capacity = queue->capacity ? 2 * queue->capacity : 4, unwrapped = queue->capacity - queue->first;
        uint32_t *ids = malloc(capacity * sizeof *ids);
        if (!ids)
            return false;
        if (queue->count) {
            memcpy(ids, queue->ids + queue->first, unwrapped * sizeof *ids);
            memcpy(ids + unwrapped, queue->ids, queue->first * sizeof *ids);
        }
        free(queue->ids);
        *queue = (struct fast_queue){ids, capacity, 0, queue->count};
    }
    queue->ids[(queue->first + queue->count++) & (queue->capacity - 1)] = id;
    return true;
}

static uint32_t at(const struct fast_queue *queue, uint32_t index)
{
    return queue->ids[(queue->first + index) & (queue->capacity - 1)];
}

static uint32_t pop(struct fast_queue *queue)
{
    uint32_t id = at(queue, 0);
    queue->first = (queue->first + 1) & (queue->capacity - 1);
    queue->count--;
    return id;
}

/* --- operations and queue pairs ------------------------------------------------------------------------------------ */

static uint64_t bytes_of(const struct fast_rank *rank, uint32_t id)
{
    const struct fast_layer *layer = fast_layer_of(rank, id);
    uint32_t index = id - layer->first_id;
    return (uint64_t)(layer->last[index] - layer->first[index]) * rank->element_bytes;
}

static int64_t packets_of(const struct fast_rank *rank, uint32_t id)
{
    return (int64_t)((bytes_of(rank, id) + rank->constants.mtu_bytes - 1) / rank->constants.mtu_bytes);
}

static uint32_t tag_of(const struct fast_rank *rank, uint32_t id)
{
    const struct fast_layer *layer = fast_layer_of(rank, id);
    return (uint32_t)(layer->first_tag + layer->tag[id - layer->first_id]);
}

struct fast_pair *fast_pair_to(const struct fast_rank *rank, uint32_t peer)
{
    uint32_t low = 0, high = rank->pair_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (rank->pairs[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rank->pair_count && rank->pairs[low].peer == peer ? &rank->pairs[low] : NULL;
}

static struct fast_pair *pair_at(const struct fast_rank *rank, uint32_t ip)
{
    uint32_t low = 0, high = rank->pair_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (rank->pairs[rank->by_ip[middle]].ip < ip)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rank->pair_count && rank->pairs[rank->by_ip[low]].ip == ip ? &rank->pairs[rank->by_ip[low]] : NULL;
}

static void leave(struct fast_rank *rank, struct fast_pair *pair)
{
    *(pair->before ? &pair->before->next : &rank->first) = pair->next;
    *(pair->next ? &pair->next->before : &rank->last) = pair->before;
    pair->active = false;
}

/* Have it served after all others, unless it is to be served already. */
static void activate(struct fast_rank *rank, struct fast_pair *pair)
{
    if (pair->active)
        return;
    pair->next = NULL;
    pair->before = rank->last;
    *(rank->last ? &rank->last->next : &rank->first) = pair;
    rank->last = pair;
    pair->active = true;
}

/* --- the schedule -------------------------------------------------------------------------------------------------- */

#define ADD(type)                                                                                                            \
    do {                                                                                                                     \
        type *there = (type *)layer->bytes + layer->first[index];                                                            \
        const type *came = (const type *)layer->scratch + layer->places[index];                                              \
        for (int64_t i = 0; i < count; i++)                                                                                  \
            there[i] += came[i];                                                                                             \
    } while (0)

/* Add a receive to the buffer, or copy it there. */
static void apply(const struct fast_rank *rank, const struct fast_layer *layer, uint32_t index)
{
    int64_t count = layer->last[index] - layer->first[index];
    size_t width = rank->element_bytes;
    if (rank->type == FAST_NO_NUMBERS)
        return;
    if (!layer->reduces[index])
        memcpy(layer->bytes + (size_t)layer->first[index] * width, layer->scratch + (size_t)layer->places[index] * width,
               (size_t)count * width);
    else if (rank->type == FAST_FLOATS)
        ADD(float);
    else
        ADD(uint32_t);
}

static void post_send(struct fast_rank *rank, struct fast_layer *layer, uint32_t index, int64_t now_ns)
{
    struct fast_pair *pair = fast_pair_to(rank, (uint32_t)layer->peer[index]);
    uint32_t id = layer->first_id + index;
    layer->states[index] = FAST_POSTED;
    if (pair->next_packet == pair->end)
        pair->open_ns = now_ns;
    if (!push(&pair->messages, id)) {
        rank->lacks = true;
        return;
    }
    pair->end += packets_of(rank, id);
    activate(rank, pair);
}

/* An operation is over, applied if it is a receive: let happen all that only waited for it. */
static void finish(struct fast_rank *rank, struct fast_layer *layer, uint32_t index, int64_t now_ns)
{
    for (bool more = true; more;) {
        layer->states[index] = FAST_DONE;
        layer->left--;
        for (int64_t i = layer->freed[index]; i < layer->freed[index + 1]; i++) {
            uint32_t freed = (uint32_t)layer->frees[i];
            if (--layer->waits[freed])
                continue;
            if (layer->send[freed]) {
                post_send(rank, layer, freed, now_ns);
            } else if (layer->states[freed] == FAST_LANDED) {
                apply(rank, layer, freed);
                if (!push(&rank->finished, freed))
                    rank->lacks = true;
            }
        }
        if ((more = rank->finished.count))
            index = pop(&rank->finished);
    }
}

static void hear(struct fast_rank *rank, uint32_t id, int64_t now_ns)
{
    struct fast_layer *layer = fast_layer_of(rank, id);
    uint32_t index = id - layer->first_id;
    rank->progress_ns = now_ns;
    if (!layer->send[index]) {
        rank->received_bytes += bytes_of(rank, id);
        rank->received_ns = now_ns;
        if (layer->waits[index]) {
            layer->states[index] = FAST_LANDED;
            return;
        }
        apply(rank, layer, index);
    }
    finish(rank, layer, index, now_ns);
}

static bool is_done(const struct fast_rank *rank)
{
    for (uint32_t i = 0; i < rank->layer_count; i++)
        if (rank->layers[i].left)
            return false;
    return true;
}

void fast_prepare(struct fast_rank *rank, int64_t first_tag)
{
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        struct fast_layer *layer = &rank->layers[i];
        layer->first_tag = first_tag;
        first_tag += layer->tags;
        layer->left = layer->operations;
        layer->expected = 0;
        memcpy(layer->waits, layer->awaited, layer->operations * sizeof *layer->waits);
        for (uint32_t index = 0; index < layer->operations; index++)
            layer->states[index] = layer->send[index] && layer->waits[index] ? FAST_WAITING : FAST_POSTED;
    }
    rank->running = rank->complete = false;
    rank->received_bytes = 0;
    rank->received_ns = -1;
    rank->progress_ns = 0;
}

void fast_start(struct fast_rank *rank, int64_t now_ns)
{
    rank->running = true;
    rank->progress_ns = now_ns;
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        struct fast_layer *layer = &rank->layers[i];
        for (uint32_t index = 0; index < layer->operations; index++)
            if (layer->send[index] && !layer->awaited[index])
                post_send(rank, layer, index, now_ns);
    }
    rank->complete = is_done(rank);
}

/* --- receiving ----------------------------------------------------------------------------------------------------- */

/* The receive that is posted to a queue pair for a tag; FAST_NONE: none is. */
static uint32_t posted(const struct fast_rank *rank, const struct fast_pair *pair, uint32_t tag)
{
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        struct fast_layer *layer = &rank->layers[i];
        int64_t number = (int64_t)tag - layer->first_tag;
        if (number < 0 || number >= layer->tags)
            continue;
        uint32_t low = layer->expected, high = layer->receive_count;
        if (low >= high || layer->tag[layer->receives[low]] != number)
            for (low = 0; low < high;) {
                uint32_t middle = (low + high) / 2;
                if (layer->tag[layer->receives[middle]] < number)
                    low = middle + 1;
                else
                    high = middle;
            }
        if (low == layer->receive_count)
            return FAST_NONE;
        uint32_t index = layer->receives[low];
        if (layer->tag[index] != number || layer->states[index] != FAST_POSTED || (uint32_t)layer->peer[index] != pair->peer)
            return FAST_NONE;
        layer->expected = low + 1;
        return layer->first_id + index;
    }
    return FAST_NONE;
}

/* A run of a message as it is looked at, before anything is taken in. */
struct look {
    uint32_t incoming;
    uint64_t filled;
    uint64_t bytes; /* of the run */
    bool asks, ends;
};

/* Whether a packet is the next of its message, and asks for nothing that is odd; at a message's end `ends` is set. */
static bool goes_on(const struct fast_rank *rank, const struct fast_pair *pair, const uint8_t *bth, uint32_t bytes,
                    struct look *look)
{
    uint32_t mtu_bytes = rank->constants.mtu_bytes;
    const uint8_t *reth = bth + BTH_BYTES, *immediate = reth;
    bool whole = bth[0] == WRITE_ONLY_IMMEDIATE;
    if (bth[0] == WRITE_FIRST || whole) {
        uint32_t key = load32(reth + 8), length = load32(reth + 12);
        if (look->incoming != FAST_NONE || load32(reth) || load32(reth + 4) || (length <= mtu_bytes) != whole || !length)
            return false;
        look->incoming = posted(rank, pair, key);
        look->filled = 0;
        if (look->incoming == FAST_NONE || bytes_of(rank, look->incoming) != length)
            return false;
        immediate += RETH_BYTES;
    } else if (look->incoming == FAST_NONE || (bth[0] != WRITE_MIDDLE && bth[0] != WRITE_LAST_IMMEDIATE)) {
        return false;
    }
    uint64_t left = bytes_of(rank, look->incoming) - look->filled;
    look->ends = whole || bth[0] == WRITE_LAST_IMMEDIATE;
    if (look->ends ? bytes != left || bytes > mtu_bytes || load32(immediate) != tag_of(rank, look->incoming)
                   : bytes != mtu_bytes || left <= bytes)
        return false;
    look->filled += bytes;
    look->bytes += bytes;
    return true;
}

/* Take in packets with data; false: they are odd, and nothing was done. */
static bool take(struct fast_rank *rank, struct fast_pair *pair, const struct arrived *run)
{
    struct look look = {pair->incoming, pair->filled, 0, false, false};
    int64_t expected = pair->expected;
    struct roce_frame at_frame;
    for (struct packet *packet = run->packets.first; packet; packet = packet->next, expected++) {
        if (packet->next) /* a run came over many events: what it is of is in no near cache any more */
            packet_soon(&rank->socket->stack->port->fabric->pool, packet->next);
        if (look.ends || !(packet->flags & PACKET_SPLIT) || !socket_read_roce(rank->socket, packet, &at_frame))
            return false;
        const uint8_t *bth = packet->frame + at_frame.header_at;
        uint32_t sequence = load32(bth + 8);
        if (bth[1] != (-at_frame.payload_bytes & 3) << 4 || load16(bth + 2) != DEFAULT_PKEY ||
            load32(bth + 4) != pair->local_qp || (sequence & ~ACK_REQUEST) != (uint32_t)(expected & PSN_MASK) ||
            !goes_on(rank, pair, bth, at_frame.payload_bytes, &look))
            return false;
        look.asks = look.asks || sequence & ACK_REQUEST;
    }
    struct fast_layer *layer = fast_layer_of(rank, look.incoming);
    uint32_t index = look.incoming - layer->first_id;
    if (rank->type != FAST_NO_NUMBERS)
        memcpy(layer->scratch + (size_t)layer->places[index] * rank->element_bytes + look.filled - look.bytes, run->payload,
               look.bytes);
    layer->states[index] = FAST_TAKEN;
    rank->counts.received_bytes += look.bytes;
    pair->expected = expected;
    pair->since += run->count;
    pair->speaks = pair->speaks || look.asks || pair->since >= rank->constants.ack_every_packets;
    pair->incoming = look.ends ? FAST_NONE : look.incoming;
    pair->filled = look.filled;
    if (look.ends) {
        pair->completed++;
        if (!push(&rank->events, look.incoming))
            rank->lacks = true;
    }
    return true;
}

static void start_timer(const struct fast_rank *rank, struct fast_pair *pair, int64_t now_ns)
{
    pair->timer_ns = rank->constants.timeout_ns ? now_ns + rank->constants.timeout_ns : EVENTQ_NEVER;
}

/* Take in an acknowledgement; false: it is odd, and nothing was done. */
static bool acknowledge(struct fast_rank *rank, struct fast_pair *pair, const uint8_t *bth, int64_t now_ns)
{
    int64_t difference = (int64_t)((load32(bth + 8) - (uint32_t)pair->unacknowledged + 0x800000) & PSN_MASK) - 0x800000;
    int64_t unacknowledged = pair->unacknowledged + difference + 1;
    if (bth[1] || load16(bth + 2) != DEFAULT_PKEY || load32(bth + 4) != pair->local_qp || load32(bth + 8) > PSN_MASK ||
        bth[BTH_BYTES] != CREDITS_UNLIMITED || unacknowledged > pair->next_packet)
        return false;
    if (unacknowledged <= pair->unacknowledged)
        return true; /* late */
    if (pair->next_packet - pair->unacknowledged >= rank->constants.window_packets)
        pair->open_ns = now_ns;
    pair->unacknowledged = unacknowledged;
    while (pair->messages.count) {
        int64_t after = pair->head_first + packets_of(rank, at(&pair->messages, 0));
        if (after > unacknowledged)
            break;
        if (!push(&rank->events, pop(&pair->messages)))
            rank->lacks = true;
        pair->head_first = after;
        pair->current--;
    }
    if (pair->asked > unacknowledged) {
        start_timer(rank, pair, now_ns);
    } else {
        pair->timer_ns = EVENTQ_NEVER;
        pair->waiting = false;
    }
    return true;
}

static bool receive(struct fast_rank *rank, const struct arrived *run, int64_t now_ns)
{
    struct packet *packet = run->packets.first;
    struct roce_frame found;
    if (run->corrupt || !socket_read_roce(rank->socket, packet, &found))
        return false;
    const uint8_t *ip = packet->frame + packet->layout.network, *bth = packet->frame + found.header_at;
    struct fast_pair *pair = pair_at(rank, load32(ip + 12));
    if (!pair || (ip[1] & ECN_MASK) == ECN_CE)
        return false;
    if (bth[0] == ACKNOWLEDGE ? found.payload_bytes || !acknowledge(rank, pair, bth, now_ns) : !take(rank, pair, run))
        return false;
    rank->counts.received_packets += run->count;
    activate(rank, pair);
    return true;
}

struct arrived *fast_receive(struct fast_rank *rank, struct arrived *arrived, int64_t now_ns)
{
    while (arrived && receive(rank, arrived, now_ns))
        arrived = arrived->next;
    return arrived;
}

bool fast_expired(const struct fast_rank *rank, int64_t now_ns)
{
    if (rank->due_ns <= now_ns)
        for (const struct fast_pair *pair = rank->first; pair; pair = pair->next)
            if (pair->timer_ns <= now_ns)
                return true;
    return false;
}

/* --- sending ------------------------------------------------------------------------------------------------------- */

static bool is_ready(const struct fast_rank *rank, const struct fast_pair *pair)
{
    return pair->next_packet < pair->end && pair->next_packet - pair->unacknowledged < rank->constants.window_packets;
}

/* When something is due next; queue pairs that wait for nothing leave. */
static int64_t deadline(struct fast_rank *rank, int64_t now_ns)
{
    int64_t earliest_ns = EVENTQ_NEVER;
    for (struct fast_pair *pair = rank->first, *next; pair; pair = next) {
        next = pair->next;
        int64_t due_ns = pair->speaks || is_ready(rank, pair) ? now_ns : pair->timer_ns;
        if (due_ns == EVENTQ_NEVER)
            leave(rank, pair);
        else if (due_ns < earliest_ns)
            earliest_ns = due_ns;
    }
    return earliest_ns;
}

static size_t write_bth(uint8_t *header, uint8_t opcode, uint32_t pad, uint32_t queue_pair, uint32_t sequence)
{
    header[0] = opcode;
    header[1] = (uint8_t)(pad << 4);
    store16(header + 2, DEFAULT_PKEY);
    store32(header + 4, queue_pair);
    store32(header + 8, sequence);
    return BTH_BYTES;
}

static size_t write_reth(uint8_t *header, uint32_t key, uint32_t length)
{
    store32(header, 0);
    store32(header + 4, 0);
    store32(header + 8, key);
    store32(header + 12, length);
    return RETH_BYTES;
}

static size_t write_word(uint8_t *header, uint32_t word)
{
    store32(header, word);
    return 4;
}

static const uint8_t nothing[1];

/* Hand packets to the NIC. */
static void hand_over(struct fast_rank *rank, struct packet_list packets, uint32_t count)
{
    struct stack *stack = rank->socket->stack;
    for (const struct packet *packet = packets.first; packet; packet = packet->next)
        rank->counts.frame_bytes += packet->length + (uint64_t)FCS_BYTES;
    rank->counts.sent_packets += count;
    stack_send(stack, packets, fabric_catch_up(stack->port->fabric));
    rank->free_ns = stack->nic_ns;
}

static void speak(struct fast_rank *rank, struct fast_pair *pair)
{
    uint8_t header[LONGEST_HEADER_BYTES];
    size_t length = write_bth(header, ACKNOWLEDGE, 0, pair->remote_qp, (uint32_t)((pair->expected - 1) & PSN_MASK));
    length += write_word(header + length, (uint32_t)CREDITS_UNLIMITED << 24 | (pair->completed & PSN_MASK));
    struct outgoing outgoing;
    struct packet_list packets = {0};
    struct outgoing_segment segment = {header, length, nothing, 0};
    pair->speaks = false;
    pair->since = 0;
    outgoing_address(&outgoing, rank->socket, pair->ip, pair->source_port, rank->constants.control_tos);
    struct packet *packet = outgoing_roce(&outgoing, 0, segment, rank->payload);
    if (!packet) {
        rank->lacks = true;
        return;
    }
    packet_append(&packets, packet);
    hand_over(rank, packets, 1);
}

/* A packet of a message of `packets`, `index` of them being before it. */
struct written {
    uint32_t tag;
    uint64_t bytes; /* of the message */
    int64_t packets, index;
};

static size_t write_header(uint8_t *header, const struct fast_pair *pair, const struct written *of, int64_t sequence, bool asks)
{
    uint32_t word = (asks ? ACK_REQUEST : 0) | (uint32_t)(sequence & PSN_MASK), pad = -(uint32_t)of->bytes & 3;
    bool begins = !of->index, ends = of->index + 1 == of->packets;
    uint8_t opcode = begins ? ends ? WRITE_ONLY_IMMEDIATE : WRITE_FIRST : ends ? WRITE_LAST_IMMEDIATE : WRITE_MIDDLE;
    size_t length = write_bth(header, opcode, ends ? pad : 0, pair->remote_qp, word);
    if (begins)
        length += write_reth(header + length, of->tag, (uint32_t)of->bytes);
    if (ends)
        length += write_word(header + length, of->tag);
    return length;
}

/* Send the next run, at most `budget` packets; returns how many. */
static uint32_t run(struct fast_rank *rank, struct fast_pair *pair, uint32_t budget, int64_t now_ns)
{
    const struct fast_constants *constants = &rank->constants;
    uint32_t id = at(&pair->messages, pair->current);
    const struct fast_layer *layer = fast_layer_of(rank, id);
    struct written of = {tag_of(rank, id), bytes_of(rank, id), packets_of(rank, id), pair->next_packet - pair->current_first};
    int64_t window = constants->window_packets - (pair->next_packet - pair->unacknowledged), count = of.packets - of.index;
    count = count < window ? count : window;
    count = count < constants->burst_packets ? count : constants->burst_packets;
    count = count < budget ? count : budget;
    bool last = of.index + count == of.packets;
    bool asks = last || count == window || pair->next_packet + count - pair->asked >= constants->ack_every_packets;
    uint64_t start = (uint64_t)of.index * constants->mtu_bytes, wire_bytes = 0;
    const uint8_t *bytes = layer->bytes + (uint64_t)layer->first[id - layer->first_id] * rank->element_bytes + start;
    uint64_t left = of.bytes - start;
    struct outgoing outgoing;
    struct packet_list packets = {0};
    outgoing_address(&outgoing, rank->socket, pair->ip, pair->source_port, constants->data_tos);
    for (int64_t i = 0; i < count; i++, of.index++) {
        uint8_t header[LONGEST_HEADER_BYTES];
        size_t size = left < constants->mtu_bytes ? left : constants->mtu_bytes;
        size_t length = write_header(header, pair, &of, pair->next_packet + i, asks && i + 1 == count);
        struct outgoing_segment segment = {header, length, bytes, size};
        struct packet *packet = outgoing_roce(&outgoing, (size_t)i, segment, rank->payload);
        if (!packet) {
            rank->lacks = true;
            break;
        }
        packet_append(&packets, packet);
        wire_bytes += length + size + (-size & 3) + constants->frame_bytes;
        rank->counts.sent_bytes += size;
        bytes += size;
        left -= size;
    }
    pair->next_packet += count;
    if (last) {
        pair->current++;
        pair->current_first = pair->next_packet;
    }
    if (asks) {
        pair->asked = pair->next_packet;
        if (!pair->waiting)
            start_timer(rank, pair, now_ns);
        pair->waiting = true;
    }
    pair->departed_ns = now_ns;
    pair->departed_bits = (int64_t)(8 * wire_bytes);
    hand_over(rank, packets, (uint32_t)count);
    return (uint32_t)count;
}

/* Hand over what may leave now, a run's length at most: what is to be said first, then data, from each in turn. */
static void transmit(struct fast_rank *rank, int64_t now_ns)
{
    uint32_t left = rank->constants.burst_packets;
    for (struct fast_pair *pair = rank->first; pair && left; pair = pair->next)
        if (pair->speaks) {
            speak(rank, pair);
            left--;
        }
    for (struct fast_pair *pair = rank->first, *next; pair && left; pair = next) {
        next = pair->next;
        if (!is_ready(rank, pair))
            continue;
        left -= run(rank, pair, left, now_ns);
        leave(rank, pair);
        activate(rank, pair);
        next = next ? next : pair;
    }
}

bool fast_idle(const struct fast_rank *rank)
{
    for (uint32_t i = 0; i < rank->pair_count; i++)
        if (rank->pairs[i].messages.count || rank->pairs[i].speaks)
            return false;
    return true;
}

bool fast_turn(struct fast_rank *rank, int64_t now_ns)
{
    if (rank->running && rank->events.count) {
        for (uint32_t count = rank->events.count; count; count--)
            hear(rank, pop(&rank->events), now_ns);
        rank->complete = is_done(rank);
    }
    rank->due_ns = deadline(rank, now_ns);
    if (rank->free_ns <= now_ns && rank->due_ns <= now_ns) {
        transmit(rank, now_ns);
        rank->due_ns = deadline(rank, now_ns);
    }
    bool ended = rank->running && rank->complete && fast_idle(rank);
    rank->running = rank->running && !ended;
    bool waits = rank->due_ns <= now_ns; /* for the NIC */
    if (!socket_set_alarm(rank->socket, waits ? rank->free_ns : rank->due_ns, waits, now_ns))
        rank->lacks = true;
    return ended;
}

/* --- beginning and end --------------------------------------------------------------------------------------------- */

static int by_tag(const void *one, const void *other, void *tags)
{
    int32_t a = ((int32_t *)tags)[*(const uint32_t *)one], b = ((int32_t *)tags)[*(const uint32_t *)other];
    return (a > b) - (a < b);
}

bool fast_prepare_layers(struct fast_rank *rank)
{
    for (uint32_t i = 0; i < rank->layer_count; i++) {
        struct fast_layer *layer = &rank->layers[i];
        layer->states = calloc(layer->operations + 1, sizeof *layer->states);
        layer->waits = calloc(layer->operations + 1, sizeof *layer->waits);
        layer->receives = calloc(layer->operations + 1, sizeof *layer->receives);
        if (!layer->states || !layer->waits || !layer->receives)
            return false;
        memset(layer->states, FAST_DONE, layer->operations);
        for (uint32_t index = 0; index < layer->operations; index++)
            if (!layer->send[index])
                layer->receives[layer->receive_count++] = index;
        qsort_r(layer->receives, layer->receive_count, sizeof *layer->receives, by_tag, (void *)layer->tag);
    }
    return true;
}

void fast_destroy(struct fast_rank *rank)
{
    for (uint32_t i = 0; rank->layers && i < rank->layer_count; i++) {
        free(rank->layers[i].states);
        free(rank->layers[i].waits);
        free(rank->layers[i].receives);
    }
    for (uint32_t i = 0; rank->pairs && i < rank->pair_count; i++)
        free(rank->pairs[i].messages.ids);
    free(rank->layers);
    free(rank->pairs);
    free(rank->by_ip);
    free(rank->events.ids);
    free(rank->finished.ids);
}
