/* The clocks of the kernel. Nothing below the fabric's loop reads them: time is handed in. */
#ifndef NETCORE_CLOCK_H
#define NETCORE_CLOCK_H

#include <stdint.h>

#define NS_PER_S INT64_C(1000000000)

/* CLOCK_MONOTONIC. */
int64_t clock_monotonic_ns(void);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, now. */
int64_t clock_realtime_offset_ns(void);

#endif
