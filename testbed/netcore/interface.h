/* An existing network interface, by a raw packet socket: frames in and out in batches.
 *
 * Frames come with a virtio-net header (PACKET_VNET_HDR), since a kernel leaves to the next device what a real wire would
 * have seen done: checksums that are not finished and super-packets that are not cut, as from a veth's peer, are told there
 * and made good here. A VLAN tag that the kernel took off a frame (PACKET_AUXDATA) is put back. What leaves is whole.
 */
#ifndef NETCORE_INTERFACE_H
#define NETCORE_INTERFACE_H

#include "offload.h"

#define INTERFACE_BATCH 32 /* frames a system call */
#define INTERFACE_FRAME_BYTES 65600 /* a header and a frame; no multiple of 4 KiB, so that a batch is apart in caches */
#define INTERFACE_BUFFER_BYTES (32 << 20) /* of the socket, each way: 64 B frames of some 50 ms */

/* Open an interface of the calling thread's network namespace, for all that comes in there; an fd or -1 with errno. */
int interface_open(const char *name);

/* Read what is there, up to a batch, as the wire packets it stands for; `malformed` counts frames that are none. `scratch`
 * has room for a batch of INTERFACE_FRAME_BYTES. Frames read; 0: there are none; -1 with errno. */
int interface_read(int fd, struct packet_pool *pool, uint8_t *scratch, struct packet_list *packets, uint64_t *malformed);

/* Send up to a batch of packets, faster with VIRTIO_HEADER_BYTES of headroom; how many of the first the kernel took. It refused the one after them, for now or at all. */
unsigned interface_write(int fd, struct packet *const *packets, unsigned count);

#endif
