/* What the fabric keeps for Python to fetch: frames, digests and messages, in order, up to a limit. */
#ifndef NETCORE_RECORDS_H
#define NETCORE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record {
    struct record *next;
    uint64_t about[2]; /* what the kind of record says: a switch and a port, a port and an instant, a list */
    size_t length;
    uint8_t bytes[];
};

struct records {
    struct record *first, **last; /* `last` is NULL while there is none */
    size_t count;
};

/* Keep a copy of some bytes. False: there are `limit` already, or no memory. */
bool records_keep(struct records *records, size_t limit, uint64_t first, uint64_t second, const void *bytes, size_t length);

/* All that was kept, in order, for the caller to free. */
struct record *records_take(struct records *records);
void records_free(struct record *first);

#endif
