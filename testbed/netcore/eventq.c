#include "eventq.h"

#include <assert.h>
#include <stdlib.h>

#define ARITY 4
/* Places behind the event that is fired, of those for which memory is fetched: the event, what it refers to, what that does. */
#define EVENT_AT (EVENTQ_AHEAD - 2)
#define SOON_AT 4
#define NEXT_AT 2

/* In one piece and without a branch: which of two comes first is what no processor predicts. */
static __int128 key(const struct eventq_entry *entry)
{
    return (__int128)entry->at_ns << 64 | entry->order;
}

static bool before(const struct eventq_entry *a, const struct eventq_entry *b)
{
    return key(a) < key(b);
}

void eventq_init(struct eventq *queue)
{
    *queue = (struct eventq){0};
}

void eventq_destroy(struct eventq *queue)
{
    free(queue->outward.entries);
    free(queue->inward.entries);
    eventq_init(queue);
}

/* What is behind the last entry comes after all: so every entry that has a child has ARITY of them to look at. */
static const struct eventq_entry nothing = {EVENTQ_NEVER, UINT64_MAX, NULL};

static bool reserve(struct eventq_heap *heap, size_t needed)
{
    size_t capacity = heap->capacity ? heap->capacity : 64;
    while (capacity < needed + ARITY)
        capacity *= 2;
    if (capacity == heap->capacity)
        return true;
    struct eventq_entry *entries = realloc(heap->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = heap->count; i < capacity; i++)
        entries[i] = nothing;
    heap->entries = entries;
    heap->capacity = capacity;
    return true;
}

bool eventq_attach(struct eventq *queue, size_t events)
{
    size_t needed = queue->attached + events;
    if (!reserve(&queue->outward, needed) || !reserve(&queue->inward, needed))
        return false;
    queue->attached = needed;
    return true;
}

/* Move a hole up to where `entry` belongs, and put it there. */
static void rise(struct eventq_heap *heap, size_t hole, struct eventq_entry entry)
{
    while (hole > 0) {
        size_t parent = (hole - 1) / ARITY;
        if (!before(&entry, &heap->entries[parent]))
            break;
        heap->entries[hole] = heap->entries[parent];
        hole = parent;
    }
    heap->entries[hole] = entry;
}

/* The first of the children that begin at `child`. */
static size_t first_child(const struct eventq_heap *heap, size_t child)
{
    const struct eventq_entry *at = &heap->entries[child];
    size_t left = before(&at[1], &at[0]), right = 2 + (size_t)before(&at[3], &at[2]);
    return child + left + (right - left) * before(&at[right], &at[left]);
}

/* Move a hole down to where `entry` belongs, and put it there. */
static inline void sink(struct eventq_heap *heap, size_t hole, struct eventq_entry entry)
{
    for (size_t child; (child = hole * ARITY + 1) < heap->count; hole = child) {
        child = first_child(heap, child);
        if (!before(&heap->entries[child], &entry))
            break;
        heap->entries[hole] = heap->entries[child];
    }
    heap->entries[hole] = entry;
}

/* Take away the entry at a place. */
static void take_away(struct eventq_heap *heap, size_t hole)
{
    struct eventq_entry last = heap->entries[--heap->count];
    heap->entries[heap->count] = nothing;
    if (hole == heap->count)
        return;
    if (hole > 0 && before(&last, &heap->entries[(hole - 1) / ARITY]))
        rise(heap, hole, last);
    else
        sink(heap, hole, last);
}

static struct eventq_entry *front(struct eventq_heap *heap, unsigned place)
{
    return &heap->front[(heap->first + place) % EVENTQ_FRONT];
}

/* Put an entry among the first, which are fewer than EVENTQ_FRONT. */
static inline void put_in_front(struct eventq_heap *heap, struct eventq_entry entry)
{
    unsigned place = heap->fronts++;
    for (; place > 0 && before(&entry, front(heap, place - 1)); place--)
        *front(heap, place) = *front(heap, place - 1);
    *front(heap, place) = entry;
}

