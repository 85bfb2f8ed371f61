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
    free(queue->heap);
    eventq_init(queue);
}

bool eventq_attach(struct eventq *queue, size_t events)
{
    size_t needed = queue->attached + events;
    if (needed > queue->capacity) {
        size_t capacity = queue->capacity ? queue->capacity : 64;
        while (capacity < needed)
            capacity *= 2;
        struct eventq_entry *heap = realloc(queue->heap, capacity * sizeof *heap);
        if (!heap)
            return false;
        queue->heap = heap;
        queue->capacity = capacity;
    }
    queue->attached = needed;
    return true;
}

void eventq_schedule(struct eventq *queue, struct event *event, int64_t at_ns)
{
    assert(queue->count < queue->attached);
    struct eventq_entry entry = {at_ns, queue->scheduled++, event};
    size_t hole = queue->count++;
    while (hole > 0) {
        size_t parent = (hole - 1) / ARITY;
        if (!before(&entry, &queue->heap[parent]))
            break;
        queue->heap[hole] = queue->heap[parent];
        hole = parent;
    }
    queue->heap[hole] = entry;
}

static struct eventq_entry pop(struct eventq *queue)
{
    struct eventq_entry top = queue->heap[0];
    struct eventq_entry last = queue->heap[--queue->count];
    size_t hole = 0;
    for (;;) {
        size_t first = hole * ARITY + 1, least = first;
        if (first >= queue->count)
            break;
        size_t end = first + ARITY < queue->count ? first + ARITY : queue->count;
        for (size_t child = first + 1; child < end; child++)
            if (before(&queue->heap[child], &queue->heap[least]))
                least = child;
        if (!before(&queue->heap[least], &last))
            break;
        queue->heap[hole] = queue->heap[least];
        hole = least;
    }
    queue->heap[hole] = last;
    return top;
}

int64_t eventq_next_ns(const struct eventq *queue)
{
    return queue->count ? queue->heap[0].at_ns : EVENTQ_NEVER;
}

size_t eventq_run(struct eventq *queue, int64_t until_ns, size_t limit)
{
    size_t fired = 0;
    while (fired < limit && eventq_next_ns(queue) <= until_ns && queue->count) {
        struct eventq_entry next = pop(queue);
        next.event->fire(next.event, next.at_ns);
        fired++;
    }
    return fired;
}
