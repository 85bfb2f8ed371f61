#include "icrc.h"

#include "frame.h"

#include <string.h>

#define POLYNOMIAL UINT32_C(0xedb88320)
#define SLICES 8
#define LRH_BYTES 8 /* the ICRC begins with a local route header of all ones */
#define DONT_FRAGMENT 0x4000

static uint32_t table[SLICES][256];

__attribute__((constructor)) static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        table[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int byte = 0; byte < 256; byte++)
            table[slice][byte] = table[slice - 1][byte] >> 8 ^ table[0][table[slice - 1][byte] & 255];
}

static uint32_t load32_little(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The register of the CRC before the final inversion; slicing by 8 (Kounavis, Berry 2005). */
static uint32_t advance(uint32_t state, const uint8_t *bytes, size_t length)
{
    for (; length >= SLICES; bytes += SLICES, length -= SLICES) {
        uint32_t low = load32_little(bytes) ^ state, high = load32_little(bytes + 4);
        state = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
                table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    while (length--)
        state = state >> 8 ^ table[0][(state ^ *bytes++) & 255];
    return state;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLD_BYTES 64

/* Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction (Intel, 2009): four 128-bit lanes
 * are folded by x^512, then into one by x^128; that one is reduced by the table. Constants: x^n mod P, reflected. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t advance_by_clmul(uint32_t state, const uint8_t *bytes,
                                                                           size_t length)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* x^(512-32), x^(512+32) */
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* x^(128-32), x^(128+32) */
    __m128i lane[4];
    for (int i = 0; i < 4; i++)
        lane[i] = _mm_loadu_si128((const __m128i *)bytes + i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)state));
    for (bytes += FOLD_BYTES, length -= FOLD_BYTES; length >= FOLD_BYTES; bytes += FOLD_BYTES, length -= FOLD_BYTES)
        for (int i = 0; i < 4; i++) {
            __m128i low = _mm_clmulepi64_si128(lane[i], by_512, 0x00);
            __m128i high = _mm_clmulepi64_si128(lane[i], by_512, 0x11);
            lane[i] = _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)bytes + i));
        }
    __m128i one = lane[0];
    for (int i = 1; i < 4; i++) {
        __m128i low = _mm_clmulepi64_si128(one, by_128, 0x00);
        __m128i high = _mm_clmulepi64_si128(one, by_128, 0x11);
        one = _mm_xor_si128(_mm_xor_si128(low, high), lane[i]);
    }
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)rest, one);
    return advance(advance(0, rest, sizeof rest), bytes, length);
}

static uint32_t advance_fast(uint32_t state, const uint8_t *bytes, size_t length)
{
    if (length >= 2 * FOLD_BYTES && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        return advance_by_clmul(state, bytes, length);
    return advance(state, bytes, length);
}
#else
#define advance_fast advance
#endif

uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~advance_fast(~crc, bytes, length);
}

uint32_t crc32_update_portable(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~advance(~crc, bytes, length);
}

uint32_t icrc(const uint8_t *ipv4, size_t ipv4_bytes, const uint8_t *udp, const uint8_t *data, size_t length)
{
    uint8_t head[LRH_BYTES + 60 + UDP_BYTES + BTH_BYTES];
    uint8_t *ip = head + LRH_BYTES, *end = ip + ipv4_bytes;
    memset(head, 0xff, LRH_BYTES);
    memcpy(ip, ipv4, ipv4_bytes);
    memcpy(end, udp, UDP_BYTES);
    memcpy(end + UDP_BYTES, data, BTH_BYTES);
    /* What routers may change counts as ones: ToS, TTL, both checksums, and the BTH's FECN, BECN byte. */
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
    end[6] = end[7] = 0xff;
    end[UDP_BYTES + 4] = 0xff;
    end += UDP_BYTES + BTH_BYTES;
    uint32_t crc = crc32_update(0, head, (size_t)(end - head));
    return crc32_update(crc, data + BTH_BYTES, length - BTH_BYTES);
}

uint32_t icrc_of_flow(const struct icrc_flow *flow, uint16_t id, const uint8_t *data, size_t length)
{
    uint8_t ip[IPV4_BYTES] = {0x45}, udp[UDP_BYTES];
    uint16_t udp_bytes = (uint16_t)(UDP_BYTES + length + ICRC_BYTES);
    store16(ip + 2, (uint16_t)(IPV4_BYTES + udp_bytes));
    store16(ip + 4, id);
    store16(ip + 6, DONT_FRAGMENT);
    ip[9] = PROTOCOL_UDP;
    store32(ip + 12, flow->source_ip);
    store32(ip + 16, flow->target_ip);
    store16(udp, flow->source_port);
    store16(udp + 2, flow->target_port);
    store16(udp + 4, udp_bytes);
    return icrc(ip, sizeof ip, udp, data, length);
}

/* a x b modulo the polynomial; bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a & UINT32_C(0x80000000))
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* x^(8 bytes) modulo the polynomial: what that many zero bytes do to the register. */
static uint32_t shift_by_bytes(size_t bytes)
{
    uint32_t power = UINT32_C(0x80000000) >> 8, result = UINT32_C(0x80000000);
    for (; bytes; bytes >>= 1, power = multiply(power, power))
        if (bytes & 1)
            result = multiply(result, power);
    return result;
}

void icrc_id_changes(struct icrc_id_changes *changes, size_t length)
{
    uint32_t shift = shift_by_bytes(IPV4_BYTES - 6 + UDP_BYTES + length);
    for (int bit = 0; bit < 16; bit++) {
        uint8_t id[2];
        store16(id, (uint16_t)(1u << bit));
        changes->bit[bit] = multiply(advance(0, id, sizeof id), shift);
    }
}

uint32_t icrc_id_change(const struct icrc_id_changes *changes, uint16_t flipped)
{
    uint32_t change = 0;
    for (int bit = 0; bit < 16; bit++)
        if (flipped >> bit & 1)
            change ^= changes->bit[bit];
    return change;
}
