#include "eventq.h"

#include <assert.h>
#include <stdlib.h>

#define ARITY 4

static bool before(const struct eventq_entry *a, const struct eventq_entry *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
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

static bool reserve(struct eventq_heap *heap, size_t needed)
{
    size_t capacity = heap->capacity ? heap->capacity : 64;
    while (capacity < needed)
        capacity *= 2;
    if (capacity == heap->capacity)
        return true;
    struct eventq_entry *entries = realloc(heap->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
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

/* The same downwards. */
static void sink(struct eventq_heap *heap, size_t hole, struct eventq_entry entry)
{
    for (;;) {
        size_t first = hole * ARITY + 1, least = first;
        if (first >= heap->count)
            break;
        size_t end = first + ARITY < heap->count ? first + ARITY : heap->count;
        for (size_t child = first + 1; child < end; child++)
            if (before(&heap->entries[child], &heap->entries[least]))
                least = child;
        if (!before(&heap->entries[least], &entry))
            break;
        heap->entries[hole] = heap->entries[least];
        hole = least;
    }
    heap->entries[hole] = entry;
}

void eventq_schedule(struct eventq *queue, struct event *event, int64_t at_ns)
{
    struct eventq_heap *heap = event->inward ? &queue->inward : &queue->outward;
    struct eventq_entry entry = {at_ns, queue->scheduled++, event};
    assert(heap->count < queue->attached);
    rise(heap, heap->count++, entry);
}

void eventq_cancel(struct eventq *queue, const struct event *event)
{
    struct eventq_heap *heap = event->inward ? &queue->inward : &queue->outward;
    size_t hole = 0;
    while (hole < heap->count && heap->entries[hole].event != event)
        hole++;
    assert(hole < heap->count);
    struct eventq_entry last = heap->entries[--heap->count];
    if (hole == heap->count)
        return;
    if (hole > 0 && before(&last, &heap->entries[(hole - 1) / ARITY]))
        rise(heap, hole, last);
    else
        sink(heap, hole, last);
}

static struct eventq_entry pop(struct eventq_heap *heap)
{
    struct eventq_entry top = heap->entries[0];
    struct eventq_entry last = heap->entries[--heap->count];
    sink(heap, 0, last);
    return top;
}

/* The heap that holds the next event, or NULL. */
static struct eventq_heap *next_heap(struct eventq *queue)
{
    struct eventq_heap *outward = &queue->outward, *inward = &queue->inward;
    if (!inward->count)
        return outward->count ? outward : NULL;
    return outward->count && before(&outward->entries[0], &inward->entries[0]) ? outward : inward;
}

static int64_t first_ns(const struct eventq_heap *heap)
{
    return heap->count ? heap->entries[0].at_ns : EVENTQ_NEVER;
}

int64_t eventq_next_ns(const struct eventq *queue)
{
    int64_t outward_ns = first_ns(&queue->outward), inward_ns = first_ns(&queue->inward);
    return outward_ns < inward_ns ? outward_ns : inward_ns;
}

int64_t eventq_wake_ns(const struct eventq *queue)
{
    return first_ns(&queue->outward);
}

size_t eventq_run(struct eventq *queue, int64_t until_ns, size_t limit)
{
    size_t fired = 0;
    for (struct eventq_heap *heap; fired < limit && (heap = next_heap(queue)); fired++) {
        if (heap->entries[0].at_ns > until_ns)
            break;
        struct eventq_entry next = pop(heap);
        next.event->fire(next.event, next.at_ns);
    }
    return fired;
}
