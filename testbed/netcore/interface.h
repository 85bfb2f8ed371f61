/* An existing network interface, by a raw packet socket: frames come in by a ring in shared memory, and go out in batches.
 *
 * Frames come with a virtio-net header (PACKET_VNET_HDR), since a kernel leaves to the next device what a real wire would
 * have seen done: checksums that are not finished and super-packets that are not cut, as from a veth's peer, are told there
 * and made good here. A VLAN tag that the kernel took off a frame is put back. What leaves is whole.
 *
 * What does not fit a slot of the ring, the kernel keeps in the socket's queue besides (PACKET_COPY_THRESH).
 */
#ifndef NETCORE_INTERFACE_H
#define NETCORE_INTERFACE_H

#include "offload.h"

#define INTERFACE_BATCH 32 /* frames a system call, or a look into the ring */
#define INTERFACE_SLOT_BYTES 2048
#define INTERFACE_SLOTS 16384
#define INTERFACE_BLOCK_BYTES (1 << 16)
#define INTERFACE_BUFFER_BYTES (32 << 20) /* of the socket, each way */

struct interface {
    int fd;
    uint8_t *ring; /* NULL: not an interface */
    uint32_t next; /* slot */
    bool idle;     /* there was nothing at the last look */
};

/* Open an interface of the calling thread's network namespace, for all that comes in there; an fd or -1 with errno. */
int interface_open(const char *name);

/* Frames that the kernel dropped since the last call, the ring being full. */
uint32_t interface_drops(int fd);

/* Take over what was opened; false with errno: its ring cannot be mapped. */
bool interface_init(struct interface *interface, int fd);

/* The fd stays open. */
void interface_destroy(struct interface *interface);

/* Take in what is there, up to a batch, as the wire packets it stands for; `malformed` counts frames that are none.
 * `scratch` has room for a header and FRAME_MAX_BYTES. How many frames were taken. */
int interface_read(struct interface *interface, struct packet_pool *pool, uint8_t *scratch, struct packet_list *packets,
                   uint64_t *malformed);

/* Send up to a batch of packets, faster with VIRTIO_HEADER_BYTES of headroom; how many of the first the kernel took. It refused the one after them, for now or at all. */
unsigned interface_write(int fd, struct packet *const *packets, unsigned count);

#endif
