/* The hash algorithms of v1model. */
#ifndef P4_HASH_H
#define P4_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint64_t hash_crc16(const uint8_t *data, size_t length);  /* CRC-16/ARC */
uint64_t hash_crc32(const uint8_t *data, size_t length);  /* IEEE 802.3 */
uint64_t hash_crc_ccitt(const uint8_t *data, size_t length); /* CRC-16/CCITT-FALSE */
uint64_t hash_xor16(const uint8_t *data, size_t length);  /* of big-endian words, an odd byte padded on the right */
uint64_t hash_identity(const uint8_t *data, size_t length); /* the first eight bytes as a big-endian number */

/* The ones' complement sum (RFC 1071) of `data`, an odd byte padded on the right. */
uint64_t hash_sum16(const uint8_t *data, size_t length);

/* crc32_after[k][b]: what CRC-32 makes of a byte b and k zero bytes after it. */
extern uint32_t crc32_after[8][256];

/* The CRC-32 after up to eight more bytes, which are a big-endian number; it begins as, and ends with, its complement. */
static inline uint32_t crc32_add(uint32_t crc, uint64_t value, unsigned bytes)
{
    uint64_t swapped = __builtin_bswap32(crc);
    uint32_t result = bytes < 4 ? crc >> 8 * bytes : 0;
    value ^= bytes < 4 ? swapped >> (32 - 8 * bytes) : swapped << (8 * bytes - 32);
    switch (bytes) {
    case 8:
        result ^= crc32_after[7][value >> 56]; /* fall through */
    case 7:
        result ^= crc32_after[6][value >> 48 & 0xff]; /* fall through */
    case 6:
        result ^= crc32_after[5][value >> 40 & 0xff]; /* fall through */
    case 5:
        result ^= crc32_after[4][value >> 32 & 0xff]; /* fall through */
    case 4:
        result ^= crc32_after[3][value >> 24 & 0xff]; /* fall through */
    case 3:
        result ^= crc32_after[2][value >> 16 & 0xff]; /* fall through */
    case 2:
        result ^= crc32_after[1][value >> 8 & 0xff]; /* fall through */
    default:
        result ^= crc32_after[0][value & 0xff];
    }
    return result;
}

/* A sum of many 128-bit numbers, as sums of their 32-bit quarters. */
typedef uint64_t hash_halves __attribute__((vector_size(16)));
struct hash_wide_sum {
    hash_halves even, odd;
};

static inline void hash_add128(struct hash_wide_sum *sum, unsigned __int128 value)
{
    hash_halves halves;
    memcpy(&halves, &value, sizeof halves);
    sum->even += halves & UINT32_MAX;
    sum->odd += halves >> 32;
}

static inline uint64_t hash_total128(const struct hash_wide_sum *sum)
{
    return sum->even[0] + sum->even[1] + sum->odd[0] + sum->odd[1];
}

/* The complement of a sum of numbers whose low bit has a weight of 2^(16 n). */
static inline uint64_t hash_csum16(uint64_t sum)
{
    sum = (sum & UINT32_MAX) + (sum >> 32);
    for (int carries = 0; carries < 3; carries++)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

#endif
