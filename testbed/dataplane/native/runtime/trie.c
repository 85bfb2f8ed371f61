/* The trie of a TABLE_LPM: nodes of 2^TRIE_STRIDE slots, a prefix in all slots of its last node that it covers. */
#include "parts.h"

#include <stdlib.h>

/* The bits of an entry's prefix, in a TABLE_LPM. */
static uint32_t prefix_of(const struct table *table, uint32_t handle)
{
    return table->tuples[table->ranks[handle].tuple].prefix;
}

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

int trie_insert(struct table *table, uint32_t handle)
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
void trie_remove(struct table *table, uint32_t handle)
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
