/* What is to be called between two events: a socket's turn, or a function whose instant has come. */
#ifndef NETCORE_DUE_H
#define NETCORE_DUE_H

#include "eventq.h"

struct due {
    struct due *next;
    bool queued;
    bool (*serve)(struct due *due, int64_t now_ns); /* false: it failed, and playing ends */
};

/* In the order in which they came due. */
struct due_list {
    struct eventq *events;
    struct due *first, *last;
    int64_t at_ns; /* when the last came due */
};

/* Have it called as soon as the present event is over. */
static inline void due_add(struct due_list *list, struct due *due, int64_t now_ns)
{
    if (due->queued)
        return;
    due->queued = true;
    due->next = NULL;
    if (list->last)
        list->last->next = due;
    else
        list->first = due;
    list->last = due;
    list->at_ns = now_ns;
    eventq_yield(list->events);
}

static inline struct due *due_take(struct due_list *list)
{
    struct due *due = list->first;
    if (!due)
        return NULL;
    if (!(list->first = due->next))
        list->last = NULL;
    due->queued = false;
    return due;
}

#endif
