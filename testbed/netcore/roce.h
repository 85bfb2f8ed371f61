/* RoCEv2 runs as UDP payloads: laid out for segmentation offload with right ICRCs, and taken apart after receive offload.
 *
 * What a BTH opcode means is the caller's knowledge (`testbed.wire`); here it is only a header length.
 */
#ifndef NETCORE_ROCE_H
#define NETCORE_ROCE_H

#include "icrc.h"

#define ROCE_SEGMENTS 64                 /* of a super-packet: UDP_MAX_SEGMENTS of Linux before 6.9 */
#define ROCE_DATAGRAM_BYTES (65535 - 28) /* UDP payload of the largest IPv4 packet */
#define ROCE_OPCODE_BEGINS 0x80          /* in the opcode table: such a packet begins a message */
#define ROCE_OPCODE_GOES_ON 0x40         /* in the opcode table: more packets of its message follow */
#define ROCE_OPCODE_HEADER 0x3f          /* in the opcode table: header bytes, BTH included; 0: unknown */

/* A super-packet in the making: wire packets of one size, the last of which may be shorter. */
struct roce_piece {
    size_t offset;
    size_t bytes;
    size_t segment_bytes;
    unsigned packets;
};

/* Bytes on the wire of one packet's UDP payload. */
size_t roce_packet_bytes(size_t header_bytes, size_t payload_bytes);

/* Whether a packet of `bytes` may be appended to a piece that is not empty. */
bool roce_piece_fits(const struct roce_piece *piece, size_t bytes);

/* Append a packet at `buffer` + the piece's end; `id` is its IP identification. */
void roce_piece_append(struct roce_piece *piece, uint8_t *buffer, const struct icrc_flow *flow, uint16_t id,
                       const uint8_t *header, size_t header_bytes, const uint8_t *payload, size_t payload_bytes);

/* Takes a received datagram apart, packet by packet. */
struct roce_reader {
    uint8_t *data;
    size_t length;
    size_t segment_bytes;
    struct icrc_flow flow;
    const uint8_t *opcodes;
    size_t offset;
    uint16_t id;         /* expected next */
    size_t changes_for;  /* the length that `changes` holds for; 0: none */
    struct icrc_id_changes changes;
    bool in_run;
    uint32_t queue_pair, psn;
    size_t run_segment_bytes, last_payload_bytes, write_at;
    unsigned wrong_icrc;
    unsigned malformed;
};

struct roce_packet {
    size_t header_at, header_bytes;   /* valid until its payload is gathered */
    size_t payload_at, payload_bytes; /* once gathered: a run's payloads are end to end */
    bool begins_run;
};

/* The next good packet; false: there is no more. */
bool roce_read(struct roce_reader *reader, struct roce_packet *packet);

/* Move a packet's payload to the end of its run's, once its header is no longer needed. */
void roce_gather(struct roce_reader *reader, const struct roce_packet *packet);

#endif
