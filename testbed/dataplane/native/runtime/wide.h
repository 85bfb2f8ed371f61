/* Two's complement integers of P4_WIDE_LIMBS 64-bit limbs, least significant first, for what 128 bits do not hold. */
#ifndef P4_WIDE_H
#define P4_WIDE_H

#include "bytes.h"

#define P4_WIDE_LIMBS 33 /* MAX_BITS of the generator's numbers.py */

struct wide {
    uint64_t limb[P4_WIDE_LIMBS];
};

static inline struct wide wide_of_i128(i128 value)
{
    struct wide result;
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        result.limb[i] = i == 0 ? (uint64_t)value : i == 1 ? (uint64_t)(value >> 64) : value < 0 ? UINT64_MAX : 0;
    return result;
}

static inline struct wide wide_of_u128(u128 value)
{
    struct wide result = {{(uint64_t)value, (uint64_t)(value >> 64)}};
    return result;
}

static inline u128 wide_low(struct wide value)
{
    return (u128)value.limb[1] << 64 | value.limb[0];
}

static inline bool wide_negative(struct wide value)
{
    return value.limb[P4_WIDE_LIMBS - 1] >> 63;
}

static inline struct wide wide_add(struct wide a, struct wide b)
{
    uint64_t carry = 0;
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++) {
        u128 sum = (u128)a.limb[i] + b.limb[i] + carry;
        a.limb[i] = (uint64_t)sum;
        carry = (uint64_t)(sum >> 64);
    }
    return a;
}

static inline struct wide wide_not(struct wide a)
{
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        a.limb[i] = ~a.limb[i];
    return a;
}

static inline struct wide wide_sub(struct wide a, struct wide b)
{
    return wide_add(wide_add(a, wide_not(b)), wide_of_u128(1));
}

static inline struct wide wide_mul(struct wide a, struct wide b)
{
    struct wide result = {{0}};
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++) {
        uint64_t carry = 0;
        for (unsigned j = 0; i + j < P4_WIDE_LIMBS; j++) {
            u128 sum = (u128)a.limb[i] * b.limb[j] + result.limb[i + j] + carry;
            result.limb[i + j] = (uint64_t)sum;
            carry = (uint64_t)(sum >> 64);
        }
    }
    return result;
}

static inline struct wide wide_and(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        a.limb[i] &= b.limb[i];
    return a;
}

static inline struct wide wide_or(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        a.limb[i] |= b.limb[i];
    return a;
}

static inline struct wide wide_xor(struct wide a, struct wide b)
{
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        a.limb[i] ^= b.limb[i];
    return a;
}

static inline struct wide wide_shl(struct wide a, uint64_t count)
{
    struct wide result = {{0}};
    uint64_t limbs = count / 64, bits = count % 64;
    for (uint64_t i = limbs; i < P4_WIDE_LIMBS; i++) {
        result.limb[i] = a.limb[i - limbs] << bits;
        if (bits && i > limbs)
            result.limb[i] |= a.limb[i - limbs - 1] >> (64 - bits);
    }
    return result;
}

static inline struct wide wide_shr(struct wide a, uint64_t count)
{
    struct wide result;
    uint64_t sign = wide_negative(a) ? UINT64_MAX : 0, limbs = count / 64, bits = count % 64;
    for (uint64_t i = 0; i < P4_WIDE_LIMBS; i++) {
        uint64_t low = limbs < P4_WIDE_LIMBS - i ? a.limb[i + limbs] : sign;
        uint64_t high = limbs < P4_WIDE_LIMBS - i - 1 ? a.limb[i + limbs + 1] : sign;
        result.limb[i] = bits ? low >> bits | high << (64 - bits) : low;
    }
    return result;
}

static inline int wide_compare(struct wide a, struct wide b)
{
    if (wide_negative(a) != wide_negative(b))
        return wide_negative(a) ? -1 : 1;
    for (unsigned i = P4_WIDE_LIMBS; i-- > 0;)
        if (a.limb[i] != b.limb[i])
            return a.limb[i] < b.limb[i] ? -1 : 1;
    return 0;
}

static inline struct wide wide_truncate(struct wide a, unsigned width)
{
    for (unsigned i = 0; i < P4_WIDE_LIMBS; i++)
        a.limb[i] &= width <= 64 * i ? 0 : width >= 64 * (i + 1) ? UINT64_MAX : (UINT64_C(1) << (width - 64 * i)) - 1;
    return a;
}

static inline struct wide wide_signed(struct wide a, unsigned width)
{
    return wide_shr(wide_shl(a, 64 * P4_WIDE_LIMBS - width), 64 * P4_WIDE_LIMBS - width);
}

/* Long division of non-negative numbers; by zero both results are zero. */
static inline void wide_split(struct wide a, struct wide b, struct wide *quotient, struct wide *remainder)
{
    *quotient = *remainder = (struct wide){{0}};
    if (wide_compare(b, *quotient) <= 0)
        return;
    for (unsigned i = 64 * P4_WIDE_LIMBS; i-- > 0;) {
        *remainder = wide_shl(*remainder, 1);
        remainder->limb[0] |= (a.limb[i / 64] >> (i % 64)) & 1;
        if (wide_compare(*remainder, b) >= 0) {
            *remainder = wide_sub(*remainder, b);
            quotient->limb[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
}

static inline struct wide divide_wide(struct wide a, struct wide b)
{
    struct wide quotient, remainder;
    wide_split(a, b, &quotient, &remainder);
    return quotient;
}

static inline struct wide remainder_wide(struct wide a, struct wide b)
{
    struct wide quotient, remainder;
    wide_split(a, b, &quotient, &remainder);
    return remainder;
}

static inline struct wide wide_clamp(struct wide value, struct wide low, struct wide high)
{
    return wide_compare(value, low) < 0 ? low : wide_compare(value, high) > 0 ? high : value;
}

static inline struct wide wide_words(const uint64_t *words, unsigned count)
{
    struct wide result = {{0}};
    memcpy(result.limb, words, count * sizeof *words);
    return result;
}

static inline struct wide wide_load(const uint8_t *bytes, unsigned offset, unsigned width)
{
    struct wide result = {{0}};
    for (unsigned i = 0; width > 64 * i; i++) {
        unsigned take = width - 64 * i < 64 ? width - 64 * i : 64;
        result.limb[i] = load_bits(bytes, offset + width - 64 * i - take, take);
    }
    return result;
}

static inline void wide_store(uint8_t *bytes, unsigned offset, unsigned width, struct wide value)
{
    for (unsigned i = 0; width > 64 * i; i++) {
        unsigned take = width - 64 * i < 64 ? width - 64 * i : 64;
        store_bits(bytes, offset + width - 64 * i - take, take, value.limb[i]);
    }
}

static inline struct wide fit_wide(struct wide value, unsigned width)
{
    struct wide top = wide_shr(value, width), below = wide_shr(value, width - 1);
    bool fits = wide_compare(top, wide_of_u128(0)) == 0 || wide_compare(below, wide_of_i128(-1)) == 0;
    return fits ? value : wide_signed(value, width);
}

#endif
