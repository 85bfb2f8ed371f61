/* Segmentation offload: cut super-packets from a host's kernel into wire packets, join wire packets into one for it.
 *
 * A frame with a virtio-net header (OASIS VIRTIO 1.2, 5.1.6) may stand for up to 64 KiB of one flow. Cutting gives the very
 * packets that a NIC would have sent; joining is receive offload: only packets a NIC could have cut from one super-packet.
 * Payload is not copied where it was read into an intake: packets are split, and what lies side by side there is one piece.
 * What comes from the kernel on behalf of an untrusted sender is checked here, once.
 */
#ifndef NETCORE_OFFLOAD_H
#define NETCORE_OFFLOAD_H

#include "intake.h"

#include <stdbool.h>
#include <sys/uio.h>

#define JOIN_SEGMENTS 64    /* UDP_MAX_SEGMENTS of Linux before 6.9, UDP_GRO_CNT_MAX */
#define JOIN_PIECES (2 + 2 * JOIN_SEGMENTS)
#define CUT_SEGMENTS 1024   /* a 64 KiB TCP super-packet of the least MSS that Linux uses */
#define VIRTIO_HEADER_BYTES 10

struct virtio_header {
    uint8_t flags;
    uint8_t segmentation;
    uint16_t header_bytes; /* this and what follows: in the machine's byte order */
    uint16_t segment_bytes;
    uint16_t checksum_start;
    uint16_t checksum_offset;
};

/* Cut a frame of `length` bytes, which lies in `intake` unless that is NULL, into `list`; false (and nothing in the list): it
 * is malformed, or the pool is exhausted. */
bool offload_cut(struct packet_pool *pool, struct intake *intake, const struct virtio_header *header, uint8_t *frame,
                 size_t length, struct packet_list *list);

/* A super-packet in the making: consecutive packets of one flow. */
struct join {
    struct packet_list packets;
    unsigned count;
    uint32_t payload_bytes;
    uint32_t segment_bytes;
    bool closed; /* nothing may follow: the last packet was short or pushed */
};

enum join_fit {
    JOIN_OTHER,  /* another flow: keeps nothing waiting */
    JOIN_BREAKS, /* this flow, but it cannot be appended: the join must be written first */
    JOIN_FITS,
};

/* Whether the checksum of a packet can be told: what of it is not at its frame was summed when it was cut. */
bool join_knows(const struct packet *packet);

/* Whether a packet, known as above, may begin a join: whole, its checksum right, UDP or plain TCP data. */
bool join_may_begin(const struct packet *packet);

/* How a packet that may begin a join relates to one begun. */
enum join_fit join_fit(const struct join *join, const struct packet *packet);

/* Append a packet: one that may begin, or fits. */
void join_append(struct join *join, struct packet *packet);

/* Describe the join as one frame with virtio header (a single packet: as it is): changes the first packet's headers. Needs
 * room for JOIN_PIECES; returns how many were used. */
size_t join_describe(struct join *join, struct virtio_header *header, struct iovec *pieces);

#endif
