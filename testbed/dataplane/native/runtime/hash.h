/* The hash algorithms of v1model. */
#ifndef P4_HASH_H
#define P4_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_crc16(const uint8_t *data, size_t length);  /* CRC-16/ARC */
uint64_t hash_crc32(const uint8_t *data, size_t length);  /* IEEE 802.3 */
uint64_t hash_crc_ccitt(const uint8_t *data, size_t length); /* CRC-16/CCITT-FALSE */
uint64_t hash_xor16(const uint8_t *data, size_t length);  /* of big-endian words, an odd byte padded on the right */
uint64_t hash_identity(const uint8_t *data, size_t length); /* the first eight bytes as a big-endian number */

/* The ones' complement sum (RFC 1071) of `data`, an odd byte padded on the right. */
uint64_t hash_sum16(const uint8_t *data, size_t length);

/* The complement of a sum of numbers whose low bit has a weight of 2^(16 n). */
static inline uint64_t hash_csum16(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

#endif
