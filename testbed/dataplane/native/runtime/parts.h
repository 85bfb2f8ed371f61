/* What the files behind table.h share. */
#ifndef P4_PARTS_H
#define P4_PARTS_H

#include "table.h"

#define MAX_KEY_WORDS 64

/* An entry's key, mask and upper bounds in words, and the length of its prefix. */
struct packed {
    uint64_t key[MAX_KEY_WORDS], mask[MAX_KEY_WORDS], high[MAX_KEY_WORDS];
    uint32_t prefix;
};

/* P4_INVALID: no such match. */
int key_pack(const struct table_type *type, const struct p4_match *match, struct packed *out);

static inline uint64_t *key_of(const struct table *table, struct entry *entry)
{
    return entry->words + table->type->data_words;
}

static inline uint64_t *high_of(const struct table *table, struct entry *entry)
{
    return key_of(table, entry) + table->type->key_words;
}

void tuple_mask(const struct table *table, const uint64_t *mask, const uint64_t *key, uint64_t *out);

/* The slot of a masked key, or the free one where it would be. */
struct slot *tuple_slot(const struct table *table, const struct tuple *tuple, const uint64_t *key);
struct tuple *tuple_with(const struct table *table, const uint64_t *mask); /* NULL: none */
struct tuple *tuple_add(struct table *table, const struct packed *packed); /* NULL: no memory */

/* Put an entry into the chain of its masked key, and take it out. */
int tuple_link(struct table *table, struct tuple *tuple, uint32_t handle);
void tuple_unlink(struct table *table, struct tuple *tuple, uint32_t handle);

int trie_insert(struct table *table, uint32_t handle);
void trie_remove(struct table *table, uint32_t handle);

#endif
