/* Which MAC address is behind an IPv4 address, as every host's neighbour table has it. */
#ifndef NETCORE_ADDRESSES_H
#define NETCORE_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

struct neighbour {
    uint32_t ip;
    bool known;
    uint8_t mac[6];
};

struct addresses {
    struct neighbour *slots; /* a power of two, at most half of them taken */
    uint32_t capacity, count;
};

/* Enter an address, in place of what was known of it. False: no memory. */
bool addresses_add(struct addresses *addresses, uint32_t ip, const uint8_t *mac);

/* Its MAC address; NULL: nobody has it. */
const uint8_t *addresses_find(const struct addresses *addresses, uint32_t ip);
void addresses_free(struct addresses *addresses);

#endif
