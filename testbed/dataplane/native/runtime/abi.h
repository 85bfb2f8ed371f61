/* What a compiled switch program offers, and how whoever moves its packets calls it.
 *
 * A program is a shared object that exports `const struct p4_program p4_program`. Code and state are apart: one object serves
 * any number of switches, each with its own instance. Nothing here locks. One thread owns an instance: it moves packets and it
 * changes tables, so that a change always falls between two packets, which is what makes it atomic.
 *
 * The way of a packet (v1model):
 *
 *     ingress ─ verdict ─┬─ clone:  copy the bytes, clone_ingress(copy), egress at the session's ports
 *                        ├─ digest: digest_read
 *                        └─ fate:   P4_RESUBMIT    resubmit, whose verdict is handled as ingress's is
 *                                   P4_MULTICAST   a copy of bytes and context for each replica, egress each
 *                                   P4_UNICAST     queue, then egress at verdict.port
 *                                   P4_DROP, P4_FAILED
 *     egress ─ verdict ──┬─ clone:  copy the bytes, clone_egress(copy), egress at the session's ports
 *                        └─ fate:   P4_DROP, P4_FAILED
 *                                   P4_SEND        deparse, send
 *                                   P4_RECIRCULATE deparse, recirculate, whose verdict is handled as ingress's is
 *
 * A program whose egress is empty and which makes no copies does all of it at once, before the queue, and without a context:
 *
 *     forward ─ verdict ─── fate:    P4_UNICAST     queue, then send at verdict.port
 *                                    P4_DROP, P4_FAILED
 *
 * Clones are made before the fate is carried out. No call allocates; ingress and egress leave the packet's bytes as they are.
 */
#ifndef P4_ABI_H
#define P4_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define P4_ABI_VERSION 6
#define P4_LOOKS_EVERYWHERE UINT32_MAX
#define P4_CONTEXT_ALIGNMENT 16

struct p4_instance;

/* A frame without FCS. `headroom` bytes before `data` may be written: at least `headroom_bytes` of the program. */
struct p4_packet {
    uint8_t *data;
    uint32_t length;
    uint32_t headroom;
    void *context; /* `context_bytes`, aligned: headers and metadata, carried from ingress to egress */
    uint32_t kept; /* set by `deparse` and `forward`: bytes at the frame's end that are those that it came with; 0: it was cut */
};

/* P4_FAILED: an assert or assume did not hold, so that the packet was left at once; it is dropped. */
enum p4_fate { P4_DROP, P4_FAILED, P4_UNICAST, P4_MULTICAST, P4_RESUBMIT, P4_SEND, P4_RECIRCULATE };

struct p4_verdict {
    uint8_t fate;
    uint8_t priority;        /* of the queue, from standard_metadata.priority: 0 to 7, the larger is served first */
    bool clone;
    bool digest;
    uint16_t group;          /* of P4_MULTICAST */
    uint32_t port;           /* of P4_UNICAST */
    uint32_t length;         /* after ingress: bytes the packet takes in a queue, its headers as they are now and truncated */
    uint32_t clone_session;
    uint32_t digest_list;
};

/* What the queue tells a packet that leaves it. Depths are bytes: those that it found in its queue, and those that it leaves
 * behind there, itself not counted. In 19 bits of v1model's metadata they are saturated by the program. */
struct p4_departure {
    uint32_t port;
    uint16_t rid;            /* replication id of a multicast copy, else 0 */
    uint32_t enq_timestamp_us;
    uint32_t enq_qdepth;
    uint32_t deq_timedelta_us;
    uint32_t deq_qdepth;
    int64_t now_ns;
};

/* What an instance asks of its owner. */
struct p4_host {
    void *self;
    void (*log)(void *self, const char *line); /* log_msg, and failed assert or assume; NULL: nobody listens */
    uint64_t seed;                             /* of `random` */
};

enum p4_status { P4_OK, P4_NO_MEMORY, P4_NOT_FOUND, P4_EXISTS, P4_FULL, P4_FIXED, P4_INVALID };

enum p4_call_kind { P4_CALL_ACTION, P4_CALL_MEMBER, P4_CALL_GROUP };

/* An action of the table or profile (its place among `action_ids`) with its parameters in order, each big-endian and padded on
 * the left to whole bytes; or a member or group of the table's action profile. */
struct p4_call {
    uint32_t kind;
    uint32_t number;
    const uint8_t *data;
};

/* A table's key: its fields in order, each big-endian and padded on the left to whole bytes. `mask`, laid out alike, holds a
 * mask for ternary, optional and lpm fields, the upper bound for range fields, and is ignored for exact ones. Of two matching
 * entries the one with the larger priority wins, then the older one; tables without ternary or range fields ignore it. */
