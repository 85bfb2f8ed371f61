#include "addresses.h"

#include "random.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

static struct neighbour *slot_of(struct neighbour *slots, uint32_t capacity, uint32_t ip)
{
    uint64_t at = random_draw(ip, 0);
    while (slots[at % capacity].known && slots[at % capacity].ip != ip)
        at++;
    return &slots[at % capacity];
}

static bool grow(struct addresses *addresses)
{
    uint32_t capacity = addresses->capacity ? 2 * addresses->capacity : FIRST_CAPACITY;
    struct neighbour *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < addresses->capacity; i++)
        if (addresses->slots[i].known)
            *slot_of(slots, capacity, addresses->slots[i].ip) = addresses->slots[i];
    free(addresses->slots);
    addresses->slots = slots;
    addresses->capacity = capacity;
    return true;
}

bool addresses_add(struct addresses *addresses, uint32_t ip, const uint8_t *mac)
{
    if (2 * (addresses->count + 1) > addresses->capacity && !grow(addresses))
        return false;
    struct neighbour *slot = slot_of(addresses->slots, addresses->capacity, ip);
    addresses->count += !slot->known;
    slot->ip = ip;
    slot->known = true;
    memcpy(slot->mac, mac, sizeof slot->mac);
    return true;
}

const uint8_t *addresses_find(const struct addresses *addresses, uint32_t ip)
{
    const struct neighbour *slot = addresses->capacity ? slot_of(addresses->slots, addresses->capacity, ip) : NULL;
    return slot && slot->known ? slot->mac : NULL;
}

void addresses_free(struct addresses *addresses)
{
    free(addresses->slots);
    *addresses = (struct addresses){0};
}
