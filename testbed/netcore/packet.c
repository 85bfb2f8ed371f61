#include "packet.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_SHIFT 8
#define SLAB_BYTES (UINT64_C(1) << 18)

struct slab {
    struct slab *next;
};

void packet_pool_init(struct packet_pool *pool, struct eventq *events)
{
    *pool = (struct packet_pool){.events = events};
}

void packet_pool_destroy(struct packet_pool *pool)
{
    for (struct slab *slab = pool->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
    packet_pool_init(pool, pool->events);
}

/* Cut a new slab into buffers of one class. */
static bool grow(struct packet_pool *pool, unsigned size_class)
{
    size_t bytes = sizeof(struct packet) + ((size_t)1 << (SMALLEST_SHIFT + size_class));
    size_t buffers = SLAB_BYTES / bytes ? SLAB_BYTES / bytes : 1;
    size_t header = sizeof(struct packet); /* keeps the packets aligned */
    uint64_t total = header + buffers * bytes;
    if (pool->bytes + total > PACKET_POOL_BYTES || !eventq_attach(pool->events, buffers))
        return false;
    struct slab *slab = malloc(total);
    if (!slab)
        return false;
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->bytes += total;
    for (size_t i = 0; i < buffers; i++) {
        struct packet *packet = (struct packet *)((char *)slab + header + i * bytes);
        packet->size_class = (uint8_t)size_class;
        packet->next = pool->spare[size_class];
        pool->spare[size_class] = packet;
    }
    return true;
}

struct packet *packet_new(struct packet_pool *pool, size_t length)
{
    unsigned size_class = 0;
    while (length > (size_t)1 << (SMALLEST_SHIFT + size_class))
        if (++size_class == PACKET_CLASSES)
            return NULL;
    if (!pool->spare[size_class] && !grow(pool, size_class))
        return NULL;
    struct packet *packet = pool->spare[size_class];
    pool->spare[size_class] = packet->next;
    memset(packet, 0, sizeof *packet);
    packet->size_class = (uint8_t)size_class;
    packet->length = (uint32_t)length;
    return packet;
}

struct packet *packet_copy(struct packet_pool *pool, const struct packet *packet)
{
    struct packet *copy = packet_new(pool, packet->length);
    if (copy) {
        uint8_t size_class = copy->size_class;
        *copy = *packet; /* the flexible array is not part of it */
        copy->size_class = size_class;
        memcpy(copy->frame, packet->frame, packet->length);
    }
    return copy;
}

void packet_free(struct packet_pool *pool, struct packet *packet)
{
    packet->next = pool->spare[packet->size_class];
    pool->spare[packet->size_class] = packet;
}
