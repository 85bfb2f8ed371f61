/* Trials of a program, for tests and benchmarks. */
#ifndef P4_TRIALS_H
#define P4_TRIALS_H

#include "abi.h"

#define MUTANT_BYTES 4096

struct trial_frame {
    uint32_t port;
    uint32_t length;
    const uint8_t *data;
};

struct mutant {
    uint32_t port;
    uint32_t length;
    uint8_t data[MUTANT_BYTES];
};

/* Make mutants of the frames, drawn from the stream that `state` is at. */
void trials_mutate(const struct trial_frame *frames, uint32_t frame_count, uint64_t *state, struct mutant *mutants,
                   uint32_t count);

/* Have a program forward copies of the frames `count` times, with no switch around it; ns of CPU time, 0: no memory. */
uint64_t trials_bench(const struct p4_program *program, struct p4_instance *instance, const struct trial_frame *frames,
                      uint32_t frame_count, uint64_t count);

#endif
