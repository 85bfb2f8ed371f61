#include "roce.h"

#include "frame.h"

#include <string.h>

#define PSN_MASK 0xffffff
#define QUEUE_PAIR_MASK 0xffffff

static size_t padding(size_t payload_bytes)
{
    return -payload_bytes & 3;
}

size_t roce_packet_bytes(size_t header_bytes, size_t payload_bytes)
{
    return header_bytes + payload_bytes + padding(payload_bytes) + ICRC_BYTES;
}

bool roce_piece_fits(const struct roce_piece *piece, size_t bytes)
{
    return piece->packets < ROCE_SEGMENTS && bytes <= piece->segment_bytes &&
           piece->bytes == piece->packets * piece->segment_bytes && piece->bytes + bytes <= ROCE_DATAGRAM_BYTES;
}

void roce_piece_append(struct roce_piece *piece, uint8_t *buffer, const struct icrc_flow *flow, uint16_t id,
                       const uint8_t *header, size_t header_bytes, const uint8_t *payload, size_t payload_bytes)
{
    uint8_t *start = buffer + piece->offset + piece->bytes, *end = start + header_bytes;
    memcpy(start, header, header_bytes);
    if (payload_bytes)
        memcpy(end, payload, payload_bytes);
    end += payload_bytes;
    memset(end, 0, padding(payload_bytes));
    end += padding(payload_bytes);
    uint32_t crc = icrc_of_flow(flow, id, start, (size_t)(end - start));
    for (int i = 0; i < ICRC_BYTES; i++)
        end[i] = (uint8_t)(crc >> 8 * i);
    size_t bytes = roce_packet_bytes(header_bytes, payload_bytes);
    if (!piece->packets++)
        piece->segment_bytes = bytes;
    piece->bytes += bytes;
}

/* Whether the ICRC is right for some place in a super-packet; then the next packet is expected one further. */
static bool icrc_right(struct roce_reader *reader, const uint8_t *data, size_t covered)
{
    const uint8_t *stored = data + covered;
    uint32_t found = stored[0] | (uint32_t)stored[1] << 8 | (uint32_t)stored[2] << 16 | (uint32_t)stored[3] << 24;
    uint32_t difference = icrc_of_flow(&reader->flow, reader->id, data, covered) ^ found;
    uint16_t expected = reader->id++;
    if (!difference)
        return true;
    if (reader->changes_for != covered) {
        icrc_id_changes(&reader->changes, covered);
        reader->changes_for = covered;
    }
    for (uint16_t id = 0; id < ROCE_SEGMENTS; id++)
        if (icrc_id_change(&reader->changes, id ^ expected) == difference) {
            reader->id = (uint16_t)(id + 1);
            return true;
        }
    return false;
}

bool roce_read(struct roce_reader *reader, struct roce_packet *packet)
{
    while (reader->offset < reader->length) {
        size_t left = reader->length - reader->offset, at = reader->offset;
        size_t bytes = reader->segment_bytes && reader->segment_bytes < left ? reader->segment_bytes : left;
        const uint8_t *data = reader->data + at;
        reader->offset += bytes;
        if (bytes < BTH_BYTES + ICRC_BYTES || bytes % 4) {
            reader->malformed++;
            reader->in_run = false;
            continue;
        }
        if (!icrc_right(reader, data, bytes - ICRC_BYTES)) {
            reader->wrong_icrc++;
            reader->in_run = false;
            continue;
        }
        uint8_t opcode = reader->opcodes[data[0]];
        size_t header_bytes = opcode & ROCE_OPCODE_HEADER, pad = data[1] >> 4 & 3;
        if (header_bytes < BTH_BYTES || header_bytes + pad + ICRC_BYTES > bytes) {
            reader->malformed++;
            reader->in_run = false;
            continue;
        }
        size_t payload_bytes = bytes - header_bytes - pad - ICRC_BYTES, payload_at = at + header_bytes;
        uint32_t queue_pair = load32(data + 4) & QUEUE_PAIR_MASK, psn = load32(data + 8) & PSN_MASK;
        bool follows = reader->in_run && !(opcode & ROCE_OPCODE_BEGINS) && queue_pair == reader->queue_pair &&
                       psn == ((reader->psn + 1) & PSN_MASK) && payload_bytes > 0 &&
                       payload_bytes <= reader->run_segment_bytes &&
                       reader->last_payload_bytes == reader->run_segment_bytes;
        if (!follows) {
            reader->run_segment_bytes = payload_bytes;
            reader->write_at = payload_at;
        }
        *packet = (struct roce_packet){at, header_bytes, reader->write_at, payload_bytes, !follows};
        reader->in_run = true;
        reader->queue_pair = queue_pair;
        reader->psn = psn;
        reader->last_payload_bytes = payload_bytes;
        return true;
    }
    return false;
}

void roce_gather(struct roce_reader *reader, const struct roce_packet *packet)
{
    size_t from = packet->header_at + packet->header_bytes;
    if (packet->payload_at != from)
        memmove(reader->data + packet->payload_at, reader->data + from, packet->payload_bytes);
    reader->write_at = packet->payload_at + packet->payload_bytes;
}
