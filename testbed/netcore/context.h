/* Memory for what a switch program keeps with a packet between ingress and egress, recycled last in, first out.
 *
 * A packet that does not wait has its context back in the pool before the next packet comes, so that all of them use the
 * same, cached one. A context knows its pool: whoever frees a packet gives it back.
 */
#ifndef NETCORE_CONTEXT_H
#define NETCORE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#define CONTEXT_ALIGNMENT 64 /* a cache line */

struct context_pool {
    size_t bytes;
    struct context *spare;
    struct context_slab *slabs;
};

/* In front of each context. */
struct context {
    _Alignas(CONTEXT_ALIGNMENT) struct context_pool *pool;
    struct context *next;
};

void context_pool_init(struct context_pool *pool, size_t bytes);
void context_pool_destroy(struct context_pool *pool);
bool context_pool_grow(struct context_pool *pool);

/* Whether all that was taken has come back; it counts, which takes its time. */
bool context_pool_idle(const struct context_pool *pool);

/* `bytes` of the pool, not cleared; NULL: no memory. */
static inline void *context_take(struct context_pool *pool)
{
    if (!pool->spare && !context_pool_grow(pool))
        return NULL;
    struct context *context = pool->spare;
    pool->spare = context->next;
    return context + 1;
}

static inline void context_free(void *memory)
{
    struct context *context = (struct context *)memory - 1;
    context->next = context->pool->spare;
    context->pool->spare = context;
}

#endif