/* Have the first of the heap, which comes after all in front, be the last of these. */
static inline void advance(struct eventq_heap *heap)
{
    *front(heap, heap->fronts++) = heap->entries[0];
}

/* The same, and nobody in its place. */
static void refill(struct eventq_heap *heap)
{
    advance(heap);
    take_away(heap, 0);
}

void eventq_schedule_at_place(struct eventq *queue, struct event *event, int64_t at_ns, uint64_t place)
{
    struct eventq_heap *heap = event->inward ? &queue->inward : &queue->outward;
    struct eventq_entry entry = {at_ns, place, event};
    assert(heap->fronts + heap->count < queue->attached);
    if (heap->fronts < EVENTQ_AHEAD && heap->count && before(&heap->entries[0], &entry)) {
        advance(heap);
        sink(heap, 0, entry);
        return;
    }
    if (heap->fronts == EVENTQ_FRONT && before(&entry, front(heap, EVENTQ_FRONT - 1))) {
        rise(heap, heap->count++, *front(heap, EVENTQ_FRONT - 1));
        heap->fronts--;
    }
    if (heap->fronts < EVENTQ_FRONT && before(&entry, &heap->entries[0]))
        put_in_front(heap, entry);
    else
        rise(heap, heap->count++, entry);
}

void eventq_cancel(struct eventq *queue, const struct event *event)
{
    struct eventq_heap *heap = event->inward ? &queue->inward : &queue->outward;
    unsigned place = 0;
    while (place < heap->fronts && front(heap, place)->event != event)
        place++;
    if (place < heap->fronts) {
        for (heap->fronts--; place < heap->fronts; place++)
            *front(heap, place) = *front(heap, place + 1);
        if (!heap->fronts && heap->count)
            refill(heap);
        return;
    }
    size_t hole = 0;
    while (hole < heap->count && heap->entries[hole].event != event)
        hole++;
    assert(hole < heap->count);
    take_away(heap, hole);
}

static const struct eventq_entry *first_of(const struct eventq_heap *heap)
{
    return heap->fronts ? &heap->front[heap->first] : heap->count ? heap->entries : &nothing;
}

/* An event, and what lies behind it, of what it belongs to. */
static inline void fetch(const struct event *event)
{
    __builtin_prefetch(event);
    __builtin_prefetch((const void *)((uintptr_t)event + CACHE_LINE));
}

static inline void tell(const struct event *event, bool next)
{
    if (event->soon)
        event->soon(event, next);
}

int64_t eventq_wake_ns(const struct eventq *queue)
{
    return first_of(&queue->outward)->at_ns;
}

/* Where events are many, what they look at is in no near cache: have it fetched while those before them are fired. */
static inline void foresee(struct eventq_heap *heap)
{
    if (heap->fronts > EVENT_AT)
        fetch(front(heap, EVENT_AT)->event);
    if (heap->fronts > SOON_AT)
        tell(front(heap, SOON_AT)->event, false);
    if (heap->fronts > NEXT_AT)
        tell(front(heap, NEXT_AT)->event, true);
}

size_t eventq_run(struct eventq *queue, int64_t until_ns, size_t limit)
{
    queue->until_ns = until_ns;
    queue->left = limit;
    queue->yields = false;
    while (queue->left && !queue->yields) {
        struct eventq_heap *outward = &queue->outward, *inward = &queue->inward;
        struct eventq_heap *heap = before(first_of(outward), first_of(inward)) ? outward : inward;
        struct eventq_entry next = *first_of(heap);
        if (next.at_ns > until_ns || !next.event)
            break;
        queue->left--;
        heap->first = (heap->first + 1) % EVENTQ_FRONT;
        heap->fronts--;
        foresee(heap);
        next.event->fire(next.event, next.at_ns);
        if (heap->fronts < EVENTQ_AHEAD && heap->count)
            refill(heap);
    }
    return limit - queue->left;
}
