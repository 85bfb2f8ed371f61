/* The fabric: ports, native switches and directed links under one event queue.
 *
 * As the emulation's it runs under the monotonic clock: one thread runs the loop and owns everything; others have it call
 * functions between two batches of packets, or hold it between two packets while they change switches themselves. As a
 * simulation's it runs under a virtual clock, which its caller advances.
 */
#ifndef NETCORE_FABRIC_H
#define NETCORE_FABRIC_H

#include "addresses.h"
#include "link.h"
#include "port.h"
#include "stack.h"
#include "switch.h"
#include "transit.h"

#include <pthread.h>
#include <stdatomic.h>

#define FABRIC_READ_BATCH 64    /* frames read from one port before others get their turn */
#define FABRIC_EVENT_BATCH 256  /* events fired before kept packets are written and ports are read */
#define FABRIC_WAKE_NS 20000    /* what is due is run at most this often: a wake-up costs as much as ten packets */
#define FABRIC_WAKE_STEP_NS 250 /* by which the estimate of a wake-up follows what is seen */
#define FABRIC_WAKE_MOST_NS 50000 /* more is no wake-up but a processor that somebody else has */
#define FABRIC_SPIN_PART 8      /* of the time that the loop slept: what it may spin; who is busy never does */
#define FABRIC_SPIN_MOST_NS 1000000 /* of it that may be saved up */
#define FABRIC_HOLD_LIMIT_S 5   /* the loop comes to rest in a thousandth of it, unless it is stuck */
#define FABRIC_STRAY_RECORDS 4096 /* frames kept at most that come to a host and are for no socket of it */
#define FABRIC_PLAY_EVENTS (1 << 18) /* fired before it is looked whether somebody interrupts */
#define FABRIC_NIC_BYTES (UINT64_C(4) << 20) /* queue of a host's NIC above which its TAP is read no more */

struct fabric;

enum fabric_port_kind { FABRIC_DEVICE, FABRIC_MEMORY, FABRIC_SWITCH };

struct fabric_port {
    _Alignas(CACHE_LINE) struct switch_port at; /* of FABRIC_SWITCH */
    struct port port; /* its device; in other kinds only its capture is used, which comes first in it */
    _Alignas(CACHE_LINE) struct egress egress; /* of FABRIC_SWITCH, and a host's NIC */
    struct fabric *fabric;
    uint32_t index;
    enum fabric_port_kind kind;
    bool host;
    bool addressed; /* as follows; else nothing is known to stray there */
    uint8_t mac[6];
    uint32_t ip;
    uint32_t switch_number; /* of the Open vSwitch bridge that a device belongs to, where it is no host's */
    struct stack *stack;    /* of FABRIC_MEMORY; NULL: nothing is above its NIC */
    bool paused;
    bool kept; /* has packets to be flushed */
    struct link *out; /* NULL: nothing is read */
};

struct fabric_link {
    struct link link;
    struct fabric_port *source;
    struct fabric_port *target;
};

/* A host of a job; where there are any, a packet is of the job of its source. */
struct fabric_job_host {
    uint32_t ip;
    uint8_t job; /* below LINK_JOBS */
};

struct fabric_job {
    uint16_t udp_ports[LINK_JOBS]; /* to which packets go */
    size_t udp_port_count;
    uint16_t tcp_first, tcp_last;
    struct fabric_job_host *hosts; /* by address */
    size_t host_count;             /* 0: all the packets are of job 0 */
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
    struct p4_switch **switches;
    size_t switch_count;
    struct addresses addresses; /* to which sockets send */
    struct records taken; /* frames that came out at memory ports */
    bool nic_by_dscp; /* NICs queue by DSCP */
    bool is_virtual;
    int64_t virtual_ns;
    struct due_list due;  /* to be called between two events */
    uint64_t fired;       /* events, by fabric_play */
    bool playing, ends_playing;
    bool refers; /* packets may refer to memory that is not the fabric's */
    struct fabric_port **kept; /* room for all ports */
    size_t kept_count;
    size_t paused_count;
    int epoll;
    int64_t woke_ns; /* when what is due was last run */
    int64_t wake_ns; /* what a wake-up takes, as timers show it */
    int64_t spin_ns; /* how long the loop may spin */
    int64_t unseen_ns; /* for how long the frames that are read now were there before the loop saw them */
    int wake;
    atomic_bool stopping;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t called;
    bool running;
    bool held, parked; /* somebody asked the loop to rest; it does */
    bool abandoned; /* who held it did not release it in time */
    pthread_t holder;
    int64_t rest_ns; /* since when it is held: the clock stands still; else EVENTQ_NEVER */
    void (*call)(struct fabric *fabric, void *argument);
    void *argument;
    uint64_t served; /* calls done */
    struct port_reading reading;
};

