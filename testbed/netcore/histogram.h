/* A histogram of durations on a logarithmic scale: percentiles to within 1/16 of their value. */
#ifndef NETCORE_HISTOGRAM_H
#define NETCORE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS 4 /* 16 buckets for each doubling */
#define HISTOGRAM_DOUBLINGS 40 /* up to 2^44 ns: 5 hours */
#define HISTOGRAM_BUCKETS (HISTOGRAM_DOUBLINGS << HISTOGRAM_STEP_BITS)

struct histogram {
    uint64_t count;
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

/* Negative values count as 0. */
void histogram_add(struct histogram *histogram, int64_t value);

/* The nearest-rank percentile (0 to 100), as the upper end of its bucket; -1: nothing was added. */
int64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
