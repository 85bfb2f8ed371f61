/* Changing tables: packing keys and data, tuples, the trie; and the search among tuples. */
#include "table.h"

#include <stdlib.h>

#define FIRST_SLOTS 16
#define FIRST_ENTRIES 16
#define MAX_KEY_WORDS 64

static uint64_t *key_of(const struct table *table, struct entry *entry)
{
    return entry->words + table->type->data_words;
}

static uint64_t *high_of(const struct table *table, struct entry *entry)
{
    return key_of(table, entry) + table->type->key_words;
}

/* The bits of an entry's prefix, in a TABLE_LPM. */
static uint32_t prefix_of(const struct table *table, uint32_t handle)
{
    return table->tuples[table->ranks[handle].tuple].prefix;
}

static void key_bit_set(uint64_t *words, unsigned bit, bool value)
{
    uint64_t mask = UINT64_C(1) << (63 - bit % 64);
    words[bit / 64] = value ? words[bit / 64] | mask : words[bit / 64] & ~mask;
}

static bool field_bit(const uint8_t *bytes, const struct key_field *field, unsigned bit)
{
    unsigned at = bit + (8 - field->width % 8) % 8;
    return bytes[at / 8] >> (7 - at % 8) & 1;
}

/* An entry's key, mask and upper bounds in words, and the length of its prefix; P4_INVALID: no such match. */
struct packed {
    uint64_t key[MAX_KEY_WORDS], mask[MAX_KEY_WORDS], high[MAX_KEY_WORDS];
    uint32_t prefix;
};

static int pack_field(const struct table_type *type, const struct key_field *field, const uint8_t *value,
                      const uint8_t *mask, struct packed *out)
{
    bool common = true, ended = false;
    for (unsigned bit = 0; bit < field->width; bit++) {
        bool v = field_bit(value, field, bit), m = field->match == MATCH_EXACT || field_bit(mask, field, bit);
        if (field->match == MATCH_RANGE) {
            if (common && v && !m)
                return P4_INVALID;
            key_bit_set(out->high, field->offset + bit, m);
            common = common && v == m;
            key_bit_set(out->mask, field->offset + bit, common);
            key_bit_set(out->key, field->offset + bit, v);
            continue;
        }
        if (field->match == MATCH_LPM) {
            if (m && ended)
                return P4_INVALID;
            ended = !m;
            if (m && type->kind == TABLE_LPM)
                out->prefix = field->offset + bit + 1u;
        }
        key_bit_set(out->mask, field->offset + bit, m);
        key_bit_set(out->key, field->offset + bit, v && m);
        key_bit_set(out->high, field->offset + bit, v && m);
    }
    return P4_OK;
}

static int pack(const struct table_type *type, const struct p4_match *match, struct packed *out)
{
    *out = (struct packed){.prefix = 0};
    if (type->kind == TABLE_LPM) {
        for (uint32_t i = 0; i < type->field_count; i++)
            if (type->fields[i].match == MATCH_LPM)
                out->prefix = type->fields[i].offset;
    }
    unsigned at = 0;
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct key_field *field = &type->fields[i];
        int status = pack_field(type, field, match->value + at, match->mask ? match->mask + at : NULL, out);
        if (status)
            return status;
        at += (field->width + 7u) / 8;
    }
    return P4_OK;
}

int unpack_data(const struct action_type *actions, uint32_t action_count, const struct p4_call *call, uint64_t *words)
{
    if (call->number >= action_count)
        return P4_INVALID;
    const struct action_type *action = &actions[call->number];
    const uint8_t *bytes = call->data;
    for (uint32_t i = 0; i < action->count; i++) {
        unsigned width = action->widths[i], count = (width + 7) / 8;
        for (unsigned low = 0; low < width; low += 64) {
            unsigned take = width - low < 64 ? width - low : 64;
            *words++ = load_bits(bytes, 8 * count - low - take, take);
        }
        bytes += count;
    }
    return P4_OK;
}

static int set_call(const struct table *table, struct entry *entry, const struct p4_call *call)
{
    const struct table_type *type = table->type;
    if ((call->kind == P4_CALL_ACTION) != (type->profile < 0))
        return P4_INVALID;
    if (call->kind == P4_CALL_ACTION) {
        int status = unpack_data(type->actions, type->action_count, call, entry->words);
        if (status)
            return status;
    }
    entry->call_kind = (uint8_t)call->kind;
    entry->action = call->number;
    return P4_OK;
}

