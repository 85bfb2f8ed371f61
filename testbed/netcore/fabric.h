/* The emulation's fabric: TAP ports and directed links under one event queue and the monotonic clock.
 *
 * One thread runs the loop and owns everything; others have it call functions between two batches of packets.
 */
#ifndef NETCORE_FABRIC_H
#define NETCORE_FABRIC_H

#include "link.h"
#include "port.h"
#include "transit.h"

#include <pthread.h>
#include <stdatomic.h>

#define FABRIC_READ_BATCH 64    /* frames read from one port before others get their turn */
#define FABRIC_EVENT_BATCH 256  /* events fired before kept packets are written and ports are read */
#define FABRIC_WAKE_NS 20000    /* what is due is run at most this often: a wake-up costs as much as ten packets */
#define FABRIC_HOLD_LIMIT_S 5   /* the loop comes to rest in a thousandth of it, unless it is stuck */
#define SWITCH_CPU_PORT 510
#define FABRIC_NIC_BYTES (UINT64_C(4) << 20) /* queue of a host's NIC above which its TAP is read no more */

struct fabric;

struct fabric_port {
    struct port port;
    struct fabric *fabric;
    uint32_t index;
    bool host;
    uint32_t switch_number; /* of the switch it belongs to, where it is no host's */
    bool paused;
    bool kept; /* has packets to be flushed */
    struct link *out; /* NULL: nothing is read */
};

struct fabric_link {
    struct link link;
    struct fabric_port *source;
    struct fabric_port *target;
};

struct fabric_job {
    uint16_t udp_port;
    uint16_t tcp_first, tcp_last;
};

struct fabric {
    struct eventq events;
    struct packet_pool pool;
    struct transit transit;
    uint64_t seed;
    struct fabric_job job;
    struct fabric_port **ports;
    size_t port_count;
    struct fabric_link **links;
    size_t link_count;
    struct fabric_port **kept; /* room for all ports */
    size_t kept_count;
    size_t paused_count;
    int epoll;
    int64_t woke_ns; /* when what is due was last run */
    int wake;
    atomic_bool stopping;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t called;
    bool running;
    void (*call)(struct fabric *fabric, void *argument);
    void *argument;
    uint64_t served; /* calls done */
    uint8_t scratch[VIRTIO_HEADER_BYTES + FRAME_MAX_BYTES];
};

/* NULL with errno. */
struct fabric *fabric_new(uint64_t seed);

/* The loop must have ended. */
void fabric_destroy(struct fabric *fabric);

/* Take a device over; the new port, of a host or of a switch by its number, or NULL with errno. Not while running. */
struct fabric_port *fabric_add_port(struct fabric *fabric, int fd, struct port_options options, bool host,
                                    uint32_t switch_number);

/* Lead what comes in at `source` to `target`; `index` keys the random draws. False with errno. Not while running. */
bool fabric_add_link(struct fabric *fabric, struct fabric_port *source, struct fabric_port *target, uint64_t index);

/* Move packets until `fabric_stop`; 0 or an errno. */
int fabric_run(struct fabric *fabric);
void fabric_stop(struct fabric *fabric);

/* Have the loop call a function, and wait until it did; where none runs, call it here. */
void fabric_call(struct fabric *fabric, void (*call)(struct fabric *fabric, void *argument), void *argument);

#endif
