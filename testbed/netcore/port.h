/* A port of the fabric: a TAP device, with or without virtio-net headers, or an existing interface's packet socket.
 *
 * Frames that a host's kernel sends come in as super-packets and are cut; packets for a host are joined per flow, until the
 * port is flushed, which the fabric does before it waits: joining uses what is late anyway and delays nothing.
 */
#ifndef NETCORE_PORT_H
#define NETCORE_PORT_H

#include "capture.h"
#include "interface.h"
#include "link.h"

#define PORT_FLOWS 8 /* flows being joined at once at one port */
#define PORT_SCRATCH_BYTES (VIRTIO_HEADER_BYTES + FRAME_MAX_BYTES)

struct port_options {
    bool virtio; /* frames carry a virtio-net header */
    bool spray;  /* a random nibble goes into the source MAC of what leaves here */
    bool join;   /* super-packets may leave here */
};

/* What ports read into, in turn. */
struct port_reading {
    struct intake *intake; /* NULL: none yet */
    uint8_t scratch[PORT_SCRATCH_BYTES];
};

struct port {
    struct capture *capture; /* what is asked for each packet comes first */
    int fd;
    struct port_options options;
    struct interface interface; /* if it is one */
    struct packet_pool *pool;
    uint64_t spray_key;
    uint64_t written;
    uint64_t malformed;    /* frames from the kernel that could not be read */
    uint64_t write_errors; /* packets that the kernel did not take (the device is down) */
    unsigned joining;
    struct join joins[PORT_FLOWS];
    unsigned waiting; /* for a batch to an interface */
    struct packet *batch[INTERFACE_BATCH];
};

/* False with errno: the device cannot be used; it is the caller's to close. */
bool port_init(struct port *port, int fd, struct port_options options, struct packet_pool *pool, uint64_t spray_key);

/* Closes the device and any capture. */
void port_destroy(struct port *port);

/* Read frames as the wire packets they stand for: one from a TAP, up to a batch from an interface. Frames read; 0: there are
 * none; -1: the device is gone. */
int port_read(struct port *port, struct port_reading *reading, struct packet_list *packets);

/* Send a packet out; the port owns it. It may be kept until the flush. */
void port_write(struct port *port, struct packet *packet);

/* Write what was kept. */
void port_flush(struct port *port);

/* Make a TAP in the calling thread's network namespace; returns its fd or -1 with errno. `*segmentation` asks for
 * super-packets, and tells whether the kernel has them (TUN_F_USO4, Linux 6.2). */
int port_open_tap(const char *name, bool virtio, bool *segmentation);

/* Show an interface of the calling thread's network namespace as running or not (IFF_RUNNING); false with errno.
 *
 * It goes dormant (RFC 2863) and keeps its carrier: without one the kernel drops what is sent into a TAP before the fabric
 * can count it. */
bool port_set_running(const char *name, bool running);

#endif