int table_init(struct table *table, const struct table_type *type)
{
    *table = (struct table){.type = type, .default_action = NO_ACTION, .trie_stride = TRIE_STRIDE(type->key_bits)};
    table->entry_words = type->data_words + type->key_words * (type->ranged ? 2u : 1u);
    if (!(table->default_data = calloc(type->data_words + 1u, sizeof(uint64_t))))
        return P4_NO_MEMORY;
    int status = type->initial ? table_set_default(table, NULL) : P4_OK;
    for (uint32_t i = 0; i < type->const_count && !status; i++) {
        uint32_t handle;
        status = table_insert(table, &type->consts[i].match, &type->consts[i].call, &handle);
        status = status == P4_EXISTS ? P4_OK : status; /* the first of two equal ones wins */
    }
    return status;
}

void table_free(struct table *table)
{
    for (uint32_t i = 0; i < table->tuple_count; i++) {
        free(table->tuples[i].slots);
        free(table->tuples[i].mask);
    }
    free(table->tuples);
    free(table->order);
    free(table->trie);
    free(table->entries);
    free(table->ranks);
    free(table->meters);
    free(table->default_data);
}

struct entry *table_entry(const struct table *table, uint32_t handle)
{
    return handle < table->used && table_at(table, handle)->used ? table_at(table, handle) : NULL;
}

int table_set_default(struct table *table, const struct p4_call *call)
{
    const struct table_type *type = table->type;
    if (!call) {
        call = type->initial;
        if (!call) {
            table->default_action = NO_ACTION;
            return P4_OK;
        }
    } else if ((type->default_fixed && (!type->initial || call->number != type->initial->number)) ||
               type->default_data_fixed) {
        return P4_FIXED;
    }
    int status = unpack_data(type->actions, type->action_count, call, table->default_data);
    if (!status)
        table->default_action = call->number;
    return status;
}

/* Tuples */

static void tuple_mask(const struct table *table, const uint64_t *mask, const uint64_t *key, uint64_t *out)
{
    for (unsigned i = 0; i < table->type->key_words; i++)
        out[i] = key[i] & mask[i];
}

static struct slot *tuple_slot(const struct table *table, const struct tuple *tuple, const uint64_t *key)
{
    unsigned words = table->type->key_words;
    uint64_t hash = key_hash(key, words);
    for (uint32_t i = tuple_home(tuple, hash);; i++) {
        struct slot *slot = &tuple->slots[i & (tuple->size - 1)];
        uint64_t masked[MAX_KEY_WORDS];
        if (!slot->entry)
            return slot;
        if (slot->tag != (uint32_t)hash)
            continue;
        tuple_mask(table, tuple->mask, key_of(table, table_at(table, slot->entry - 1)), masked);
        if (!memcmp(masked, key, words * sizeof *key))
            return slot;
    }
}

static int tuple_grow(const struct table *table, struct tuple *tuple)
{
    uint32_t size = tuple->size ? tuple->size * 2 : FIRST_SLOTS;
    struct slot *slots = calloc(size, sizeof *slots), *old = tuple->slots;
    if (!slots)
        return P4_NO_MEMORY;
    uint32_t old_size = tuple->size;
    tuple->slots = slots;
    tuple->size = size;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i].entry) {
            uint64_t masked[MAX_KEY_WORDS];
            tuple_mask(table, tuple->mask, key_of(table, table_at(table, old[i].entry - 1)), masked);
            *tuple_slot(table, tuple, masked) = old[i];
        }
    free(old);
    return P4_OK;
}

static struct tuple *tuple_with(const struct table *table, const uint64_t *mask)
{
    for (uint32_t i = 0; i < table->tuple_count; i++)
        if (!memcmp(table->tuples[i].mask, mask, table->type->key_words * sizeof *mask))
            return &table->tuples[i];
    return NULL;
}

static struct tuple *tuple_add(struct table *table, const struct packed *packed)
{
    struct tuple *tuples = realloc(table->tuples, (table->tuple_count + 1) * sizeof *tuples);
    if (!tuples)
        return NULL;
    table->tuples = tuples;
    uint32_t *order = realloc(table->order, (table->tuple_count + 1) * sizeof *order);
    size_t bytes = table->type->key_words * sizeof(uint64_t);
    uint64_t *mask = malloc(bytes + 1);
    if (order)
        table->order = order;
    if (!order || !mask) {
        free(mask);
        return NULL;
    }
    memcpy(mask, packed->mask, bytes);
    order[table->tuple_count] = table->tuple_count;
    tuples[table->tuple_count] = (struct tuple){.mask = mask, .max_priority = INT32_MIN, .prefix = packed->prefix};
    return &tuples[table->tuple_count++];
}

