/* The packets of a run that a socket sends: what they have in common, and each of them. */
#ifndef NETCORE_OUTGOING_H
#define NETCORE_OUTGOING_H

#include "fabric.h"

#define HEADERS_BYTES (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)

struct outgoing {
    struct fabric *fabric;
    struct socket *socket;
    uint8_t headers[HEADERS_BYTES];
    uint64_t sum; /* of the IPv4 header, without length and identification */
    uint16_t flags;
    bool classified;
};

/* A header of RoCE or of a transport over plain UDP, and the segment that goes behind it. */
struct outgoing_segment {
    const uint8_t *header;
    size_t header_bytes;
    const uint8_t *bytes;
    size_t size;
};

/* Write the headers down to UDP that all packets of a run from a socket have; false: nobody has the address. */
bool outgoing_address(struct outgoing *outgoing, struct socket *socket, uint32_t target_ip, uint16_t source_port, uint8_t tos);

/* The packet of number `index` in its run, with padding and ICRC; it refers to its segment, which lies in `payload`. NULL: no
 * memory. */
struct packet *outgoing_roce(struct outgoing *outgoing, size_t index, struct outgoing_segment segment, struct payload *payload);

/* The same without padding and ICRC, with a copy of the segment. */
struct packet *outgoing_plain(struct outgoing *outgoing, size_t index, struct outgoing_segment segment);

#endif
