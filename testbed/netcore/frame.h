/* An Ethernet frame's headers: found and checked once, then trusted; Internet checksums; the ECN field.
 *
 * Only IPv4 is looked into; every other frame is carried as opaque bytes.
 */
#ifndef NETCORE_FRAME_H
#define NETCORE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETHERNET_BYTES 14
#define ETHERTYPE_IPV4 0x0800
#define IPV4_BYTES 20
#define UDP_BYTES 8
#define TCP_BYTES 20
#define IPV4_TARGET_AT 16  /* byte offsets into the headers */
#define UDP_CHECKSUM_AT 6
#define TCP_CHECKSUM_AT 16
#define FRAME_MAX_BYTES (ETHERNET_BYTES + 65535) /* the largest IPv4 packet */

#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

#define ROCE_PORT 4791  /* UDP: packets that end in an ICRC */
#define SUMS_PORT 48864 /* UDP: a job's packets for switches that add up, and their sums (p4/include/aggregation.p4) */
#define ECN_MASK 3
#define ECN_CE 3

/* Byte offsets into the frame; 0: there is none. `end` is where the IP packet ends (padding may follow). */
struct frame_layout {
    uint32_t network;
    uint32_t transport;
    uint32_t payload;
    uint32_t end;
    uint8_t protocol; /* of the transport header found: PROTOCOL_TCP, PROTOCOL_UDP or 0 */
};

/* The last bytes of a frame and their folded sum: what nobody changes need not be summed again. */
struct frame_tail {
    uint16_t bytes; /* 0: nothing is known */
    uint16_t sum;
};

static inline uint16_t load16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t load32(const uint8_t *at)
{
    return (uint32_t)load16(at) << 16 | load16(at + 2);
}

static inline void store16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void store32(uint8_t *at, uint32_t value)
{
    store16(at, (uint16_t)(value >> 16));
    store16(at + 2, (uint16_t)value);
}

/* Find the headers of a frame of `length` bytes. What does not fit or is no IPv4 counts as having no such header. */
struct frame_layout frame_parse(const uint8_t *frame, size_t length);

/* One's complement sum (RFC 1071) of `length` bytes on top of `sum`; all pieces but the last of even length. */
uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, size_t length);

/* The same, and a copy of the bytes: both in one go over memory. */
uint64_t checksum_copy(uint64_t sum, uint8_t *restrict to, const uint8_t *restrict from, size_t length);

/* The sum of the IPv4 pseudo header of a frame for `length` bytes of transport. */
uint64_t checksum_pseudo_header(const uint8_t *ipv4, uint8_t protocol, uint32_t length);

/* Fold a sum to 16 bits, not complemented, to be written with `checksum_store`. */
uint16_t checksum_fold(uint64_t sum);
void checksum_store(uint8_t *at, uint16_t folded);

/* Write the IPv4 header checksum. */
void frame_seal_network(uint8_t *frame, const struct frame_layout *layout);

/* Write the TCP or UDP checksum. The tail, where there is one, ends with the payload, and begins in it at an even place. */
void frame_seal_transport(uint8_t *frame, const struct frame_layout *layout, struct frame_tail tail);

/* Whether the TCP or UDP checksum is there and right. The tail as above. */
bool frame_transport_intact(const uint8_t *frame, const struct frame_layout *layout, struct frame_tail tail);

/* Write into IPv4 and UDP headers that the frame ends after `length` bytes, which are not less than the headers; the UDP
 * checksum becomes 0: there is none. */
void frame_cut(uint8_t *frame, const struct frame_layout *layout, uint32_t length);

/* Whether it is an IPv4 packet with Congestion Experienced. */
static inline bool frame_congested(const uint8_t *frame, size_t length)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    return length >= ETHERNET_BYTES + IPV4_BYTES && (ip[1] & ECN_MASK) == ECN_CE && ip[0] >> 4 == 4 &&
           load16(frame + 12) == ETHERTYPE_IPV4;
}

/* Set Congestion Experienced on an ECN-capable packet (RFC 3168); false: it is not ECN-capable, or was marked. */
bool frame_mark_congestion(uint8_t *frame, const struct frame_layout *layout);

#endif
