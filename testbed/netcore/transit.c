#include "transit.h"

#include "random.h"

#include <stdlib.h>
#include <string.h>

bool transit_init(struct transit *transit)
{
    *transit = (struct transit){
        .packets = calloc(TRANSIT_PACKETS, sizeof *transit->packets),
        .buckets = calloc(TRANSIT_PACKETS, sizeof *transit->buckets),
    };
    return transit->packets && transit->buckets;
}

void transit_destroy(struct transit *transit)
{
    free(transit->packets);
    free(transit->buckets);
    transit->packets = NULL;
    transit->buckets = NULL;
}

/* 0: not IPv4. */
static uint64_t key_of(uint32_t switch_number, const struct packet *packet)
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
    uint64_t key = switch_number;
    for (size_t at = 0; at + sizeof key <= sizeof content; at += sizeof key) {
        uint64_t word;
        memcpy(&word, content + at, sizeof word);
        key = random_draw(key ^ word, at);
    }
    return key | 1;
}

static struct transit_bucket *bucket_of(struct transit *transit, uint64_t key)
{
    return &transit->buckets[key / 2 % TRANSIT_PACKETS];
}

/* Take the packet behind `before` (NULL: the first) out of a bucket. */
static void take_out(struct transit_bucket *bucket, struct transit_packet *before)
{
    struct transit_packet *packet = before ? before->next : bucket->first;
    if (before)
        before->next = packet->next;
    else
        bucket->first = packet->next;
    if (bucket->last == packet)
        bucket->last = before;
    packet->key = 0;
}

void transit_enter(struct transit *transit, uint32_t switch_number, const struct packet *packet, int64_t due_ns)
{
    uint64_t key = key_of(switch_number, packet);
    if (!key)
        return;
    struct transit_packet *entry = &transit->packets[transit->entered++ % TRANSIT_PACKETS];
    if (entry->key)
        take_out(bucket_of(transit, entry->key), NULL); /* the oldest of all is the first of its bucket */
    *entry = (struct transit_packet){key, due_ns, NULL};
    struct transit_bucket *bucket = bucket_of(transit, key);
    if (bucket->last)
        bucket->last->next = entry;
    else
        bucket->first = entry;
    bucket->last = entry;
}

int64_t transit_leave(struct transit *transit, uint32_t switch_number, const struct packet *packet, int64_t now_ns)
{
    uint64_t key = key_of(switch_number, packet);
    if (!key)
        return now_ns;
    struct transit_bucket *bucket = bucket_of(transit, key);
    struct transit_packet *before = NULL, *known = NULL;
    for (struct transit_packet *entry = bucket->first; entry; entry = entry->next) {
        if (entry->key != key) {
            before = entry;
            continue;
        }
        known = entry;
        take_out(bucket, before);
        if (now_ns - known->due_ns <= TRANSIT_LONGEST_NS)
            break;
    }
    if (!known)
        return now_ns;
    histogram_add(&transit->taken, now_ns - known->due_ns);
    return known->due_ns < now_ns ? known->due_ns : now_ns;
}
