/* Random numbers by counter: draw n of a stream is a pure function of (seed, stream, index, n).
 *
 * So the 1,000th packet of a link meets the same fate whatever happened on other links. The generator is SplitMix64
 * (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), entered at position n.
 */
#ifndef NETCORE_RANDOM_H
#define NETCORE_RANDOM_H

#include <stdint.h>

enum random_stream {
    RANDOM_LOSS,
    RANDOM_LOSS_START, /* the state in which a Gilbert-Elliott chain begins */
    RANDOM_JITTER,
    RANDOM_DUPLICATE,
    RANDOM_CORRUPT,
    RANDOM_CORRUPT_PLACE,
    RANDOM_ECN,
    RANDOM_SPRAY,
    RANDOM_STREAMS
};

/* The key of one stream of one link or port. */
uint64_t random_key(uint64_t seed, enum random_stream stream, uint64_t index);

/* Draw `n` (from 0) of the stream `key`: uniform over 64 bits. */
uint64_t random_draw(uint64_t key, uint64_t n);

/* A probability as the threshold of `random_chance`. Values outside 0..1 are brought to the nearer end. */
uint64_t random_threshold(double probability);

/* Whether a draw falls within a probability; a threshold of UINT64_MAX always does. */
static inline int random_chance(uint64_t draw, uint64_t threshold)
{
    return draw < threshold || threshold == UINT64_MAX;
}

/* A uniform number below `bound` from a draw. */
static inline uint64_t random_below(uint64_t draw, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)draw * bound) >> 64);
}

#endif
