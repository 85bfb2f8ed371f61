/* Numbered lists of where a switch's copies go: its multicast groups, or its clone sessions. */
#ifndef NETCORE_REPLICAS_H
#define NETCORE_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

struct replica {
    uint32_t port;
    uint16_t rid;
};

struct replica_list {
    struct replica *replicas; /* in the order in which copies are made */
    uint32_t count;
};

struct replica_lists {
    struct replica_list *lists; /* by number */
    uint32_t count;             /* one more than the largest number used */
};

/* Set a list; none is as good as one that never was. False: no memory, and nothing has changed. */
bool replicas_set(struct replica_lists *lists, uint16_t number, const struct replica *replicas, uint32_t count);
void replicas_free(struct replica_lists *lists);

static inline struct replica_list replicas_of(const struct replica_lists *lists, uint32_t number)
{
    return number < lists->count ? lists->lists[number] : (struct replica_list){0};
}

#endif