static void tuples_sort(struct table *table)
{
    for (uint32_t i = 1; i < table->tuple_count; i++)
        for (uint32_t k = i; k > 0; k--) {
            uint32_t *a = &table->order[k - 1], *b = &table->order[k], moved = *a;
            if (table->tuples[*a].max_priority >= table->tuples[*b].max_priority)
                break;
            *a = *b;
            *b = moved;
        }
}

static bool in_range(const struct table *table, struct entry *entry, const uint64_t *key)
{
    for (uint32_t i = 0; i < table->type->field_count; i++) {
        const struct key_field *field = &table->type->fields[i];
        if (field->match != MATCH_RANGE)
            continue;
        const uint64_t *low = key_of(table, entry), *high = high_of(table, entry);
        int below = 0, above = 0; /* the first difference decides */
        for (unsigned word = field->offset / 64; word * 64 < field->offset + field->width; word++) {
            unsigned skip = word == field->offset / 64 ? field->offset % 64 : 0;
            unsigned left = field->offset + field->width - word * 64;
            uint64_t mask = (UINT64_MAX >> skip) & (left < 64 ? ~(UINT64_MAX >> left) : UINT64_MAX);
            uint64_t k = key[word] & mask, l = low[word] & mask, h = high[word] & mask;
            below = below ? below : k < l ? 1 : k > l ? -1 : 0;
            above = above ? above : k > h ? 1 : k < h ? -1 : 0;
        }
        if (below > 0 || above > 0)
            return false;
    }
    return true;
}

struct entry *table_ternary(const struct table *table, const uint64_t *key)
{
    struct entry *best = NULL;
    const struct rank *first = NULL; /* of the best */
    for (uint32_t i = 0; i < table->tuple_count; i++) {
        const struct tuple *tuple = &table->tuples[table->order[i]];
        if (first && first->priority > tuple->max_priority)
            break;
        uint64_t masked[MAX_KEY_WORDS];
        tuple_mask(table, tuple->mask, key, masked);
        for (uint32_t at = tuple->size ? tuple_slot(table, tuple, masked)->entry : 0; at;) {
            struct entry *entry = table_at(table, at - 1);
            const struct rank *rank = &table->ranks[at - 1];
            if (first && (first->priority > rank->priority ||
                          (first->priority == rank->priority && first->serial < rank->serial)))
                break;
            if (!table->type->ranged || in_range(table, entry, key)) {
                best = entry;
                first = rank;
                break;
            }
            at = rank->next;
        }
    }
    return best;
}

/* Trie */

static uint32_t trie_node(struct table *table)
{
    if (table->trie_nodes == table->trie_capacity) {
        uint32_t capacity = table->trie_capacity ? table->trie_capacity * 2 : 4;
        struct trie_slot *trie = realloc(table->trie, ((size_t)capacity << table->trie_stride) * sizeof *trie);
        if (!trie)
            return UINT32_MAX;
        table->trie = trie;
        table->trie_capacity = capacity;
    }
    memset(&table->trie[(size_t)table->trie_nodes << table->trie_stride], 0, sizeof(struct trie_slot) << table->trie_stride);
    return table->trie_nodes++;
}

/* The slots of the node in which a prefix ends: the first, and how many. */
struct span {
    size_t first, count;
    unsigned node_bits; /* prefix of the node itself */
};

static int trie_span(struct table *table, const uint64_t *key, unsigned prefix, struct span *span)
{
    unsigned stride = table->trie_stride, at = 0;
    if (!table->trie_nodes && trie_node(table) == UINT32_MAX)
        return P4_NO_MEMORY;
    uint32_t node = 0;
    for (;; at += stride) {
        size_t slot = ((size_t)node << stride) + (key[at / 64] >> (64 - stride - at % 64) & ((1u << stride) - 1));
        if (prefix <= at + stride) {
            *span = (struct span){.first = slot, .count = (size_t)1 << (at + stride - prefix), .node_bits = at};
            return P4_OK;
        }
        if (!table->trie[slot].child) {
            uint32_t child = trie_node(table);
            if (child == UINT32_MAX)
                return P4_NO_MEMORY;
            table->trie[slot].child = child;
        }
        node = table->trie[slot].child;
    }
}

