#include "random.h"

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15)
#define TWO_TO_64 18446744073709551616.0

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t random_draw(uint64_t key, uint64_t n)
{
    return mix(key + (n + 1) * GOLDEN_GAMMA);
}

uint64_t random_key(uint64_t seed, enum random_stream stream, uint64_t index)
{
    return random_draw(random_draw(random_draw(seed, 0), stream), index);
}

uint64_t random_threshold(double probability)
{
    if (!(probability > 0))
        return 0;
    double scaled = probability * TWO_TO_64;
    return scaled >= TWO_TO_64 ? UINT64_MAX : (uint64_t)scaled;
}