struct p4_match {
    const uint8_t *value;
    const uint8_t *mask;
    int32_t priority;
};

struct p4_count {
    uint64_t packets;
    uint64_t bytes;
};

/* Two-rate three-colour marking (RFC 2698), in packets or bytes. */
struct p4_rates {
    double committed_per_us, peak_per_us;
    uint64_t committed_burst, peak_burst;
};

/* Names in the order of the numbers by which all functions below call these things. */
struct p4_names {
    const char *const *names;
    uint32_t count;
};

struct p4_program {
    uint32_t abi;
    const char *name;
    size_t context_bytes;
    uint32_t headroom_bytes;
    uint32_t looks_bytes; /* of a frame that its parser looks at, at most; only these need be at `data`, whatever `length` is */
    struct p4_names tables, profiles, registers, counters, meters, value_sets, digests;

    struct p4_instance *(*create)(const struct p4_host *host); /* NULL: no memory */
    void (*destroy)(struct p4_instance *instance);

    /* The way of a packet at once; NULL: in steps, by the functions after this one, which are NULL otherwise. Timestamps in
     * metadata are `now_ns` / 1000. */
    void (*forward)(struct p4_instance *instance, struct p4_packet *packet, uint32_t port, int64_t now_ns,
                    struct p4_verdict *verdict);
    void (*ingress)(struct p4_instance *instance, struct p4_packet *packet, uint32_t port, int64_t now_ns,
                    struct p4_verdict *verdict);
    void (*resubmit)(struct p4_instance *instance, struct p4_packet *packet, int64_t now_ns, struct p4_verdict *verdict);
    void (*recirculate)(struct p4_instance *instance, struct p4_packet *packet, int64_t now_ns, struct p4_verdict *verdict);
    void (*clone_ingress)(struct p4_instance *instance, const struct p4_packet *original, struct p4_packet *clone);
    void (*egress)(struct p4_instance *instance, struct p4_packet *packet, const struct p4_departure *departure,
                   struct p4_verdict *verdict);
    void (*clone_egress)(struct p4_instance *instance, const struct p4_packet *original, struct p4_packet *clone);
    bool (*deparse)(struct p4_instance *instance, struct p4_packet *packet); /* false: an assert failed, as P4_FAILED */
    /* Write a digest's fields, laid out as a call's data; its length. `data` has room for `digest_bytes`. */
    size_t (*digest_read)(struct p4_instance *instance, const struct p4_packet *packet, uint32_t list, uint8_t *data);
    size_t digest_bytes;

    /* All of these return a `p4_status`. */
    int (*insert)(struct p4_instance *, uint32_t table, const struct p4_match *, const struct p4_call *, uint32_t *handle);
    int (*find)(struct p4_instance *, uint32_t table, const struct p4_match *, uint32_t *handle);
    int (*modify)(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_call *);
    int (*remove)(struct p4_instance *, uint32_t table, uint32_t handle);
    int (*set_default)(struct p4_instance *, uint32_t table, const struct p4_call *); /* NULL: what the program says */
    int (*entry_count)(struct p4_instance *, uint32_t table, uint32_t handle, struct p4_count *out);
    int (*entry_count_set)(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_count *);
    int (*entry_meter_set)(struct p4_instance *, uint32_t table, uint32_t handle, const struct p4_rates *);

    int (*member_add)(struct p4_instance *, uint32_t profile, const struct p4_call *, uint32_t *member);
    int (*member_modify)(struct p4_instance *, uint32_t profile, uint32_t member, const struct p4_call *);
    int (*member_remove)(struct p4_instance *, uint32_t profile, uint32_t member);
    int (*group_set)(struct p4_instance *, uint32_t profile, uint32_t group, const uint32_t *members, uint32_t count);
    int (*group_remove)(struct p4_instance *, uint32_t profile, uint32_t group);

    /* Register values are big-endian, padded to whole bytes. */
    int (*register_read)(struct p4_instance *, uint32_t array, uint32_t index, uint8_t *value);
    int (*register_write)(struct p4_instance *, uint32_t array, uint32_t index, const uint8_t *value);
    int (*counter_read)(struct p4_instance *, uint32_t array, uint32_t index, struct p4_count *out);
    int (*counter_write)(struct p4_instance *, uint32_t array, uint32_t index, const struct p4_count *);
    int (*meter_set)(struct p4_instance *, uint32_t array, uint32_t index, const struct p4_rates *);
    int (*value_set_add)(struct p4_instance *, uint32_t set, const uint8_t *value, const uint8_t *mask);
    int (*value_set_clear)(struct p4_instance *, uint32_t set);
};

#endif
