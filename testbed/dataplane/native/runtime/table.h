/* Match tables: entries found by tuple-space search, longest prefixes by a trie; action profiles.
 *
 * A key is a string of bits in 64-bit words, first bit uppermost: its fields in order (a prefix field last), a field that
 * does not fit into the rest of its word beginning in the next. Entries are grouped into tuples by their mask; a tuple is an
 * open-addressing hash table of masked keys. An exact table is the case of one tuple. Entries with one mask and one masked key
 * are chained by falling priority; range bounds are compared along the chain, and their common prefix is part of the mask.
 */
#ifndef P4_TABLE_H
#define P4_TABLE_H

#include "abi.h"
#include "bytes.h"
#include "meter.h"

enum match_kind { MATCH_EXACT, MATCH_LPM, MATCH_TERNARY, MATCH_RANGE, MATCH_OPTIONAL };
enum table_kind { TABLE_EXACT, TABLE_LPM, TABLE_TERNARY };

struct key_field {
    uint16_t width;  /* bits */
    uint16_t offset; /* of its first bit in the key */
    uint8_t match;
};

struct action_type {
    uint32_t count;
    const uint16_t *widths; /* of its parameters, in bits */
};

/* An entry that the program brings along. */
struct const_entry {
    struct p4_match match;
    struct p4_call call;
};

struct table_type {
    enum table_kind kind;
    bool fixed;      /* const entries: nothing can be added or changed */
    bool ranged;
    bool counted;    /* direct counter */
    bool metered;    /* direct meter */
    int32_t profile; /* -1: none */
    uint16_t key_words, key_bits, data_words;
    uint32_t field_count;
    const struct key_field *fields;
    uint32_t action_count;
    const struct action_type *actions;
    uint32_t max_size;
    uint32_t const_count;
    const struct const_entry *consts;
    const struct p4_call *initial; /* default action; NULL: none */
    bool default_fixed, default_data_fixed;
};

#define NO_ACTION UINT32_MAX
#define CACHE_LINE 64
#define TRIE_STRIDE(bits) ((bits) <= 64 ? 8u : 4u)

/* What a packet touches of an entry: mostly one cache line. */
struct entry {
    uint32_t action; /* or number of the member or group */
    uint8_t call_kind;
    bool used;
    uint32_t handle; /* its own */
    struct p4_count count;
    uint64_t words[]; /* data, key, and where `ranged` upper bounds */
};

/* An entry's place among the others. */
struct rank {
    int32_t priority;
    uint32_t next; /* in its chain, + 1 */
    uint32_t tuple;
    uint64_t serial;
};

struct slot {
    uint32_t tag;
    uint32_t entry; /* + 1; 0: free */
};

struct tuple {
    struct slot *slots;
    uint64_t *mask;
    uint32_t size; /* power of two, 0: unused so far */
    uint32_t count; /* chains */
    int32_t max_priority;
    uint32_t prefix;
};

struct trie_slot {
    uint32_t child; /* node number, 0: none */
    uint32_t entry; /* + 1 */
};

/* A key of one word, and what there is for it. It is the one that was looked up last: packets of a flow come in a row, and
 * while the processor guesses that it is this one again, nothing that follows waits for the key or for the search. */
struct recent {
    uint64_t key;
    uint32_t entry; /* + 1; 0: none */
};

struct table {
    const struct table_type *type;
    uint8_t *entries;
    struct rank *ranks;   /* one an entry */
    struct meter *meters; /* one an entry, where `metered` */
    unsigned entry_words;
    uint32_t count, used, capacity; /* used: high-water mark */
    uint32_t spare; /* free list by `next` of ranks, + 1 */
    uint64_t serial;
    struct tuple *tuples; /* by falling max_priority */
    uint32_t *order;
    uint32_t tuple_count;
    struct trie_slot *trie;
    uint32_t trie_nodes, trie_capacity;
    unsigned trie_stride;
    uint32_t default_action;
    uint64_t *default_data;
    struct recent recent;
};

struct member {
    uint32_t action;
    bool used;
};

struct group {
    uint32_t count;
    uint32_t *members; /* rising; NULL: there is no such group */
};

struct profile_type {
    uint16_t data_words;
    uint32_t action_count;
    const struct action_type *actions;
    uint32_t max_size;
};

struct profile {
    const struct profile_type *type;
    struct member *members;
    uint64_t *data; /* data_words a member */
    uint32_t count, capacity;
    struct group *groups; /* by number */
    uint32_t group_count;
};

/* A call's data in words; P4_INVALID: there is no such action. */
int unpack_data(const struct action_type *actions, uint32_t action_count, const struct p4_call *call, uint64_t *words);

int table_init(struct table *table, const struct table_type *type);
void table_free(struct table *table);
int table_insert(struct table *table, const struct p4_match *match, const struct p4_call *call, uint32_t *handle);
int table_find(const struct table *table, const struct p4_match *match, uint32_t *handle);
int table_modify(struct table *table, uint32_t handle, const struct p4_call *call);
int table_remove(struct table *table, uint32_t handle);
int table_set_default(struct table *table, const struct p4_call *call);
struct entry *table_entry(const struct table *table, uint32_t handle); /* NULL: none */

