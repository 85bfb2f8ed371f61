#include "context.h"

#include <stdint.h>
#include <stdlib.h>

#define SLAB_CONTEXTS 64

struct context_slab {
    _Alignas(CONTEXT_ALIGNMENT) struct context_slab *next;
};

void context_pool_init(struct context_pool *pool, size_t bytes)
{
    *pool = (struct context_pool){.bytes = (bytes + CONTEXT_ALIGNMENT - 1) / CONTEXT_ALIGNMENT * CONTEXT_ALIGNMENT};
}

void context_pool_destroy(struct context_pool *pool)
{
    for (struct context_slab *slab = pool->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    context_pool_init(pool, pool->bytes);
}

bool context_pool_grow(struct context_pool *pool)
{
    size_t each = sizeof(struct context) + pool->bytes;
    struct context_slab *slab = aligned_alloc(CONTEXT_ALIGNMENT, sizeof *slab + SLAB_CONTEXTS * each);
    if (!slab)
        return false;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = 0; i < SLAB_CONTEXTS; i++) {
        struct context *context = (struct context *)((uint8_t *)(slab + 1) + i * each);
        context->pool = pool;
        context_free(context + 1);
    }
    return true;
}

bool context_pool_idle(const struct context_pool *pool)
{
    size_t all = 0, spare = 0;
    for (const struct context_slab *slab = pool->slabs; slab; slab = slab->next)
        all += SLAB_CONTEXTS;
    for (const struct context *context = pool->spare; context; context = context->next)
        spare++;
    return spare == all;
}
