/* What the C tests share: checks, random numbers, frames with checksums computed a second time, and how a test is run. */
#ifndef CORE_TEST_H
#define CORE_TEST_H

#include "frame.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#define GBPS UINT64_C(1000000000)
#define UNLIMITED (UINT64_C(1) << 40)

static inline uint64_t next_random(void)
{
    static uint64_t draws;
    return random_draw(0x7e57, draws++);
}

/* The second Internet checksum: RFC 1071 word by word. */
static inline uint16_t plain_sum(const uint8_t *bytes, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i++)
        sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static inline bool network_right(const uint8_t *frame)
{
    return plain_sum(frame + 14, (frame[14] & 15u) * 4, 0) == 0xffff;
}

static inline bool transport_right(const uint8_t *frame)
{
    const uint8_t *ip = frame + 14;
    uint32_t header = (ip[0] & 15u) * 4, length = load16(ip + 2) - header;
    uint32_t pseudo = plain_sum(ip + 12, 8, ip[9] + length);
    return plain_sum(ip + header, length, pseudo) == 0xffff;
}

/* An Ethernet frame with IPv4 and UDP or TCP and a random payload; returns its length. */
static inline size_t make_frame(uint8_t *frame, uint8_t protocol, size_t payload_bytes, uint8_t tos)
{
    size_t header = protocol == PROTOCOL_UDP ? UDP_BYTES : TCP_BYTES;
    size_t length = ETHERNET_BYTES + IPV4_BYTES + header + payload_bytes;
    for (size_t i = 0; i < length; i++)
        frame[i] = (uint8_t)next_random();
    uint8_t *ip = frame + ETHERNET_BYTES, *transport = ip + IPV4_BYTES;
    store16(frame + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = tos;
    store16(ip + 2, (uint16_t)(length - ETHERNET_BYTES));
    store16(ip + 4, 0);
    store16(ip + 6, 0x4000);
    ip[8] = 64;
    ip[9] = protocol;
    if (protocol == PROTOCOL_UDP) {
        store16(transport + 4, (uint16_t)(UDP_BYTES + payload_bytes));
    } else {
        transport[12] = TCP_BYTES / 4 << 4;
        transport[13] = 0x10;
    }
    struct frame_layout layout = frame_parse(frame, length);
    frame_seal_network(frame, &layout);
    frame_seal_transport(frame, &layout, (struct frame_tail){0});
    CHECK(network_right(frame) && transport_right(frame));
    return length;
}

#define TEST(name) {#name, test_##name}

struct test {
    const char *name;
    void (*run)(void);
};

/* Run the one test that the command line names. */
static inline int run_test(const struct test *tests, size_t count, int argc, char **argv)
{
    for (size_t i = 0; i < count; i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    fprintf(stderr, "usage: %s TEST\n", argv[0]);
    return 2;
}

#endif
