/* UDP sockets with segmentation and receive offload: a run of packets for one system call. */
#ifndef NETCORE_UDP_H
#define NETCORE_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UDP_SLOT_BYTES 65536
#define UDP_RECEIVE_BATCH 32
#define UDP_SEND_BATCH 64

struct udp_message {
    size_t offset, bytes;
    size_t segment_bytes; /* 0: a single wire packet */
    uint32_t source_ip;
    uint16_t source_port;
    uint8_t tos;
    int64_t at_ns; /* CLOCK_MONOTONIC */
};

/* Set DF, UDP_GRO, IP_RECVTOS, SO_TIMESTAMPNS; false with errno. */
bool udp_prepare(int fd);

/* Send `length` bytes in packets of `segment_bytes`; bytes sent, 0: it would block, -1 with errno. */
ssize_t udp_send(int fd, uint32_t ip, uint16_t port, const uint8_t *data, size_t length, size_t segment_bytes,
                 uint8_t tos, bool segmented);

/* Receive at most `slots` (up to UDP_RECEIVE_BATCH) datagrams that are there; how many, -1 with errno. */
int udp_receive(int fd, uint8_t *buffer, size_t slots, struct udp_message *messages);

/* Packets dropped at the socket; -1 with errno. */
int64_t udp_drops(int fd);

#endif
