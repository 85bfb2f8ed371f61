#include "packet.h"

#include "context.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

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

static size_t room_bytes(unsigned size_class)
{
    return (size_t)1 << (SMALLEST_SHIFT + size_class);
}

/* Have a buffer among the spare ones. */
static void keep(struct packet_pool *pool, struct packet *packet)
{
    ASAN_POISON_MEMORY_REGION(packet->room, room_bytes(packet->size_class));
    packet->next = pool->spare[packet->size_class];
    pool->spare[packet->size_class] = packet;
}

/* Cut a new slab into buffers of one class. */
static bool grow(struct packet_pool *pool, unsigned size_class)
{
    size_t bytes = (sizeof(struct packet) + room_bytes(size_class)) | CACHE_LINE; /* an odd number of lines: all cache sets */
    size_t buffers = SLAB_BYTES / bytes ? SLAB_BYTES / bytes : 1;
    size_t header = sizeof(struct packet); /* keeps the packets aligned */
    uint64_t total = header + buffers * bytes;
    if (pool->bytes + total > PACKET_POOL_BYTES || !eventq_attach(pool->events, buffers))
        return false;
    struct slab *slab = aligned_alloc(CACHE_LINE, total);
    if (!slab)
        return false;
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->bytes += total;
    for (size_t i = 0; i < buffers; i++) {
        struct packet *packet = (struct packet *)((char *)slab + header + i * bytes);
        packet->size_class = (uint8_t)size_class;
        keep(pool, packet);
    }
    return true;
}

void packet_pool_need(struct packet_pool *pool, uint32_t headroom_bytes)
{
    uint32_t lines = (headroom_bytes + CACHE_LINE - 1) / CACHE_LINE;
    if (pool->headroom < lines * CACHE_LINE)
        pool->headroom = lines * CACHE_LINE;
}

/* Let a packet of which `here` bytes are there begin at `frame`, in its room. */
static void place(struct packet *packet, uint8_t *frame, size_t here)
{
    uint8_t *end = packet->room + room_bytes(packet->size_class);
    ASAN_UNPOISON_MEMORY_REGION(packet->room, (size_t)(end - packet->room));
    ASAN_POISON_MEMORY_REGION(frame + here, (size_t)(end - frame) - here);
    packet->frame = frame;
}

struct packet *packet_new(struct packet_pool *pool, size_t length)
{
    unsigned size_class = 0;
    while (pool->headroom + length > room_bytes(size_class))
        if (++size_class == PACKET_CLASSES)
            return NULL;
    if (!pool->spare[size_class] && !grow(pool, size_class))
        return NULL;
    struct packet *packet = pool->spare[size_class];
    pool->spare[size_class] = packet->next;
    /* What is read before anybody sets it: to clear all of it at once takes longer. */
    packet->context = NULL;
    packet->length = (uint32_t)length;
    packet->tail = (struct frame_tail){0};
    packet->flags = 0;
    packet->priority = 0;
    packet->ingress = PACKET_NO_INGRESS;
    packet->event.inward = false;
    packet->layout = (struct frame_layout){0};
    place(packet, packet->room + pool->headroom, length);
    if (++pool->packets > pool->most_packets)
        pool->most_packets = pool->packets;
    return packet;
}

void packet_become(struct packet *packet, const struct packet *from)
{
    uint8_t size_class = packet->size_class, *frame = packet->frame;
    *packet = *from; /* the flexible array is not part of it */
    packet->size_class = size_class;
    packet->frame = frame;
    packet->context = NULL;
    memcpy(packet->frame, from->frame, packet_here(from));
    if (packet->flags & PACKET_SPLIT)
        packet->payload->references++;
}

struct packet *packet_copy(struct packet_pool *pool, const struct packet *packet)
{
    struct packet *copy = packet_new(pool, packet_here(packet));
    if (copy)
        packet_become(copy, packet);
    return copy;
}

struct packet *packet_move(struct packet_pool *pool, struct packet *packet)
{
    uint32_t here = packet_here(packet);
    if (pool->headroom + here <= room_bytes(packet->size_class)) {
        uint8_t *from = packet->frame;
        place(packet, packet->room + pool->headroom, here);
        memmove(packet->frame, from, here);
        return packet;
    }
    struct packet *moved = packet_copy(pool, packet);
    if (moved) {
        moved->context = packet->context;
        packet->context = NULL;
        packet_free(pool, packet);
    }
    return moved;
}

void packet_free(struct packet_pool *pool, struct packet *packet)
{
    if (packet->context)
        context_free(packet->context);
    if (packet->flags & PACKET_SPLIT)
        payload_drop(packet->payload);
    pool->packets--;
    keep(pool, packet);
}
