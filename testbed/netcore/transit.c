#include "transit.h"

#include "random.h"

#include <stdlib.h>
#include <string.h>

bool transit_init(struct transit *transit)
{
    *transit = (struct transit){.slots = calloc(TRANSIT_SLOTS, sizeof *transit->slots)};
    return transit->slots;
}

void transit_destroy(struct transit *transit)
{
    free(transit->slots);
    transit->slots = NULL;
}

/* 0: not IPv4. */
static uint64_t key_of(const struct packet *packet)
{
    const struct frame_layout *layout = &packet->layout;
    if (!layout->network)
        return 0;
    uint8_t content[IPV4_BYTES + TRANSIT_HEAD_BYTES + 4] = {0};
    const uint8_t *ipv4 = packet->frame + layout->network;
    memcpy(content, ipv4 + 2, 6);       /* total length, identification, fragment */
    content[6] = ipv4[9];               /* protocol */
    memcpy(content + 8, ipv4 + 12, 8);  /* addresses */
    uint32_t after = layout->network + IPV4_BYTES;
    uint32_t head = layout->end > after ? layout->end - after : 0;
    memcpy(content + 16, packet->frame + after, head < TRANSIT_HEAD_BYTES ? head : TRANSIT_HEAD_BYTES);
    uint64_t key = 1;
    for (size_t at = 0; at + sizeof key <= sizeof content; at += sizeof key) {
        uint64_t word;
        memcpy(&word, content + at, sizeof word);
        key = random_draw(key ^ word, at);
    }
    return key | 1;
}

void transit_enter(struct transit *transit, const struct packet *packet, int64_t due_ns)
{
    uint64_t key = key_of(packet);
    if (key)
        transit->slots[key / 2 % TRANSIT_SLOTS] = (struct transit_slot){key, due_ns};
}

int64_t transit_leave(struct transit *transit, const struct packet *packet, int64_t now_ns)
{
    uint64_t key = key_of(packet);
    if (!key)
        return now_ns;
    const struct transit_slot *slot = &transit->slots[key / 2 % TRANSIT_SLOTS];
    if (slot->key != key || now_ns - slot->due_ns > TRANSIT_LONGEST_NS)
        return now_ns;
    histogram_add(&transit->taken, now_ns - slot->due_ns);
    return slot->due_ns < now_ns ? slot->due_ns : now_ns;
}
