#include "intake.h"

#include <stddef.h>

static void give_back(struct payload *payload)
{
    struct intake *intake = CONTAINER_OF(payload, struct intake, payload);
    packet_free(intake->pool, intake->packet);
}

struct intake *intake_new(struct packet_pool *pool, size_t bytes)
{
    struct packet *packet = pool->bytes < PACKET_POOL_BYTES / 2 ? packet_new(pool, sizeof(struct intake) + bytes) : NULL;
    if (!packet)
        return NULL;
    struct intake *intake = (struct intake *)(void *)packet->frame;
    intake->payload = (struct payload){1, give_back};
    intake->pool = pool;
    intake->packet = packet;
    return intake;
}

struct intake *intake_again(struct packet_pool *pool, struct intake *intake, size_t bytes)
{
    if (intake && intake->payload.references == 1)
        return intake;
    if (intake)
        payload_drop(&intake->payload);
    return intake_new(pool, bytes);
}

struct intake *intake_of(const struct packet *packet)
{
    struct payload *payload = packet->flags & PACKET_SPLIT ? packet->payload : NULL;
    return payload && payload->release == give_back ? CONTAINER_OF(payload, struct intake, payload) : NULL;
}
