/* The event queue: what happens next, in time order, ties in the order of scheduling.
 *
 * Events are embedded in what they belong to (a packet, a link), so that scheduling allocates nothing. The queue reads no
 * clock: whoever runs it says up to which instant, be it real time or virtual.
 */
#ifndef NETCORE_EVENTQ_H
#define NETCORE_EVENTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENTQ_NEVER INT64_MAX

/* The structure of type `type` whose member `member` is `*pointer`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

struct event {
    void (*fire)(struct event *event, int64_t at_ns);
    bool inward; /* changes nothing outside: a loop need not wake up for it, only fire it before what is due later */
};

struct eventq_entry {
    int64_t at_ns;
    uint64_t order;
    struct event *event;
};

#define EVENTQ_FRONT 64 /* a power of two */

/* The earliest few are a ring in their order, all others a heap: what few links bring about, in turn, is no work to order. */
struct eventq_heap {
    struct eventq_entry front[EVENTQ_FRONT];
    unsigned first, fronts; /* no fronts: the heap is empty too, or ... */
    bool vacant; /* ... its first belongs there, and leaves its place to what is scheduled next */
    struct eventq_entry *entries; /* 4-ary, smallest (at_ns, order) first */
    size_t count;
    size_t capacity;
};

struct eventq {
    struct eventq_heap outward;
    struct eventq_heap inward;
    size_t attached;
    uint64_t scheduled;
    bool yields; /* the run that fires is to end after the present event */
};

void eventq_init(struct eventq *queue);
void eventq_destroy(struct eventq *queue);

/* Make room for `events` more event structures, each of which is scheduled at most once at a time. False: no memory. */
bool eventq_attach(struct eventq *queue, size_t events);

/* Fire `event` at `at_ns`. It must be attached and not scheduled already. */
void eventq_schedule(struct eventq *queue, struct event *event, int64_t at_ns);

/* Forget an event that is scheduled. It is searched for: this is for what happens seldom. */
void eventq_cancel(struct eventq *queue, const struct event *event);

/* The earliest instant at which something is due, or EVENTQ_NEVER. */
int64_t eventq_next_ns(const struct eventq *queue);

/* The earliest instant at which something is due that shows outside, or EVENTQ_NEVER. */
int64_t eventq_wake_ns(const struct eventq *queue);

/* Fire what is due at or before `until_ns`, at most `limit` events, or until one of them yields; returns how many. */
size_t eventq_run(struct eventq *queue, int64_t until_ns, size_t limit);

/* Have the run that fires the present event end after it. */
static inline void eventq_yield(struct eventq *queue)
{
    queue->yields = true;
}

#endif
