/* What every generated program includes: its instance, and what a packet carries besides headers and metadata. */
#ifndef P4_PROGRAM_H
#define P4_PROGRAM_H

#include "abi.h"
#include "bytes.h"
#include "hash.h"
#include "meter.h"
#include "table.h"

#define DROP_PORT 511

/* standard_metadata.instance_type */
enum { INSTANCE_NORMAL, INSTANCE_INGRESS_CLONE, INSTANCE_EGRESS_CLONE, INSTANCE_RECIRCULATED = 4, INSTANCE_REPLICATED,
       INSTANCE_RESUBMITTED };

/* A parser that comes back to a state this often without an end is stopped with ParserTimeout. */
#define PARSER_TURNS 1024

/* A packet that turns this often in loops of ingress and egress is sent out of them as by `exit`. */
#define CONTROL_TURNS (1 << 20)

struct register_type {
    uint32_t size;
    uint16_t bits;
    uint16_t cell_bytes; /* of a cell in memory, a native integer or a struct wide */
};

struct meter_type {
    uint32_t size;
    bool bytes;
};

struct value_set {
    uint8_t *values; /* value and mask in turn */
    uint32_t count;
};

struct value_set_type {
    uint16_t bytes;
    uint32_t max_size;
};

struct program_type {
    uint32_t table_count, profile_count, register_count, counter_count, meter_count, value_set_count;
    const struct table_type *tables;
    const struct profile_type *profiles;
    const struct register_type *registers;
    const uint32_t *counters; /* sizes */
    const struct meter_type *meters;
    const struct value_set_type *value_sets;
};

struct p4_instance {
    const struct program_type *type;
    struct p4_host host;
    uint64_t random;
    struct table *tables;
    struct profile *profiles;
    uint8_t **registers;
    struct p4_count **counters;
    struct meter **meters;
    struct value_set *value_sets;
};

/* What a packet's run through the program leaves for its end. Lists are numbers of field lists. */
struct progress {
    int64_t now_ns;
    uint32_t port;          /* where it was received, however often it came round */
    uint32_t received;      /* bytes at the start of ingress */
    uint32_t length;        /* the same, then with headers that were added and removed */
    uint32_t payload;       /* offset of the bytes that were not parsed */
    uint32_t limit;         /* of the frame that leaves: truncate */
    uint32_t turns;         /* in loops of ingress and egress */
    uint32_t clone_session;
    uint32_t clone_list, resubmit_list, recirculate_list, digest_list;
    bool clone, resubmit, recirculate, exited;
    bool failed;            /* an assert or assume */
};

