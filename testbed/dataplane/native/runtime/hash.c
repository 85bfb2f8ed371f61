/* CRC-32 as crc32.h has it, the other CRCs by tables, a byte a step; the sum by four. */
#include "hash.h"

#include "bytes.h"
#include "crc32.h"

crc32_table crc32_after;
static uint32_t crc16_table[256], ccitt_table[256];

static uint32_t reflected_step(uint32_t crc, uint32_t polynomial)
{
    for (int bit = 0; bit < 8; bit++)
        crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
    return crc;
}

__attribute__((constructor)) static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        crc16_table[i] = reflected_step(i, 0xa001);
        uint32_t ccitt = i << 8;
        for (int bit = 0; bit < 8; bit++)
            ccitt = (ccitt & 0x8000 ? ccitt << 1 ^ 0x1021 : ccitt << 1) & 0xffff;
        ccitt_table[i] = ccitt;
    }
    crc32_fill(crc32_after);
}

uint64_t hash_crc16(const uint8_t *data, size_t length)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < length; i++)
        crc = crc >> 8 ^ crc16_table[(crc ^ data[i]) & 0xff];
    return crc;
}

uint64_t hash_crc32(const uint8_t *data, size_t length)
{
    return (uint32_t)~crc32_advance(crc32_after, UINT32_MAX, data, length);
}

uint64_t hash_crc_ccitt(const uint8_t *data, size_t length)
{
    uint32_t crc = 0xffff;
    for (size_t i = 0; i < length; i++)
        crc = (crc << 8 & 0xff00) ^ ccitt_table[(crc >> 8 ^ data[i]) & 0xff];
    return crc;
}

uint64_t hash_xor16(const uint8_t *data, size_t length)
{
    uint64_t value = 0;
    for (; length >= 2; data += 2, length -= 2)
        value ^= load_be(data, 2);
    return length ? value ^ (uint64_t)*data << 8 : value;
}

uint64_t hash_identity(const uint8_t *data, size_t length)
{
    return load_be(data, length < 8 ? (unsigned)length : 8);
}

/* Native words are summed: the sum does not mind the byte order until its end (RFC 1071 2B). */
uint64_t hash_sum16(const uint8_t *data, size_t length)
{
    uint64_t sum = 0;
    uint32_t four;
    for (; length >= 4; data += 4, length -= 4) {
        memcpy(&four, data, 4);
        sum += four;
    }
    if (length) {
        four = 0;
        memcpy(&four, data, length);
        sum += four;
    }
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return __builtin_bswap16((uint16_t)sum);
}