static int trie_insert(struct table *table, uint32_t handle)
{
    uint32_t prefix = prefix_of(table, handle);
    struct span span;
    int status = trie_span(table, key_of(table, table_at(table, handle)), prefix, &span);
    for (size_t i = span.first; !status && i < span.first + span.count; i++)
        if (!table->trie[i].entry || prefix_of(table, table->trie[i].entry - 1) <= prefix)
            table->trie[i].entry = handle + 1;
    return status;
}

/* What an entry hid is the longest prefix that is shorter and ends in the same node. */
static void trie_remove(struct table *table, uint32_t handle)
{
    struct entry *entry = table_at(table, handle);
    struct span span;
    uint32_t prefix = prefix_of(table, handle);
    if (trie_span(table, key_of(table, entry), prefix, &span)) /* the path exists: it cannot fail */
        return;
    uint32_t hidden = 0, hidden_prefix = 0;
    for (uint32_t i = 0; i < table->tuple_count; i++) {
        const struct tuple *tuple = &table->tuples[i];
        bool inside = tuple->prefix > span.node_bits || span.node_bits == 0;
        if (!inside || tuple->prefix >= prefix || !tuple->size || (hidden && tuple->prefix < hidden_prefix))
            continue;
        uint64_t masked[MAX_KEY_WORDS];
        tuple_mask(table, tuple->mask, key_of(table, entry), masked);
        uint32_t found = tuple_slot(table, tuple, masked)->entry;
        if (found) {
            hidden = found;
            hidden_prefix = tuple->prefix;
        }
    }
    for (size_t i = span.first; i < span.first + span.count; i++)
        if (table->trie[i].entry == handle + 1)
            table->trie[i].entry = hidden;
}

/* Entries */

static struct entry *find_packed(const struct table *table, const struct packed *packed, int32_t priority)
{
    const struct tuple *tuple = tuple_with(table, packed->mask);
    if (!tuple || !tuple->size)
        return NULL;
    size_t bytes = table->type->key_words * sizeof(uint64_t);
    uint64_t masked[MAX_KEY_WORDS];
    tuple_mask(table, packed->mask, packed->key, masked);
    for (uint32_t at = tuple_slot(table, tuple, masked)->entry; at;) {
        struct entry *entry = table_at(table, at - 1);
        bool same = table->type->kind != TABLE_TERNARY || table->ranks[at - 1].priority == priority;
        if (same && !memcmp(key_of(table, entry), packed->key, bytes) &&
            (!table->type->ranged || !memcmp(high_of(table, entry), packed->high, bytes)))
            return entry;
        at = table->ranks[at - 1].next;
    }
    return NULL;
}

int table_find(const struct table *table, const struct p4_match *match, uint32_t *handle)
{
    struct packed packed;
    int status = pack(table->type, match, &packed);
    if (status)
        return status;
    const struct entry *entry = find_packed(table, &packed, match->priority);
    if (!entry)
        return P4_NOT_FOUND;
    *handle = entry->handle;
    return P4_OK;
}

static int entry_new(struct table *table, uint32_t *handle)
{
    if (table->spare) {
        *handle = table->spare - 1;
        table->spare = table->ranks[*handle].next;
        return P4_OK;
    }
    if (table->used == table->capacity) {
        uint32_t capacity = table->capacity ? table->capacity * 2 : FIRST_ENTRIES;
        size_t bytes = entry_bytes(table->entry_words);
        struct rank *ranks = realloc(table->ranks, capacity * sizeof *ranks);
        table->ranks = ranks ? ranks : table->ranks;
        struct meter *meters = table->type->metered ? realloc(table->meters, capacity * sizeof *meters) : NULL;
        table->meters = meters ? meters : table->meters;
        uint8_t *entries = aligned_alloc(CACHE_LINE, capacity * bytes);
        if (!entries || !ranks || (table->type->metered && !meters)) {
            free(entries);
            return P4_NO_MEMORY;
        }
        if (table->used)
            memcpy(entries, table->entries, table->used * bytes);
        free(table->entries);
        table->entries = entries;
        table->capacity = capacity;
    }
    *handle = table->used++;
    return P4_OK;
}

static void entry_release(struct table *table, uint32_t handle)
{
    table_at(table, handle)->used = false;
    table->ranks[handle].next = table->spare;
    table->spare = handle + 1;
}