struct p4_instance *instance_new(const struct program_type *type, const struct p4_host *host);
void instance_destroy(struct p4_instance *instance);
void instance_log(const struct p4_instance *instance, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool value_set_has(const struct value_set *set, unsigned bytes, const uint8_t *value);

/* The control functions of `p4_program`, the same for all programs. */
int control_insert(struct p4_instance *, uint32_t table, const struct p4_match *, const struct p4_call *, uint32_t *handle);
int control_find(struct p4_instance *, uint32_t table, const struct p4_match *, uint32_t *handle);
int control_modify(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_call *);
int control_remove(struct p4_instance *, uint32_t table, uint32_t handle);
int control_set_default(struct p4_instance *, uint32_t table, const struct p4_call *);
int control_entry_count(struct p4_instance *, uint32_t table, uint32_t handle, struct p4_count *);
int control_entry_count_set(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_count *);
int control_entry_meter_set(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_rates *);
int control_member_add(struct p4_instance *, uint32_t profile, const struct p4_call *, uint32_t *member);
int control_member_modify(struct p4_instance *, uint32_t profile, uint32_t member, const struct p4_call *);
int control_member_remove(struct p4_instance *, uint32_t profile, uint32_t member);
int control_group_set(struct p4_instance *, uint32_t profile, uint32_t group, const uint32_t *members, uint32_t count);
int control_group_remove(struct p4_instance *, uint32_t profile, uint32_t group);
int control_register_read(struct p4_instance *, uint32_t array, uint32_t index, uint8_t *value);
int control_register_write(struct p4_instance *, uint32_t array, uint32_t index, const uint8_t *value);
int control_counter_read(struct p4_instance *, uint32_t array, uint32_t index, struct p4_count *);
int control_counter_write(struct p4_instance *, uint32_t array, uint32_t index, const struct p4_count *);
int control_meter_set(struct p4_instance *, uint32_t array, uint32_t index, const struct p4_rates *);
int control_value_set_add(struct p4_instance *, uint32_t set, const uint8_t *value, const uint8_t *mask);
int control_value_set_clear(struct p4_instance *, uint32_t set);

#define CONTROL_FUNCTIONS                                                                                                  \
    .insert = control_insert, .find = control_find, .modify = control_modify, .remove = control_remove,                    \
    .set_default = control_set_default, .entry_count = control_entry_count, .entry_count_set = control_entry_count_set,    \
    .entry_meter_set = control_entry_meter_set, .member_add = control_member_add, .member_modify = control_member_modify,  \
    .member_remove = control_member_remove, .group_set = control_group_set, .group_remove = control_group_remove,          \
    .register_read = control_register_read, .register_write = control_register_write,                                      \
    .counter_read = control_counter_read, .counter_write = control_counter_write, .meter_set = control_meter_set,          \
    .value_set_add = control_value_set_add, .value_set_clear = control_value_set_clear

/* SplitMix64. */
static inline uint64_t random64(struct p4_instance *instance)
{
    uint64_t value = instance->random += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline uint64_t random_between(struct p4_instance *instance, uint64_t low, uint64_t high)
{
    return high <= low ? low : low + (uint64_t)((u128)random64(instance) * ((u128)(high - low) + 1) >> 64);
}

static inline void count_packet(struct p4_count *count, uint32_t bytes)
{
    count->packets++;
    count->bytes += bytes;
}

static inline void counter_count(struct p4_instance *instance, uint32_t array, uint64_t index, uint32_t bytes)
{
    if (index < instance->type->counters[array])
        count_packet(&instance->counters[array][index], bytes);
}

static inline enum meter_colour meter_execute(struct p4_instance *instance, uint32_t array, uint64_t index,
                                              const struct progress *progress)
{
    const struct meter_type *type = &instance->type->meters[array];
    if (index >= type->size)
        return METER_GREEN;
    return meter_run(&instance->meters[array][index], progress->now_ns, type->bytes ? progress->received : 1);
}

/* What fits into the 19 bits of v1model's queue depths. */
static inline uint32_t queue_depth(uint32_t depth)
{
    return depth >> 19 ? (1u << 19) - 1 : depth;
}

/* `hash` folded into `size` numbers from `base` on; of size 0, `base`. A 32-bit division takes a third of a 64-bit one. */
static inline uint64_t hash_within(uint64_t base, uint64_t hash, uint64_t size)
{
    if (!size)
        return base;
    return base + ((hash | size) >> 32 ? hash % size : (uint32_t)hash % (uint32_t)size);
}

static inline u128 hash_within128(u128 base, uint64_t hash, u128 size)
{
    return size > UINT64_MAX ? base + hash : size ? base + hash % (uint64_t)size : base;
}

/* Put headers in front of a packet in place of the `parsed` bytes that it begins with. */
static inline void packet_begin(struct p4_packet *packet, uint32_t parsed, const uint8_t *headers, uint32_t size)
{
    packet->data = memcpy(packet->data + parsed - size, headers, size);
    packet->headroom += parsed - size;
    packet->length += size - parsed;
}

/* Header stacks: elements are zeroed, which makes them invalid. */
static inline void stack_push(void *elements, size_t bytes, uint32_t size, uint32_t *next, uint64_t count)
{
    uint32_t moved = count < size ? (uint32_t)count : size;
    memmove((uint8_t *)elements + moved * bytes, elements, (size - moved) * bytes);
    memset(elements, 0, moved * bytes);
    *next = *next + moved < size ? *next + moved : size;
}

static inline void stack_pop(void *elements, size_t bytes, uint32_t size, uint32_t *next, uint64_t count)
{
    uint32_t moved = count < size ? (uint32_t)count : size;
    memmove(elements, (uint8_t *)elements + moved * bytes, (size - moved) * bytes);
    memset((uint8_t *)elements + (size - moved) * bytes, 0, moved * bytes);
    *next = *next > moved ? *next - moved : 0;
}

/* A string of bits that grows, for calculations whose fields are not whole bytes. */
struct bit_string {
    uint8_t *bytes;
    unsigned bits;
};

static inline void bits_add128(struct bit_string *string, unsigned width, u128 value)
{
    store_bits128(string->bytes, string->bits, width, value);
    string->bits += width;
}

static inline void bits_add(struct bit_string *string, unsigned width, uint64_t value)
{
    store_bits(string->bytes, string->bits, width, value);
    string->bits += width;
}

#endif
