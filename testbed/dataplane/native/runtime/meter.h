/* Two-rate three-colour marking (RFC 2698, colour-blind); buckets start full. Without rates everything is green. */
#ifndef P4_METER_H
#define P4_METER_H

#include "abi.h"

enum meter_colour { METER_GREEN, METER_YELLOW, METER_RED };

struct meter {
    struct p4_rates rates;
    double committed, peak; /* tokens */
    int64_t last_ns;
    bool configured;
};

static inline void meter_configure(struct meter *meter, const struct p4_rates *rates)
{
    *meter = (struct meter){.rates = *rates, .committed = (double)rates->committed_burst,
                            .peak = (double)rates->peak_burst, .last_ns = INT64_MIN, .configured = true};
}

static inline enum meter_colour meter_run(struct meter *meter, int64_t now_ns, uint64_t amount)
{
    if (!meter->configured)
        return METER_GREEN;
    if (meter->last_ns != INT64_MIN && now_ns > meter->last_ns) {
        double us = (double)(now_ns - meter->last_ns) / 1000;
        double committed = meter->committed + us * meter->rates.committed_per_us;
        double peak = meter->peak + us * meter->rates.peak_per_us;
        meter->committed = committed < (double)meter->rates.committed_burst ? committed : (double)meter->rates.committed_burst;
        meter->peak = peak < (double)meter->rates.peak_burst ? peak : (double)meter->rates.peak_burst;
    }
    meter->last_ns = now_ns;
    if (meter->peak < (double)amount)
        return METER_RED;
    meter->peak -= (double)amount;
    if (meter->committed < (double)amount)
        return METER_YELLOW;
    meter->committed -= (double)amount;
    return METER_GREEN;
}

#endif
