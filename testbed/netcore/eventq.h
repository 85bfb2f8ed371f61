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
#define CACHE_LINE 64

/* The structure of type `type` whose member `member` is `*pointer`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

struct event {
    void (*fire)(struct event *event, int64_t at_ns);
    /* Called some events before it is fired, and again with `next` when it is all but the next, so that memory it will look
     * at is on its way to the processor; it changes nothing, and is left out where others came between. NULL: likewise. */
    void (*soon)(const struct event *event, bool next);
    bool inward; /* changes nothing outside: a loop need not wake up for it, only fire it before what is due later */
};

struct eventq_entry {
    int64_t at_ns;
    uint64_t order;
    struct event *event;
};

#define EVENTQ_FRONT 64 /* a power of two */
#define EVENTQ_AHEAD 8

/* The earliest few are a ring in their order, all others a heap: what few links bring about, in turn, is no work to order.
 * While fewer than EVENTQ_AHEAD are in the ring, the first of the heap leaves its place there to what is scheduled. */
struct eventq_heap {
    struct eventq_entry front[EVENTQ_FRONT];
    unsigned first, fronts;
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
    int64_t until_ns; /* of the run that is under way, ... */
    size_t left;      /* ... and the events that it may still fire */
};

void eventq_init(struct eventq *queue);
void eventq_destroy(struct eventq *queue);

/* Make room for `events` more event structures, each of which is scheduled at most once at a time. False: no memory. */
bool eventq_attach(struct eventq *queue, size_t events);

/* Take a place in the order of scheduling; schedule at one. */
static inline uint64_t eventq_place(struct eventq *queue)
{
    return queue->scheduled++;
}

void eventq_schedule_at_place(struct eventq *queue, struct event *event, int64_t at_ns, uint64_t place);

/* Fire `event` at `at_ns`. It must be attached and not scheduled already. */
static inline void eventq_schedule(struct eventq *queue, struct event *event, int64_t at_ns)
{
    eventq_schedule_at_place(queue, event, at_ns, eventq_place(queue));
}

/* Forget an event that is scheduled. It is searched for: this is for what happens seldom. */
void eventq_cancel(struct eventq *queue, const struct event *event);

static inline int64_t eventq_first_ns(const struct eventq_heap *heap)
{
    return heap->fronts ? heap->front[heap->first].at_ns : heap->count ? heap->entries[0].at_ns : EVENTQ_NEVER;
}

/* The earliest instant at which something is due, or EVENTQ_NEVER. */
static inline int64_t eventq_next_ns(const struct eventq *queue)
{
    int64_t outward_ns = eventq_first_ns(&queue->outward), inward_ns = eventq_first_ns(&queue->inward);
    return outward_ns < inward_ns ? outward_ns : inward_ns;
}

/* The earliest instant at which something is due that shows outside, or EVENTQ_NEVER. */
int64_t eventq_wake_ns(const struct eventq *queue);

/* Whether an event at `at_ns` would be fired next, so that who fires it may do so without scheduling it: it takes its place
 * in the order of scheduling first. What is scheduled then at the same instant comes after it. */
static inline bool eventq_is_next(const struct eventq *queue, int64_t at_ns)
{
    return at_ns < eventq_next_ns(queue) && at_ns <= queue->until_ns && queue->left;
}

/* Later: whether it still is next, and counts as fired; else it has to be scheduled at its place. */
static inline bool eventq_goes_on(struct eventq *queue, int64_t at_ns)
{
    bool is = at_ns <= eventq_next_ns(queue) && queue->left && !queue->yields;
    queue->left -= is;
    return is;
}

/* Fire what is due at or before `until_ns`, at most `limit` events, or until one of them yields; returns how many. */
size_t eventq_run(struct eventq *queue, int64_t until_ns, size_t limit);

/* Have the run that fires the present event end after it. */
static inline void eventq_yield(struct eventq *queue)
{
    queue->yields = true;
}

#endif
