/* Max-min fair rates of flows over links: no flow can have more without another, that has no more, having less.
 *
 * Progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2): the link with the least
 * equal share for those that wait on it gives it to all of them, and is done; what they take is gone elsewhere.
 */
#ifndef NETCORE_SHARING_H
#define NETCORE_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* paths: `flows` rows of `longest` links each, which are numbers below `links`; `links` fills up shorter ones. Link
 * 2 i comes back as 2 i + 1 and the other way round, with `back` of each flow's rate. capacity: of each link. rates: of
 * each flow, in its unit. False: there is no memory. */
bool sharing_max_min(const int64_t *paths, size_t flows, size_t longest, const double *back, const double *capacity,
                     size_t links, double *rates);

#endif
