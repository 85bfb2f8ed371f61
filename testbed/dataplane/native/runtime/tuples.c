/* Tuples: hash tables of the entries with one mask, each slot a chain by falling priority; and the search among them. */
#include "parts.h"

#include <stdlib.h>

#define FIRST_SLOTS 16

void tuple_mask(const struct table *table, const uint64_t *mask, const uint64_t *key, uint64_t *out)
{
    for (unsigned i = 0; i < table->type->key_words; i++)
        out[i] = key[i] & mask[i];
}

struct slot *tuple_slot(const struct table *table, const struct tuple *tuple, const uint64_t *key)
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

struct tuple *tuple_with(const struct table *table, const uint64_t *mask)
{
    for (uint32_t i = 0; i < table->tuple_count; i++)
        if (!memcmp(table->tuples[i].mask, mask, table->type->key_words * sizeof *mask))
            return &table->tuples[i];
    return NULL;
}

struct tuple *tuple_add(struct table *table, const struct packed *packed)
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

/* Link an entry into the chain of its masked key. */
int tuple_link(struct table *table, struct tuple *tuple, uint32_t handle)
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

void tuple_unlink(struct table *table, struct tuple *tuple, uint32_t handle)
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
