/* Trials of a program: mutants of given frames, and copies of them against the clock. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include "trials.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MUTATIONS 8
#define RING 256 /* packets in memory at once: a switch's working set, not one hot cache line */

static uint64_t draw(uint64_t *state)
{
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static uint32_t below(uint64_t *state, uint32_t limit)
{
    return limit ? (uint32_t)(draw(state) % limit) : 0;
}

static uint32_t mutate(uint64_t *state, uint8_t *frame, uint32_t length, const struct trial_frame *other)
{
    static const uint8_t odd[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    uint32_t at = below(state, length), more = below(state, 64);
    switch (below(state, 7)) {
    case 0:
        if (length)
            frame[at] ^= (uint8_t)(1u << below(state, 8));
        return length;
    case 1:
        if (length)
            frame[at] = (uint8_t)draw(state);
        return length;
    case 2:
        if (length)
            frame[at] = odd[below(state, sizeof odd)];
        return length;
    case 3:
        return at;
    case 4:
        if (length + more > MUTANT_BYTES)
            return length;
        for (uint32_t i = 0; i < more; i++)
            frame[length + i] = (uint8_t)draw(state);
        return length + more;
    case 5: /* the end of another frame */
        if (at + other->length > MUTANT_BYTES)
            return length;
        if (other->length)
            memcpy(frame + at, other->data, other->length);
        return at + other->length;
    default:
        for (uint32_t i = at; i < length && i < at + more; i++)
            frame[i] = (uint8_t)draw(state);
        return length;
    }
}

void trials_mutate(const struct trial_frame *frames, uint32_t frame_count, uint64_t *state, struct mutant *mutants,
                   uint32_t count)
{
    for (struct mutant *mutant = mutants; mutant < mutants + count; mutant++) {
        const struct trial_frame *base = &frames[below(state, frame_count)];
        uint32_t length = base->length < MUTANT_BYTES ? base->length : MUTANT_BYTES;
        if (length)
            memcpy(mutant->data, base->data, length);
        for (uint32_t k = below(state, MUTATIONS) + 1; k > 0; k--)
            length = mutate(state, mutant->data, length, &frames[below(state, frame_count)]);
        mutant->port = base->port;
        mutant->length = length;
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t trials_bench(const struct p4_program *program, struct p4_instance *instance, const struct trial_frame *frames,
                      uint32_t frame_count, uint64_t count)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < frame_count; i++)
        longest = frames[i].length > longest ? frames[i].length : longest;
    size_t buffer_bytes = program->headroom_bytes + longest + 1;
    size_t context_bytes = (program->context_bytes + 63) / 64 * 64;
    uint8_t *buffers = malloc(RING * buffer_bytes), *contexts = aligned_alloc(64, context_bytes * RING);
    uint64_t taken = 0;
    if (buffers && contexts) {
        uint64_t start = cpu_ns();
        for (uint64_t i = 0, next = 0; i < count; i++) {
            const struct trial_frame *frame = &frames[next];
            next = next + 1 < frame_count ? next + 1 : 0;
            struct p4_packet packet = {buffers + i % RING * buffer_bytes + program->headroom_bytes, frame->length,
                                       program->headroom_bytes, contexts + i % RING * context_bytes, 0};
            struct p4_verdict verdict;
            memcpy(packet.data, frame->data, frame->length);
            if (program->forward) {
                program->forward(instance, &packet, frame->port, (int64_t)i, &verdict);
                continue;
            }
            program->ingress(instance, &packet, frame->port, (int64_t)i, &verdict);
            struct p4_departure departure = {.now_ns = (int64_t)i};
            if (verdict.fate == P4_UNICAST)
                departure.port = verdict.port;
            else if (verdict.fate == P4_MULTICAST)
                departure.rid = 1; /* one copy */
            else
                continue;
            program->egress(instance, &packet, &departure, &verdict);
            if (verdict.fate == P4_SEND)
                program->deparse(instance, &packet);
        }
        taken = cpu_ns() - start + 1;
    }
    free(buffers);
    free(contexts);
    return taken;
}