int profile_member_add(struct profile *profile, const struct p4_call *call, uint32_t *member);
int profile_member_modify(struct profile *profile, uint32_t member, const struct p4_call *call);
int profile_member_remove(struct profile *profile, uint32_t member);
int profile_group_set(struct profile *profile, uint32_t group, const uint32_t *members, uint32_t count);
int profile_group_remove(struct profile *profile, uint32_t group);
void profile_free(struct profile *profile);

/* The number of the member that a hash picks from a group; NO_ACTION: the group is empty or unknown. */
uint32_t profile_pick(const struct profile *profile, uint32_t group, uint64_t hash);

/* The size of an entry with so many words, in few cache lines. */
static inline size_t entry_bytes(unsigned words)
{
    size_t bytes = sizeof(struct entry) + words * sizeof(uint64_t);
    return bytes <= CACHE_LINE / 2 ? CACHE_LINE / 2 : (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static inline struct entry *entry_at(const struct table *table, uint32_t handle, unsigned words)
{
    return (struct entry *)(void *)(table->entries + handle * entry_bytes(words));
}

static inline struct entry *table_at(const struct table *table, uint32_t handle)
{
    return entry_at(table, handle, table->entry_words);
}

static inline uint64_t key_hash(const uint64_t *key, unsigned words)
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < words; i++) {
        hash = (hash ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* Where the search for a hash begins. Its upper bits tell, on which all bits of a key have a say after the multiplication. */
static inline uint32_t tuple_home(const struct tuple *tuple, uint64_t hash)
{
    return (uint32_t)((hash >> 32) * tuple->size >> 32);
}

/* The first entry of the chain of a masked key in a tuple, + 1; 0: none. */
static inline uint32_t tuple_find(const struct table *table, const struct tuple *tuple, const uint64_t *key, unsigned words,
                                  unsigned data_words)
{
    uint64_t hash = key_hash(key, words);
    for (uint32_t i = tuple_home(tuple, hash);; i++) {
        const struct slot *slot = &tuple->slots[i & (tuple->size - 1)];
        if (!slot->entry)
            return 0;
        if (slot->tag != (uint32_t)hash)
            continue;
        const uint64_t *theirs = entry_at(table, slot->entry - 1, data_words + words)->words + data_words;
        uint64_t difference = 0;
        for (unsigned k = 0; k < words; k++)
            difference |= theirs[k] ^ key[k];
        if (!difference)
            return slot->entry;
    }
}

/* What an exact table, or a trie, has for a key: an entry + 1; 0: none. */
static inline uint32_t exact_find(const struct table *table, const uint64_t *key, unsigned words, unsigned data_words)
{
    return table->tuple_count && table->tuples->size ? tuple_find(table, table->tuples, key, words, data_words) : 0;
}

static inline uint32_t trie_find(const struct table *table, const uint64_t *key, unsigned bits)
{
    unsigned stride = TRIE_STRIDE(bits);
    if (!table->trie_nodes)
        return 0;
    uint32_t node = 0, best = 0;
    for (unsigned at = 0; at < bits; at += stride) {
        const struct trie_slot *slot =
            &table->trie[(node << stride) + (key[at / 64] >> (64 - stride - at % 64) & ((1u << stride) - 1))];
        if (slot->entry)
            best = slot->entry;
        if (!(node = slot->child))
            break;
    }
    return best;
}

static inline struct entry *table_found(const struct table *table, uint32_t found, unsigned words)
{
    return found ? entry_at(table, found - 1, words) : NULL;
}

/* The three look-ups; `words` and `data_words` are constants of the table that the compiler folds. */
static inline struct entry *table_exact(struct table *table, const uint64_t *key, unsigned words, unsigned data_words)
{
    if (words != 1)
        return table_found(table, exact_find(table, key, words, data_words), data_words + words);
    if (table->recent.key != *key)
        table->recent = (struct recent){*key, exact_find(table, key, words, data_words)};
    return table_found(table, table->recent.entry, data_words + words);
}

static inline struct entry *table_lpm(struct table *table, const uint64_t *key, unsigned bits, unsigned data_words)
{
    unsigned words = (bits + 63) / 64;
    if (words != 1)
        return table_found(table, trie_find(table, key, bits), data_words + words);
    if (table->recent.key != *key)
        table->recent = (struct recent){*key, trie_find(table, key, bits)};
    return table_found(table, table->recent.entry, data_words + words);
}

/* A member's action, and its data; NO_ACTION: there is none. */
static inline uint32_t profile_call(const struct profile *profile, uint32_t member, const uint64_t **data)
{
    if (member >= profile->count || !profile->members[member].used)
        return NO_ACTION;
    *data = profile->data + (size_t)member * profile->type->data_words;
    return profile->members[member].action;
}

struct entry *table_ternary(const struct table *table, const uint64_t *key);

#endif
