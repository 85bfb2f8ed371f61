#include "clock.h"

#include <time.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_realtime_offset_ns(void)
{
    return read_ns(CLOCK_REALTIME) - read_ns(CLOCK_MONOTONIC);
}
