/* Tables: what may be changed in them, and their entries. */
#include "parts.h"

#include <stdlib.h>

#define FIRST_ENTRIES 16

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

/* Entries came or went: look up again what was looked up last. */
static void renew_recent(struct table *table)
{
    const struct table_type *type = table->type;
    const uint64_t *key = &table->recent.key;
    if (type->key_words == 1 && type->kind == TABLE_LPM)
        table->recent.entry = trie_find(table, key, type->key_bits);
    else if (type->key_words == 1 && type->kind == TABLE_EXACT)
        table->recent.entry = exact_find(table, key, 1, type->data_words);
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
    int status = key_pack(table->type, match, &packed);
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

int table_insert(struct table *table, const struct p4_match *match, const struct p4_call *call, uint32_t *handle)
{
    const struct table_type *type = table->type;
    struct packed packed;
    int status = key_pack(type, match, &packed);
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
    if (!(status = set_call(table, entry, call)) && !(status = tuple_link(table, tuple, *handle)) && type->kind == TABLE_LPM &&
        (status = trie_insert(table, *handle)))
        tuple_unlink(table, tuple, *handle);
    if (status) {
        entry_release(table, *handle);
        return status;
    }
    entry->used = true;
    table->serial++;
    table->count++;
    renew_recent(table);
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
    tuple_unlink(table, &table->tuples[table->ranks[handle].tuple], handle);
    if (table->type->kind == TABLE_LPM)
        trie_remove(table, handle);
    entry_release(table, handle);
    table->count--;
    renew_recent(table);
    return P4_OK;
}
