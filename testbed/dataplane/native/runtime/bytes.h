/* Big-endian bytes and bit strings to native words and back; every size is a constant of the generated code. */
#ifndef P4_BYTES_H
#define P4_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "only little-endian machines are supported"
#endif

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

static inline uint16_t load_be16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_bswap16(value);
}

static inline uint32_t load_be32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t load_be64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return __builtin_bswap64(value);
}

static inline void store_be16(uint8_t *bytes, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void store_be32(uint8_t *bytes, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void store_be64(uint8_t *bytes, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(bytes, &value, sizeof value);
}

/* At most eight bytes. */
static inline uint64_t load_be(const uint8_t *bytes, unsigned count)
{
    switch (count) {
    case 0:
        return 0;
    case 1:
        return bytes[0];
    case 2:
        return load_be16(bytes);
    case 3:
        return (uint64_t)load_be16(bytes) << 8 | bytes[2];
    case 4:
        return load_be32(bytes);
    case 5:
        return (uint64_t)load_be32(bytes) << 8 | bytes[4];
    case 6:
        return (uint64_t)load_be32(bytes) << 16 | load_be16(bytes + 4);
    case 7:
        return (uint64_t)load_be32(bytes) << 24 | (uint64_t)load_be16(bytes + 4) << 8 | bytes[6];
    default:
        return load_be64(bytes);
    }
}

static inline void store_be(uint8_t *bytes, unsigned count, uint64_t value)
{
    switch (count) {
    case 0:
        break;
    case 1:
        bytes[0] = (uint8_t)value;
        break;
    case 2:
        store_be16(bytes, (uint16_t)value);
        break;
    case 3:
        store_be16(bytes, (uint16_t)(value >> 8));
        bytes[2] = (uint8_t)value;
        break;
    case 4:
        store_be32(bytes, (uint32_t)value);
        break;
    case 5:
        store_be32(bytes, (uint32_t)(value >> 8));
        bytes[4] = (uint8_t)value;
        break;
    case 6:
        store_be32(bytes, (uint32_t)(value >> 16));
        store_be16(bytes + 4, (uint16_t)value);
        break;
    case 7:
        store_be32(bytes, (uint32_t)(value >> 24));
        store_be16(bytes + 4, (uint16_t)(value >> 8));
        bytes[6] = (uint8_t)value;
        break;
    default:
        store_be64(bytes, value);
    }
}

static inline u128 load_be128(const uint8_t *bytes, unsigned count)
{
    return count <= 8 ? load_be(bytes, count) : (u128)load_be(bytes, count - 8) << 64 | load_be(bytes + count - 8, 8);
}

static inline void store_be128(uint8_t *bytes, unsigned count, u128 value)
{
    if (count <= 8) {
        store_be(bytes, count, (uint64_t)value);
    } else {
        store_be(bytes, count - 8, (uint64_t)(value >> 64));
        store_be(bytes + count - 8, 8, (uint64_t)value);
    }
}

/* `width` (at most 64) bits from bit `offset`, counted from the most significant bit of the first byte. */
static inline uint64_t load_bits(const uint8_t *bytes, unsigned offset, unsigned width)
{
    uint64_t value = 0;
    while (width > 0) {
        unsigned skip = offset % 8, take = width < 8 - skip ? width : 8 - skip;
        value = value << take | ((bytes[offset / 8] >> (8 - skip - take)) & ((1u << take) - 1));
        offset += take;
        width -= take;
    }
    return value;
}

static inline u128 load_bits128(const uint8_t *bytes, unsigned offset, unsigned width)
{
    return width <= 64 ? load_bits(bytes, offset, width)
                       : (u128)load_bits(bytes, offset, width - 64) << 64 | load_bits(bytes, offset + width - 64, 64);
}

static inline void store_bits(uint8_t *bytes, unsigned offset, unsigned width, uint64_t value)
{
    while (width > 0) {
        unsigned skip = offset % 8, take = width < 8 - skip ? width : 8 - skip;
        unsigned shift = 8 - skip - take, mask = ((1u << take) - 1) << shift;
        unsigned bits = (unsigned)(value >> (width - take)) << shift;
        bytes[offset / 8] = (uint8_t)((bytes[offset / 8] & ~mask) | (bits & mask));
        offset += take;
        width -= take;
    }
}

static inline void store_bits128(uint8_t *bytes, unsigned offset, unsigned width, u128 value)
{
    if (width > 64)
        store_bits(bytes, offset, width - 64, (uint64_t)(value >> 64));
    store_bits(bytes, width > 64 ? offset + width - 64 : offset, width > 64 ? 64 : width, (uint64_t)value);
}

/* Shifts by any count. */
/* A function, since compilers join comparisons of fields that lie side by side: into one load of more than was stored at once,
 * for which the processor has to wait, and for which the fields have to be in memory. */
static inline bool equal(uint64_t a, uint64_t b)
{
    return a == b;
}

static inline uint64_t shl64(uint64_t value, uint64_t count)
{
    return count < 64 ? value << count : 0;
}

static inline u128 shl128(u128 value, uint64_t count)
{
    return count < 128 ? value << count : 0;
}

static inline uint64_t shr_u64(uint64_t value, uint64_t count)
{
    return count < 64 ? value >> count : 0;
}

static inline int64_t shr_i64(int64_t value, uint64_t count)
{
    return value >> (count < 63 ? count : 63);
}

static inline u128 shr_u128(u128 value, uint64_t count)
{
    return count < 128 ? value >> count : 0;
}

static inline i128 shr_i128(i128 value, uint64_t count)
{
    return value >> (count < 127 ? count : 127);
}

static inline uint64_t clamp_u64(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int64_t clamp_i64(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline u128 clamp_u128(u128 value, u128 low, u128 high)
{
    return value < low ? low : value > high ? high : value;
}

static inline i128 clamp_i128(i128 value, i128 low, i128 high)
{
    return value < low ? low : value > high ? high : value;
}

/* By zero it is zero. */
static inline uint64_t divide_u64(uint64_t value, uint64_t divisor)
{
    return divisor ? value / divisor : 0;
}

static inline uint64_t remainder_u64(uint64_t value, uint64_t divisor)
{
    return divisor ? value % divisor : 0;
}

static inline u128 divide_u128(u128 value, u128 divisor)
{
    return divisor ? value / divisor : 0;
}

static inline u128 remainder_u128(u128 value, u128 divisor)
{
    return divisor ? value % divisor : 0;
}

/* The low `width` bits as a signed number. */
static inline int64_t signed64(uint64_t value, unsigned width)
{
    return (int64_t)(value << (64 - width)) >> (64 - width);
}

static inline i128 signed128(u128 value, unsigned width)
{
    return (i128)(value << (128 - width)) >> (128 - width);
}

/* A number as a signed field of `width` bits keeps it: cut to the width only where it does not fit. */
static inline int64_t fit_i64(int64_t value, unsigned width)
{
    bool fits = value >= -(INT64_C(1) << (width - 1)) && (uint64_t)(value < 0 ? 0 : value) >> width == 0;
    return fits ? value : signed64((uint64_t)value, width);
}

static inline i128 fit_i128(i128 value, unsigned width)
{
    bool fits = value >= -((i128)1 << (width - 1)) && (u128)(value < 0 ? 0 : value) >> width == 0;
    return fits ? value : signed128((u128)value, width);
}

#endif
