#include "icrc.h"

#include "../dataplane/native/runtime/crc32.h"
#include "frame.h"

#include <string.h>

#define LRH_BYTES 8 /* the ICRC begins with a local route header of all ones */
#define DONT_FRAGMENT 0x4000

static crc32_table table;

__attribute__((constructor)) static void make_table(void)
{
    crc32_fill(table);
}

uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~crc32_advance(table, ~crc, bytes, length);
}

uint32_t crc32_update_portable(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~crc32_by_table(table, ~crc, bytes, length);
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
        b = b & 1 ? b >> 1 ^ CRC32_POLYNOMIAL : b >> 1;
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
        changes->bit[bit] = multiply(crc32_by_table(table, 0, id, sizeof id), shift);
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
