/* Which host has an IPv4 address. */
#ifndef NETCORE_ADDRESSES_H
#define NETCORE_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

struct fabric_port;

struct addresses {
    struct fabric_port **slots; /* a power of two, at most half of them taken */
    uint32_t capacity, count;
};

/* Enter a port under its present address. False: no memory. */
bool addresses_add(struct addresses *addresses, struct fabric_port *port);

/* NULL: nobody has it. */
struct fabric_port *addresses_find(const struct addresses *addresses, uint32_t ip);
void addresses_free(struct addresses *addresses);

#endif
