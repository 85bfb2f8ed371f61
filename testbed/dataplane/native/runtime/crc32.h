/* CRC-32 (IEEE 802.3) over many bytes, by tables or by the processor's multiplication; for the core and for programs. */
#ifndef P4_CRC32_H
#define P4_CRC32_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLYNOMIAL UINT32_C(0xedb88320)
#define CRC32_SLICES 8

/* table[k][b]: what a byte b and k zero bytes after it make of the register. */
typedef uint32_t crc32_table[CRC32_SLICES][256];

static inline void crc32_fill(crc32_table table)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32_POLYNOMIAL : crc >> 1;
        table[0][byte] = crc;
    }
    for (int slice = 1; slice < CRC32_SLICES; slice++)
        for (int byte = 0; byte < 256; byte++)
            table[slice][byte] = table[slice - 1][byte] >> 8 ^ table[0][table[slice - 1][byte] & 255];
}

static inline uint32_t crc32_load(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The register of the CRC before the final inversion; slicing by 8 (Kounavis, Berry 2005). */
static inline uint32_t crc32_by_table(crc32_table table, uint32_t state, const uint8_t *bytes, size_t length)
{
    for (; length >= CRC32_SLICES; bytes += CRC32_SLICES, length -= CRC32_SLICES) {
        uint32_t low = crc32_load(bytes) ^ state, high = crc32_load(bytes + 4);
        state = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
                table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    while (length--)
        state = state >> 8 ^ table[0][(state ^ *bytes++) & 255];
    return state;
}

#if defined(__x86_64__)
#include <wmmintrin.h> /* not immintrin.h: that takes longer to read than all of the runtime to compile */

#define CRC32_FOLD_BYTES 64

/* Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction (Intel, 2009): four 128-bit lanes
 * are folded by x^512, then into one by x^128; that one is reduced by the table. Constants: x^n mod P, reflected. */
__attribute__((target("pclmul,sse4.1"))) static inline uint32_t
crc32_by_clmul(crc32_table table, uint32_t state, const uint8_t *bytes, size_t length)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* x^(512-32), x^(512+32) */
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* x^(128-32), x^(128+32) */
    __m128i lane[4];
    for (int i = 0; i < 4; i++)
        lane[i] = _mm_loadu_si128((const __m128i *)bytes + i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)state));
    size_t done = CRC32_FOLD_BYTES;
    for (; length - done >= CRC32_FOLD_BYTES; done += CRC32_FOLD_BYTES)
        for (int i = 0; i < 4; i++) {
            __m128i low = _mm_clmulepi64_si128(lane[i], by_512, 0x00);
            __m128i high = _mm_clmulepi64_si128(lane[i], by_512, 0x11);
            __m128i next = _mm_loadu_si128((const __m128i *)(bytes + done) + i);
            lane[i] = _mm_xor_si128(_mm_xor_si128(low, high), next);
        }
    __m128i one = lane[0];
    for (int i = 1; i < 4; i++) {
        __m128i low = _mm_clmulepi64_si128(one, by_128, 0x00);
        __m128i high = _mm_clmulepi64_si128(one, by_128, 0x11);
        one = _mm_xor_si128(_mm_xor_si128(low, high), lane[i]);
    }
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, one);
    return crc32_by_table(table, crc32_by_table(table, 0, rest, sizeof rest), bytes + done, length - done);
}

static inline uint32_t crc32_advance(crc32_table table, uint32_t state, const uint8_t *bytes, size_t length)
{
    if (length >= 2 * CRC32_FOLD_BYTES && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        return crc32_by_clmul(table, state, bytes, length);
    return crc32_by_table(table, state, bytes, length);
}
#else
#define crc32_advance crc32_by_table
#endif

#endif