/* NULL with errno. */
struct fabric *fabric_new(uint64_t seed, bool is_virtual);

/* The loop must have ended. */
void fabric_destroy(struct fabric *fabric);

/* Take a device over; the new port, of a host or of a switch by its number, or NULL with errno. Not while running. */
struct fabric_port *fabric_add_port(struct fabric *fabric, int fd, struct port_options options, bool host,
                                    uint32_t switch_number);

/* A host's port in memory, or NULL with errno. Not while running. */
struct fabric_port *fabric_add_memory_port(struct fabric *fabric);

/* Make an instance of a program a switch, whose model time is the clock's divided by `dilation`; NULL with errno, EPROTO: the
 * program is of another ABI version. Not while running. */
struct p4_switch *fabric_add_switch(struct fabric *fabric, const struct p4_program *program, uint64_t seed, uint32_t dilation);

/* A port of a switch, `number` being below SWITCH_PORTS and free; or NULL with errno. Not while running. */
struct fabric_port *fabric_add_switch_port(struct fabric *fabric, struct p4_switch *of, uint32_t number);

/* Lead what comes in at `source` to `target`; `index` keys the random draws. False with errno. Not while running. */
bool fabric_add_link(struct fabric *fabric, struct fabric_port *source, struct fabric_port *target, uint64_t index);

/* The fabric's clock, which stands still while the fabric is held. */
int64_t fabric_now_ns(const struct fabric *fabric);

/* What is due by now happens, so that a packet may be handed in; returns that instant. */
int64_t fabric_catch_up(struct fabric *fabric);

/* A frame as a packet, or NULL: it is too long, or the pool is exhausted. */
struct packet *fabric_packet(struct fabric *fabric, const uint8_t *frame, size_t length);

/* Put a packet into the link of a memory port. */
void fabric_send(struct fabric_port *port, struct packet *packet);

/* Let a virtual clock go to an instant, and all happen that is due by then. */
void fabric_advance(struct fabric *fabric, int64_t until_ns);

/* The same, but what comes due is called between two events, at whose instant the clock stands then, until `ends_playing` is
 * set or one of them fails: false, as when `interrupted`, which is asked after each of them and now and then, tells so. What
 * is called may hand in packets and call anything else of the fabric. */
bool fabric_play(struct fabric *fabric, int64_t until_ns, bool (*interrupted)(void));

/* Note on a packet whose layout is known of which job it is. */
void fabric_classify(const struct fabric *fabric, struct packet *packet);

/* Have a host send a packet, now. */
void fabric_emit(struct fabric_port *port, struct packet *packet, int64_t now_ns);

/* Move packets until `fabric_stop`, under the monotonic clock; 0 or an errno, ETIMEDOUT: a thread held the fabric for more
 * than FABRIC_HOLD_LIMIT_S, and holds it no more. */
int fabric_run(struct fabric *fabric);
void fabric_stop(struct fabric *fabric);

/* Have the loop call a function, and wait until it did; where none runs, call it here. False: another thread holds the
 * fabric and did not release it within FABRIC_HOLD_LIMIT_S, or the loop did not call in that time, and nothing will be. */
bool fabric_call(struct fabric *fabric, void (*call)(struct fabric *fabric, void *argument), void *argument);

/* Rest the loop between two packets until `fabric_release` by the same thread, whose `fabric_call`s still work. 0, or
 * EDEADLK: it holds it already; ETIMEDOUT: another thread does, or the loop did not come to rest. */
int fabric_hold(struct fabric *fabric);

/* 0, or EPERM: the thread does not hold it. */
int fabric_release(struct fabric *fabric);

#endif
