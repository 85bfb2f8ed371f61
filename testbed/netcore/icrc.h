/* CRC-32 and RoCEv2's invariant CRC over it (IBTA Architecture Specification 1.4, annex A17.3.3).
 *
 * The CRC is that of Ethernet and zlib: reflected polynomial 0xedb88320, begun with and closed by inversion.
 */
#ifndef NETCORE_ICRC_H
#define NETCORE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICRC_BYTES 4
#define BTH_BYTES 12

/* Continue `crc` (0 to begin) over `length` bytes, as zlib's crc32 does. */
uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t length);

/* As above, without the machine's carry-less multiplication. */
uint32_t crc32_update_portable(uint32_t crc, const uint8_t *bytes, size_t length);

/* The ICRC of a packet: its IPv4 and UDP headers as on the wire, and the UDP payload without the ICRC (a BTH at least). */
uint32_t icrc(const uint8_t *ipv4, size_t ipv4_bytes, const uint8_t *udp, const uint8_t *data, size_t length);

/* The headers of packets between two UDP sockets whose system sets DF: all that the ICRC covers before the payload. */
struct icrc_flow {
    uint32_t source_ip, target_ip;
    uint16_t source_port, target_port;
};

/* The ICRC of one such packet of `length` payload bytes without ICRC, with the IP identification `id`. */
uint32_t icrc_of_flow(const struct icrc_flow *flow, uint16_t id, const uint8_t *data, size_t length);

/* How the ICRC of a packet of `length` payload bytes without ICRC changes when bits of the identification are flipped:
 * the CRC is linear, so it is changes->bit[i] exclusive-or for each bit i of the flipped ones. */
struct icrc_id_changes {
    uint32_t bit[16];
};
void icrc_id_changes(struct icrc_id_changes *changes, size_t length);
uint32_t icrc_id_change(const struct icrc_id_changes *changes, uint16_t flipped);

#endif