/* Link an entry into the chain of its masked key. */
static int chain_in(struct table *table, struct tuple *tuple, uint32_t handle)
{
    struct entry *entry = table_at(table, handle);
    if (tuple->count * 2 >= tuple->size) {
        int status = tuple_grow(table, tuple);
        if (status)
            return status;
    }
    uint64_t masked[MAX_KEY_WORDS] = {0};
    tuple_mask(table, tuple->mask, key_of(table, entry), masked);
    struct slot *slot = tuple_slot(table, tuple, masked);
    if (!slot->entry) {
        slot->tag = (uint32_t)key_hash(masked, table->type->key_words);
        tuple->count++;
    }
    uint32_t *link = &slot->entry;
    struct rank *rank = &table->ranks[handle];
    while (*link && table->ranks[*link - 1].priority >= rank->priority)
        link = &table->ranks[*link - 1].next;
    rank->next = *link;
    *link = handle + 1;
    if (rank->priority > tuple->max_priority) {
        tuple->max_priority = rank->priority;
        tuples_sort(table);
    }
    return P4_OK;
}

static void chain_out(struct table *table, struct tuple *tuple, uint32_t handle)
{
    struct entry *entry = table_at(table, handle);
    uint64_t masked[MAX_KEY_WORDS];
    tuple_mask(table, tuple->mask, key_of(table, entry), masked);
    struct slot *slot = tuple_slot(table, tuple, masked);
    uint32_t *link = &slot->entry;
    while (*link != handle + 1)
        link = &table->ranks[*link - 1].next;
    *link = table->ranks[handle].next;
    if (slot->entry)
        return;
    tuple->count--;
    /* Close the gap: move back what was pushed past it (linear probing). */
    uint32_t mask = tuple->size - 1, gap = (uint32_t)(slot - tuple->slots);
    for (uint32_t i = (gap + 1) & mask; tuple->slots[i].entry; i = (i + 1) & mask) {
        tuple_mask(table, tuple->mask, key_of(table, table_at(table, tuple->slots[i].entry - 1)), masked);
        uint32_t home = tuple_home(tuple, key_hash(masked, table->type->key_words));
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            tuple->slots[gap] = tuple->slots[i];
            tuple->slots[i] = (struct slot){0};
            gap = i;
        }
    }
}

int table_insert(struct table *table, const struct p4_match *match, const struct p4_call *call, uint32_t *handle)
{
    const struct table_type *type = table->type;
    struct packed packed;
    int status = pack(type, match, &packed);
    if (status)
        return status;
    if (type->fixed && table->serial >= type->const_count)
        return P4_FIXED;
    if (find_packed(table, &packed, match->priority)) {
        table->serial += type->fixed;
        return P4_EXISTS;
    }
    if (table->count >= type->max_size && !type->fixed)
        return P4_FULL;
    struct tuple *tuple = tuple_with(table, packed.mask);
    if (!tuple && !(tuple = tuple_add(table, &packed)))
        return P4_NO_MEMORY;
    if ((status = entry_new(table, handle)))
        return status;
    struct entry *entry = table_at(table, *handle);
    *entry = (struct entry){.handle = *handle};
    memset(entry->words, 0, table->entry_words * sizeof(uint64_t));
    if (type->metered)
        table->meters[*handle] = (struct meter){0};
    size_t bytes = type->key_words * sizeof(uint64_t);
    memcpy(key_of(table, entry), packed.key, bytes);
    if (type->ranged)
        memcpy(high_of(table, entry), packed.high, bytes);
    table->ranks[*handle] = (struct rank){
        .priority = type->kind == TABLE_TERNARY ? match->priority : 0,
        .tuple = (uint32_t)(tuple - table->tuples),
        .serial = table->serial,
    };
    if (!(status = set_call(table, entry, call)) && !(status = chain_in(table, tuple, *handle)) && type->kind == TABLE_LPM &&
        (status = trie_insert(table, *handle)))
        chain_out(table, tuple, *handle);
    if (status) {
        entry_release(table, *handle);
        return status;
    }
    entry->used = true;
    table->serial++;
    table->count++;
    return P4_OK;
}

int table_modify(struct table *table, uint32_t handle, const struct p4_call *call)
{
    struct entry *entry = table_entry(table, handle);
    if (!entry)
        return P4_NOT_FOUND;
    return table->type->fixed ? P4_FIXED : set_call(table, entry, call);
}

int table_remove(struct table *table, uint32_t handle)
{
    if (!table_entry(table, handle))
        return P4_NOT_FOUND;
    if (table->type->fixed)
        return P4_FIXED;
    chain_out(table, &table->tuples[table->ranks[handle].tuple], handle);
    if (table->type->kind == TABLE_LPM)
        trie_remove(table, handle);
    entry_release(table, handle);
    table->count--;
    return P4_OK;
}
