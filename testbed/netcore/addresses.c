#include "addresses.h"

#include "fabric.h"

#include <stdlib.h>

#define FIRST_CAPACITY 16

static struct fabric_port **slot_of(struct fabric_port **slots, uint32_t capacity, uint32_t ip)
{
    uint64_t at = random_draw(ip, 0);
    while (slots[at % capacity] && slots[at % capacity]->ip != ip)
        at++;
    return &slots[at % capacity];
}

static bool grow(struct addresses *addresses)
{
    uint32_t capacity = addresses->capacity ? 2 * addresses->capacity : FIRST_CAPACITY;
    struct fabric_port **slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < addresses->capacity; i++)
        if (addresses->slots[i])
            *slot_of(slots, capacity, addresses->slots[i]->ip) = addresses->slots[i];
    free(addresses->slots);
    addresses->slots = slots;
    addresses->capacity = capacity;
    return true;
}

bool addresses_add(struct addresses *addresses, struct fabric_port *port)
{
    if (2 * (addresses->count + 1) > addresses->capacity && !grow(addresses))
        return false;
    struct fabric_port **slot = slot_of(addresses->slots, addresses->capacity, port->ip);
    addresses->count += !*slot;
    *slot = port;
    return true;
}

struct fabric_port *addresses_find(const struct addresses *addresses, uint32_t ip)
{
    return addresses->capacity ? *slot_of(addresses->slots, addresses->capacity, ip) : NULL;
}

void addresses_free(struct addresses *addresses)
{
    free(addresses->slots);
    *addresses = (struct addresses){0};
}
