#include "flows.h"

#include "random.h"

#include <stdlib.h>

#define FIRST_CAPACITY 8
#define THERE (UINT64_C(1) << 63) /* in a key, so that none is 0 */

static struct flow *slot_of(struct flow *slots, uint32_t capacity, uint64_t key)
{
    uint64_t at = random_draw(key, 0);
    while (slots[at % capacity].key && slots[at % capacity].key != key)
        at++;
    return &slots[at % capacity];
}

static bool grow(struct flows *flows)
{
    uint32_t capacity = flows->capacity ? 2 * flows->capacity : FIRST_CAPACITY;
    struct flow *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < flows->capacity; i++)
        if (flows->slots[i].key)
            *slot_of(slots, capacity, flows->slots[i].key) = flows->slots[i];
    free(flows->slots);
    flows->slots = slots;
    flows->capacity = capacity;
    return true;
}

struct flow *flows_find(struct flows *flows, uint32_t source_ip, uint32_t queue_pair)
{
    uint64_t key = (uint64_t)source_ip << 24 | queue_pair | THERE;
    struct flow *found = flows->capacity ? slot_of(flows->slots, flows->capacity, key) : NULL;
    if (found && found->key)
        return found;
    if (2 * (flows->count + 1) > flows->capacity) {
        if (!grow(flows))
            return NULL;
        found = slot_of(flows->slots, flows->capacity, key);
    }
    flows->count++;
    found->key = key;
    return found;
}

void flows_destroy(struct flows *flows)
{
    free(flows->slots);
    *flows = (struct flows){0};
}
