/* The RoCE flows that come to a socket, by source and queue pair: how far each has come, and with which ToS. */
#ifndef NETCORE_FLOWS_H
#define NETCORE_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

struct arrived;

struct flow {
    uint64_t key;        /* 0: there is none */
    uint32_t next;       /* PSN after the furthest that came */
    uint8_t tos;         /* of the last packet */
    struct arrived *run; /* that its next packet may join ... */
    uint64_t turn;       /* ... unless the socket had this turn since */
};

struct flows {
    struct flow *slots; /* a power of two, at most half of them taken */
    uint32_t capacity, count;
};

/* The flow of a queue pair; NULL: it is new, and there is no memory for it. A new one has nothing but its key. */
struct flow *flows_find(struct flows *flows, uint32_t source_ip, uint32_t queue_pair);
void flows_destroy(struct flows *flows);

#endif
