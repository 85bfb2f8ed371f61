#include "frame.h"

#include <string.h>

#define FRAGMENT_OFFSET_MASK 0x1fff

struct frame_layout frame_parse(const uint8_t *frame, size_t length)
{
    struct frame_layout layout = {0};
    if (length < ETHERNET_BYTES + IPV4_BYTES || load16(frame + 12) != ETHERTYPE_IPV4)
        return layout;
    const uint8_t *ip = frame + ETHERNET_BYTES;
    uint32_t header = (ip[0] & 15u) * 4, total = load16(ip + 2);
    if (ip[0] >> 4 != 4 || header < IPV4_BYTES || total < header || ETHERNET_BYTES + total > length)
        return layout;
    layout.network = ETHERNET_BYTES;
    layout.end = ETHERNET_BYTES + total;
    if (load16(ip + 6) & FRAGMENT_OFFSET_MASK)
        return layout;
    uint32_t transport = ETHERNET_BYTES + header, room = total - header, bytes;
    if (ip[9] == PROTOCOL_UDP && room >= UDP_BYTES)
        bytes = UDP_BYTES;
    else if (ip[9] == PROTOCOL_TCP && room >= TCP_BYTES)
        bytes = (frame[transport + 12] >> 4) * 4u;
    else
        return layout;
    if (bytes < UDP_BYTES || bytes > room || (ip[9] == PROTOCOL_TCP && bytes < TCP_BYTES))
        return layout;
    layout.transport = transport;
    layout.payload = transport + bytes;
    layout.protocol = ip[9];
    return layout;
}

/* The last bytes, fewer than 8, as words. */
static uint64_t last_words(const uint8_t *bytes, size_t length)
{
    uint64_t word = 0;
    memcpy(&word, bytes, length);
    return (uint32_t)word + (word >> 32);
}

static inline __attribute__((always_inline)) uint64_t add_words(uint64_t sum, const uint8_t *bytes, size_t words)
{
    for (size_t i = 0; i < words * 8; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        sum += (uint32_t)word + (word >> 32);
    }
    return sum;
}

static inline __attribute__((always_inline)) uint64_t copy_words(uint64_t sum, uint8_t *restrict to,
                                                                 const uint8_t *restrict from, size_t words)
{
    for (size_t i = 0; i < words * 8; i += 8) {
        uint64_t word;
        memcpy(&word, from + i, 8);
        memcpy(to + i, &word, 8);
        sum += (uint32_t)word + (word >> 32);
    }
    return sum;
}

#if defined(__x86_64__)
#define WIDE_WORDS 16 /* from which on wide registers pay */

/* The compiler does four words at once. */
__attribute__((target("avx2"))) static uint64_t add_words_wide(uint64_t sum, const uint8_t *bytes, size_t words)
{
    return add_words(sum, bytes, words);
}

__attribute__((target("avx2"))) static uint64_t copy_words_wide(uint64_t sum, uint8_t *restrict to,
                                                                const uint8_t *restrict from, size_t words)
{
    return copy_words(sum, to, from, words);
}

static inline bool wide(size_t words)
{
    return words >= WIDE_WORDS && __builtin_cpu_supports("avx2");
}
#else
#define add_words_wide add_words
#define copy_words_wide copy_words

static inline bool wide(size_t words)
{
    (void)words;
    return false;
}
#endif

uint64_t checksum_add(uint64_t sum, const uint8_t *bytes, size_t length)
{
    size_t words = length / 8;
    sum = wide(words) ? add_words_wide(sum, bytes, words) : add_words(sum, bytes, words);
    return length % 8 ? sum + last_words(bytes + words * 8, length % 8) : sum;
}

uint64_t checksum_copy(uint64_t sum, uint8_t *restrict to, const uint8_t *restrict from, size_t length)
{
    size_t words = length / 8, done = words * 8;
    sum = wide(words) ? copy_words_wide(sum, to, from, words) : copy_words(sum, to, from, words);
    if (done == length)
        return sum;
    memcpy(to + done, from + done, length - done);
    return sum + last_words(from + done, length - done);
}

uint64_t checksum_pseudo_header(const uint8_t *ipv4, uint8_t protocol, uint32_t length)
{
    uint8_t tail[8] = {0, 0, 0, protocol};
    store32(tail + 4, length);
    return checksum_add(checksum_add(0, ipv4 + 12, 8), tail, sizeof tail);
}

uint16_t checksum_fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Sums are of words in the machine's byte order, so they are stored in it too (RFC 1071, 2.B). */
void checksum_store(uint8_t *at, uint16_t folded)
{
    memcpy(at, &folded, 2);
}

void frame_seal_network(uint8_t *frame, const struct frame_layout *layout)
{
    uint8_t *ip = frame + layout->network;
    memset(ip + 10, 0, 2);
    checksum_store(ip + 10, (uint16_t)~checksum_fold(checksum_add(0, ip, (ip[0] & 15u) * 4)));
}

static uint8_t *transport_checksum(uint8_t *frame, const struct frame_layout *layout)
{
    return frame + layout->transport + (layout->protocol == PROTOCOL_UDP ? UDP_CHECKSUM_AT : TCP_CHECKSUM_AT);
}

static uint16_t transport_sum(const uint8_t *frame, const struct frame_layout *layout, struct frame_tail tail)
{
    uint32_t length = layout->end - layout->transport;
    uint64_t sum = checksum_pseudo_header(frame + layout->network, layout->protocol, length);
    return checksum_fold(checksum_add(sum + tail.sum, frame + layout->transport, length - tail.bytes));
}

void frame_seal_transport(uint8_t *frame, const struct frame_layout *layout, struct frame_tail tail)
{
    uint8_t *field = transport_checksum(frame, layout);
    memset(field, 0, 2);
    uint16_t checksum = (uint16_t)~transport_sum(frame, layout, tail);
    /* RFC 768: 0 means that there is none, so a sum of 0 is sent as its other form. */
    checksum_store(field, checksum == 0 && layout->protocol == PROTOCOL_UDP ? 0xffff : checksum);
}

bool frame_transport_intact(const uint8_t *frame, const struct frame_layout *layout, struct frame_tail tail)
{
    const uint8_t *field = transport_checksum((uint8_t *)frame, layout);
    if (layout->protocol == PROTOCOL_UDP && load16(field) == 0)
        return false;
    return transport_sum(frame, layout, tail) == 0xffff;
}

void frame_cut(uint8_t *frame, const struct frame_layout *layout, uint32_t length)
{
    if (layout->network) {
        store16(frame + layout->network + 2, (uint16_t)(length - layout->network));
        frame_seal_network(frame, layout);
    }
    if (layout->protocol == PROTOCOL_UDP) {
        store16(frame + layout->transport + 4, (uint16_t)(length - layout->transport));
        store16(frame + layout->transport + UDP_CHECKSUM_AT, 0);
    }
}

bool frame_mark_congestion(uint8_t *frame, const struct frame_layout *layout)
{
    uint8_t *ip = frame + layout->network;
    uint8_t ecn = ip[1] & ECN_MASK;
    if (!layout->network || ecn == 0 || ecn == ECN_CE)
        return false;
    ip[1] |= ECN_CE;
    /* RFC 1624, equation 3: the changed word went from 0x45?? to 0x45?? + difference. */
    uint32_t sum = (uint16_t)~load16(ip + 10) + (uint32_t)(ECN_CE - ecn);
    store16(ip + 10, (uint16_t)~((sum & 0xffff) + (sum >> 16)));
    return true;
}
