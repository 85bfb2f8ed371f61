#include "histogram.h"

#define STEPS (1 << HISTOGRAM_STEP_BITS)

static unsigned bucket_of(uint64_t value)
{
    if (value < STEPS)
        return (unsigned)value;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
    unsigned bucket = ((doubling + 1) << HISTOGRAM_STEP_BITS) + ((value >> doubling) & (STEPS - 1));
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static int64_t upper_end(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket;
    unsigned doubling = (bucket >> HISTOGRAM_STEP_BITS) - 1;
    return ((int64_t)(STEPS + (bucket & (STEPS - 1)) + 1) << doubling) - 1;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    histogram->buckets[bucket_of(value > 0 ? (uint64_t)value : 0)]++;
    histogram->count++;
}

int64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    if (!histogram->count)
        return -1;
    double exact = percent / 100 * (double)histogram->count;
    uint64_t rank = (uint64_t)exact, seen = 0;
    if ((double)rank < exact || rank == 0)
        rank++;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= rank)
            return upper_end(bucket);
    }
    return upper_end(HISTOGRAM_BUCKETS - 1);
}
