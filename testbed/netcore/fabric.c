#include "fabric.h"

#include "clock.h"
#include "split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WAKE UINT32_MAX /* in place of a port's index */
#define READY_MAX 64

struct fabric *fabric_new(uint64_t seed, bool is_virtual)
{
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return NULL;
    fabric->seed = seed;
    fabric->is_virtual = is_virtual;
    fabric->rest_ns = EVENTQ_NEVER;
    eventq_init(&fabric->events);
    fabric->due.events = &fabric->events;
    packet_pool_init(&fabric->pool, &fabric->events);
    bool transits = transit_init(&fabric->transit);
    pthread_mutex_init(&fabric->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&fabric->called, &monotonic);
    pthread_condattr_destroy(&monotonic);
    fabric->epoll = epoll_create1(EPOLL_CLOEXEC);
    fabric->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = WAKE};
    bool waits = fabric->epoll >= 0 && fabric->wake >= 0;
    if (!transits || !waits || epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, fabric->wake, &event) != 0) {
        int error = errno;
        fabric_destroy(fabric);
        errno = error;
        return NULL;
    }
    return fabric;
}

void fabric_destroy(struct fabric *fabric)
{
    for (size_t i = 0; i < fabric->port_count; i++) {
        port_destroy(&fabric->ports[i]->port);
        stack_free(fabric->ports[i]->stack);
        free(fabric->ports[i]);
    }
    for (size_t i = 0; i < fabric->link_count; i++)
        free(fabric->links[i]);
    for (size_t i = 0; i < fabric->switch_count; i++) {
        switch_destroy(fabric->switches[i]);
        free(fabric->switches[i]);
    }
    records_free(fabric->taken.first);
    free(fabric->ports);
    free(fabric->links);
    free(fabric->switches);
    free(fabric->kept);
    free(fabric->job.hosts);
    addresses_free(&fabric->addresses);
    packet_pool_destroy(&fabric->pool);
    transit_destroy(&fabric->transit);
    eventq_destroy(&fabric->events);
    if (fabric->wake >= 0)
        close(fabric->wake);
    if (fabric->epoll >= 0)
        close(fabric->epoll);
    pthread_cond_destroy(&fabric->called);
    pthread_mutex_destroy(&fabric->lock);
    free(fabric);
}

static bool watch(struct fabric_port *port, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = port->index};
    return epoll_ctl(port->fabric->epoll, operation, port->port.fd, &event) == 0;
}

static struct fabric_port *new_port(struct fabric *fabric, enum fabric_port_kind kind, int fd, struct port_options options)
{
    size_t room = (fabric->port_count + 1) * sizeof(struct fabric_port *);
    struct fabric_port **ports = realloc(fabric->ports, room);
    if (ports)
        fabric->ports = ports;
    struct fabric_port **kept = realloc(fabric->kept, room);
    if (kept)
        fabric->kept = kept;
    struct fabric_port *port = aligned_alloc(CACHE_LINE, sizeof *port);
    if (!ports || !kept || !port) {
        free(port);
        errno = ENOMEM;
        return NULL;
    }
    memset(port, 0, sizeof *port);
    port->fabric = fabric;
    port->index = (uint32_t)fabric->port_count;
    port->kind = kind;
    if (!port_init(&port->port, fd, options, &fabric->pool, random_key(fabric->seed, RANDOM_SPRAY, port->index))) {
        free(port);
        return NULL;
    }
    fabric->ports[fabric->port_count++] = port;
    return port;
}

struct fabric_port *fabric_add_port(struct fabric *fabric, int fd, struct port_options options, bool host,
                                    uint32_t switch_number)
{
    struct fabric_port *port = new_port(fabric, FABRIC_DEVICE, fd, options);
    if (port) {
        port->host = host;
        port->switch_number = switch_number;
    }
    return port;
}

struct fabric_port *fabric_add_memory_port(struct fabric *fabric)
{
    struct fabric_port *port = new_port(fabric, FABRIC_MEMORY, -1, (struct port_options){0});
    if (port)
        port->host = true;
    return port;
}

struct p4_switch *fabric_add_switch(struct fabric *fabric, const struct p4_program *program, uint64_t seed, uint32_t dilation)
{
    if (program->abi != P4_ABI_VERSION) {
        errno = EPROTO;
        return NULL;
    }
    struct p4_switch **switches = realloc(fabric->switches, (fabric->switch_count + 1) * sizeof *switches);
    if (switches)
        fabric->switches = switches;
    struct p4_switch *of = aligned_alloc(CACHE_LINE, sizeof *of); /* switch_init fills it in */
    uint32_t number = (uint32_t)fabric->switch_count;
    if (!switches || !of || !switch_init(of, program, seed, dilation, number, &fabric->pool)) {
        free(of);
        errno = ENOMEM;
        return NULL;
    }
    return fabric->switches[fabric->switch_count++] = of;
}

struct fabric_port *fabric_add_switch_port(struct fabric *fabric, struct p4_switch *of, uint32_t number)
{
    struct fabric_port *port = new_port(fabric, FABRIC_SWITCH, -1, (struct port_options){0});
    if (port) {
        port->at = (struct switch_port){.of = of, .number = number};
        of->ports[number] = &port->at;
    }
    return port;
}

/* A pause frame that comes in at a port is for what leaves there; false: it is none. */
static bool obey(struct fabric_port *port, struct packet *packet)
{
    if (!(packet->flags & PACKET_PFC))
        return false;
    if (port->out && port->out->source)
        pfc_obey(&port->egress, packet, packet->due_ns);
    packet_free(&port->fabric->pool, packet);
    return true;
}

/* Whether a packet is addressed to somebody else than the host at a port. */
static bool strays(const struct fabric_port *port, struct packet *packet)
{
    const struct frame_layout *layout = packet_layout(packet);
    if (!port->addressed || packet->length < ETHERNET_BYTES)
        return false;
    bool to_one = !(packet->frame[0] & 1); /* else it is for everybody, or a group */
    return (to_one && memcmp(packet->frame, port->mac, sizeof port->mac) != 0) ||
           (layout->network && load32(packet->frame + layout->network + IPV4_TARGET_AT) != port->ip);
}

/* Count a packet that a host gets and has no use for: its stack drops what is not for it, its transport what was cut.
 * Returns whether it is not for it. */
static bool count_useless(const struct fabric_port *port, struct packet *packet)
{
    bool strayed = strays(port, packet);
    if (strayed)
        LINK_COUNT(packet->link, packet->flags, strayed, 1);
    else if (packet->flags & PACKET_SHORT)
        LINK_COUNT(packet->link, packet->flags, shortened, 1);
    return strayed;
}

static void deliver_to_device(void *receiver, struct packet *packet)
{
    struct fabric_port *port = receiver;
    if (packet->flags & PACKET_PFC && port->port.capture)
        split_capture(port->port.capture, packet, packet->due_ns, CAPTURE_INBOUND);
    if (obey(port, packet))
        return;
    if (!port->host)
        transit_enter(&port->fabric->transit, port->switch_number, packet, packet->due_ns);
    else
        count_useless(port, packet);
    packet_layout(packet);
    port_write(&port->port, packet);
    if (!port->kept) {
        port->kept = true;
        port->fabric->kept[port->fabric->kept_count++] = port;
    }
}

static void deliver_to_switch(void *receiver, struct packet *packet)
{
    struct fabric_port *port = receiver;
    if (port->port.capture)
        split_capture(port->port.capture, packet, packet->due_ns, CAPTURE_INBOUND);
    if (!obey(port, packet))
        switch_receive(port->at.of, port->at.number, packet, packet->due_ns);
}

static void deliver_to_memory(void *receiver, struct packet *packet)
{
    struct fabric_port *port = receiver;
    if (port->port.capture)
        split_capture(port->port.capture, packet, packet->due_ns, CAPTURE_INBOUND);
    if (obey(port, packet))
        return;
    bool strayed = count_useless(port, packet);
    if (port->stack && strayed) {
        packet_free(&port->fabric->pool, packet);
        return;
    }
    if (port->stack && stack_receive(port->stack, packet))
        return;
    uint64_t at_ns = (uint64_t)packet->due_ns;
    struct packet *filled = split_fill(&port->fabric->pool, packet, SPLIT_ALL);
    packet = filled ? filled : packet;
    size_t limit = port->stack ? FABRIC_STRAY_RECORDS : SIZE_MAX;
    if (filled && records_keep(&port->fabric->taken, limit, port->index, at_ns, packet->frame, packet->length))
        port->port.written++;
    else
        port->port.write_errors++;
    packet_free(&port->fabric->pool, packet);
}

static void soon_at_switch(const void *receiver)
{
    switch_soon(((const struct fabric_port *)receiver)->at.of);
}

bool fabric_add_link(struct fabric *fabric, struct fabric_port *source, struct fabric_port *target, uint64_t index)
{
    struct fabric_link **links = realloc(fabric->links, (fabric->link_count + 1) * sizeof *links);
    if (links)
        fabric->links = links;
    size_t room = (sizeof(struct fabric_link) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct fabric_link *link = aligned_alloc(CACHE_LINE, room); /* link_init fills it in */
    if (!links || !link || !link_init(&link->link, &fabric->events, &fabric->pool, fabric->seed, index)) {
        free(link);
        errno = ENOMEM;
        return false;
    }
    link->source = source;
    link->target = target;
    link->link.deliver = target->kind == FABRIC_SWITCH   ? deliver_to_switch
                         : target->kind == FABRIC_MEMORY ? deliver_to_memory
                                                         : deliver_to_device;
    link->link.receiver = target;
    link->link.soon = target->kind == FABRIC_SWITCH ? soon_at_switch : NULL;
    link->link.parameters = (struct link_parameters){.rate_bps = 1, .never_drops = source->host};
    if (source->kind == FABRIC_DEVICE && !watch(source, EPOLL_CTL_ADD, EPOLLIN)) {
        free(link);
        return false;
    }
    if (source->kind == FABRIC_SWITCH || source->host) {
        if (!egress_init(&source->egress, &link->link)) {
            free(link);
            errno = ENOMEM;
            return false;
        }
    }
    if (source->kind == FABRIC_SWITCH) {
        source->egress.capture = source->port.capture;
        source->egress.leave = switch_leave;
        source->egress.owner = &source->at;
        switch_lead_out(&source->at, &source->egress);
    }
    if (target->kind == FABRIC_SWITCH)
        target->at.from = &link->link;
    source->out = &link->link;
    fabric->links[fabric->link_count++] = link;
    return true;
}

static void flush_kept(struct fabric *fabric)
{
    for (size_t i = 0; i < fabric->kept_count; i++) {
        fabric->kept[i]->kept = false;
        port_flush(&fabric->kept[i]->port);
    }
    fabric->kept_count = 0;
}

static bool nic_full(const struct fabric_port *port)
{
    return port->host && port->out->queued_bytes > FABRIC_NIC_BYTES;
}

/* Read the ports again that were left alone because their NIC's queue was full. */
static void resume_paused(struct fabric *fabric)
{
    for (size_t i = 0; i < fabric->port_count && fabric->paused_count; i++) {
        struct fabric_port *port = fabric->ports[i];
        if (port->paused && !nic_full(port) && watch(port, EPOLL_CTL_MOD, EPOLLIN)) {
            port->paused = false;
            fabric->paused_count--;
        }
    }
}

/* The number of the job whose host sent a packet, LINK_JOBS if there is none. */
static unsigned job_of(const struct fabric_job *job, uint32_t ip)
{
    size_t first = 0, last = job->host_count;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (job->hosts[middle].ip < ip)
            first = middle + 1;
        else
            last = middle;
    }
    return first < job->host_count && job->hosts[first].ip == ip ? job->hosts[first].job : LINK_JOBS;
}

static bool is_job_udp(const struct fabric_job *job, uint16_t port)
{
    for (size_t i = 0; i < job->udp_port_count; i++)
        if (job->udp_ports[i] == port)
            return true;
    return port == SUMS_PORT;
}

static void classify(const struct fabric_job *job, struct packet *packet)
{
    const struct frame_layout *layout = &packet->layout;
    if (!layout->transport)
        return;
    uint16_t source = load16(packet->frame + layout->transport), target = load16(packet->frame + layout->transport + 2);
    bool job_tcp = (source >= job->tcp_first && source <= job->tcp_last) ||
                   (target >= job->tcp_first && target <= job->tcp_last);
    if (!job_tcp && !(layout->protocol == PROTOCOL_UDP && is_job_udp(job, target))) /* TCP's model has its ports over UDP */
        return;
    unsigned number = job->host_count ? job_of(job, load32(packet->frame + layout->network + 12)) : 0;
    if (number < LINK_JOBS)
        packet->flags |= (uint16_t)(PACKET_JOB + number * PACKET_JOB_FIRST);
}

void fabric_classify(const struct fabric *fabric, struct packet *packet)
{
    classify(&fabric->job, packet);
}

/* A packet that a host sends, into its NIC. */
static void host_sends(struct fabric_port *port, struct packet *packet, int64_t now_ns)
{
    const struct frame_layout *layout = &packet->layout;
    if (port->fabric->nic_by_dscp && layout->network)
        packet->priority = packet->frame[layout->network + 1] >> 5; /* the upper half of the DSCP */
    egress_send(&port->egress, packet, now_ns);
}

static void read_port(struct fabric *fabric, struct fabric_port *port)
{
    for (int frames = 0, more; frames < FABRIC_READ_BATCH; frames += more) {
        struct packet_list packets;
        more = port_read(&port->port, &fabric->reading, &packets);
        if (more < 0)
            watch(port, EPOLL_CTL_DEL, 0); /* the device is gone: with its namespace, or by hand */
        if (more <= 0)
            return;
        int64_t now_ns = clock_monotonic_ns();
        eventq_run(&fabric->events, now_ns, SIZE_MAX);
        now_ns -= fabric->unseen_ns;
        for (struct packet *packet; (packet = packet_take(&packets));) {
            classify(&fabric->job, packet);
            if (port->port.capture)
                split_capture(port->port.capture, packet, now_ns, CAPTURE_OUTBOUND);
            if (port->host)
                host_sends(port, packet, now_ns);
            else
                link_send(port->out, packet, transit_leave(&fabric->transit, port->switch_number, packet, now_ns));
        }
        if (nic_full(port)) {
            port->paused = watch(port, EPOLL_CTL_MOD, 0);
            fabric->paused_count += port->paused;
            return;
        }
    }
}

static struct timespec limit_of_a_hold(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += FABRIC_HOLD_LIMIT_S;
    return at;
}

/* Wait while something is so; false: it is for too long. The lock is held. */
static bool wait_while(struct fabric *fabric, bool (*so)(const struct fabric *fabric))
{
    struct timespec limit = limit_of_a_hold();
    while (so(fabric))
        if (pthread_cond_timedwait(&fabric->called, &fabric->lock, &limit) == ETIMEDOUT)
            return !so(fabric);
    return true;
}

static bool is_held(const struct fabric *fabric)
{
    return fabric->held;
}

/* End a hold. The lock is held. */
static void let_go(struct fabric *fabric)
{
    fabric->held = false;
    fabric->rest_ns = EVENTQ_NEVER;
    pthread_cond_broadcast(&fabric->called);
}

/* Do what another thread asked for. The lock is held. */
static void serve_call(struct fabric *fabric)
{
    if (fabric->call) {
        fabric->call(fabric, fabric->argument);
        fabric->call = NULL;
        fabric->served++;
        pthread_cond_broadcast(&fabric->called);
    }
}

/* Rest while somebody holds the fabric; one who does not release it in time ends the loop. The lock is held. */
static void rest(struct fabric *fabric)
{
    if (!fabric->held)
        return;
    fabric->parked = true;
    pthread_cond_broadcast(&fabric->called);
    if (!wait_while(fabric, is_held)) {
        let_go(fabric);
        fabric->abandoned = true;
        atomic_store(&fabric->stopping, true);
    }
    fabric->parked = false;
}

static void on_wake(struct fabric *fabric)
{
    uint64_t drained;
    while (read(fabric->wake, &drained, sizeof drained) > 0)
        ;
    pthread_mutex_lock(&fabric->lock);
    serve_call(fabric);
    rest(fabric);
    pthread_mutex_unlock(&fabric->lock);
}

/* What a timer was late by moves the running estimate of a wake-up: by steps of 3 up and 1 down, to the third quartile. */
static void learn_wake(struct fabric *fabric, int64_t late_ns)
{
    fabric->wake_ns += late_ns > fabric->wake_ns ? 3 * FABRIC_WAKE_STEP_NS : -FABRIC_WAKE_STEP_NS;
    if (fabric->wake_ns > FABRIC_WAKE_MOST_NS)
        fabric->wake_ns = FABRIC_WAKE_MOST_NS;
}

/* Look at the clock until it is `until_ns`, at the expense of what may be spent so. */
static void spin(struct fabric *fabric, int64_t until_ns)
{
    int64_t began_ns = clock_monotonic_ns(), now_ns = began_ns;
    while (now_ns < until_ns)
        now_ns = clock_monotonic_ns();
    fabric->spin_ns -= now_ns - began_ns;
}

/* Wait for frames until something is due. What shows nothing outside waits for what does, unless a NIC is to drain.
 *
 * A sleeper wakes late, for a timer as for a frame. So the alarm is set early by what a wake-up takes and the rest is spun,
 * for at most one part in FABRIC_SPIN_PART of what was slept; and a frame that woke the loop came in by that much earlier.
 */
static int wait_ready(struct fabric *fabric, struct epoll_event *ready)
{
    int64_t next_ns = fabric->paused_count ? eventq_next_ns(&fabric->events) : eventq_wake_ns(&fabric->events);
    int64_t began_ns = clock_monotonic_ns(), due_ns = fabric->woke_ns + FABRIC_WAKE_NS;
    due_ns = next_ns > due_ns ? next_ns : due_ns;
    int64_t alarm_ns = fabric->spin_ns >= fabric->wake_ns ? due_ns - fabric->wake_ns : due_ns;
    int64_t wait_ns = alarm_ns > began_ns ? alarm_ns - began_ns : 0;
    struct timespec timeout = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    int count = epoll_pwait2(fabric->epoll, ready, READY_MAX, next_ns == EVENTQ_NEVER ? NULL : &timeout, NULL);
    int64_t woke_ns = clock_monotonic_ns(), slept_ns = woke_ns - began_ns;
    fabric->spin_ns += slept_ns / FABRIC_SPIN_PART;
    if (fabric->spin_ns > FABRIC_SPIN_MOST_NS)
        fabric->spin_ns = FABRIC_SPIN_MOST_NS;
    fabric->unseen_ns = count > 0 ? (slept_ns < fabric->wake_ns ? slept_ns : fabric->wake_ns) : 0;
    if (count == 0 && wait_ns) {
        learn_wake(fabric, woke_ns - alarm_ns);
        if (alarm_ns < due_ns)
            spin(fabric, due_ns);
    }
    return count;
}

static int loop(struct fabric *fabric)
{
    struct epoll_event ready[READY_MAX];
    while (!atomic_load(&fabric->stopping)) {
        fabric->woke_ns = clock_monotonic_ns();
        eventq_run(&fabric->events, fabric->woke_ns, FABRIC_EVENT_BATCH);
        flush_kept(fabric);
        if (fabric->paused_count)
            resume_paused(fabric);
        int count = wait_ready(fabric, ready);
        if (count < 0 && errno != EINTR)
            return errno;
        for (int i = 0; i < count; i++) {
            if (ready[i].data.u32 == WAKE)
                on_wake(fabric);
            else
                read_port(fabric, fabric->ports[ready[i].data.u32]);
        }
    }
    return 0;
}

int fabric_run(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    rest(fabric);
    fabric->running = true;
    pthread_mutex_unlock(&fabric->lock);
    int result = loop(fabric);
    pthread_mutex_lock(&fabric->lock);
    fabric->running = false;
    if (fabric->abandoned)
        result = ETIMEDOUT;
    serve_call(fabric);
    pthread_cond_broadcast(&fabric->called);
    pthread_mutex_unlock(&fabric->lock);
    return result;
}

static void wake_up(struct fabric *fabric)
{
    uint64_t one = 1;
    ssize_t written = write(fabric->wake, &one, sizeof one);
    (void)written; /* it fails only when the counter is full, and then the loop is awake */
}

void fabric_stop(struct fabric *fabric)
{
    atomic_store(&fabric->stopping, true);
    wake_up(fabric);
}

static bool held_by_me(const struct fabric *fabric)
{
    return fabric->held && pthread_equal(fabric->holder, pthread_self());
}

static bool held_by_another(const struct fabric *fabric)
{
    return fabric->held && !held_by_me(fabric);
}

static bool calls_are_refused(const struct fabric *fabric)
{
    return held_by_another(fabric) || (fabric->running && !fabric->held && fabric->call);
}

/* Have the loop call a function; false: it does not in time, and will not. The lock is held. */
static bool call_by_loop(struct fabric *fabric, void (*call)(struct fabric *fabric, void *argument), void *argument)
{
    struct timespec limit = limit_of_a_hold();
    uint64_t before = fabric->served;
    int result = 0;
    fabric->call = call;
    fabric->argument = argument;
    wake_up(fabric);
    while (fabric->served == before && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&fabric->called, &fabric->lock, &limit);
    if (fabric->served != before)
        return true;
    fabric->call = NULL;
    pthread_cond_broadcast(&fabric->called);
    return false;
}

bool fabric_call(struct fabric *fabric, void (*call)(struct fabric *fabric, void *argument), void *argument)
{
    pthread_mutex_lock(&fabric->lock);
    bool done = wait_while(fabric, calls_are_refused);
    if (done && fabric->running && !held_by_me(fabric))
        done = call_by_loop(fabric, call, argument);
    else if (done)
        call(fabric, argument);
    pthread_mutex_unlock(&fabric->lock);
    return done;
}

int fabric_hold(struct fabric *fabric)
{
    int result = 0;
    pthread_mutex_lock(&fabric->lock);
    if (held_by_me(fabric)) {
        result = EDEADLK;
    } else if (!wait_while(fabric, held_by_another)) {
        result = ETIMEDOUT;
    } else {
        fabric->held = true;
        fabric->holder = pthread_self();
        wake_up(fabric);
        struct timespec limit = limit_of_a_hold();
        while (fabric->running && !fabric->parked && !result)
            result = pthread_cond_timedwait(&fabric->called, &fabric->lock, &limit);
        if (result)
            let_go(fabric);
        else
            fabric->rest_ns = fabric_catch_up(fabric);
    }
    pthread_mutex_unlock(&fabric->lock);
    return result;
}

int fabric_release(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    int result = held_by_me(fabric) ? 0 : EPERM;
    if (!result)
        let_go(fabric);
    pthread_mutex_unlock(&fabric->lock);
    return result;
}

/* --- packets by hand ----------------------------------------------------------------------------------------------- */

int64_t fabric_now_ns(const struct fabric *fabric)
{
    int64_t now_ns = fabric->is_virtual ? fabric->virtual_ns : clock_monotonic_ns();
    return now_ns < fabric->rest_ns ? now_ns : fabric->rest_ns;
}

int64_t fabric_catch_up(struct fabric *fabric)
{
    int64_t now_ns = fabric_now_ns(fabric);
    if (!fabric->playing) /* else it is between two events, of which the next may be at this instant too */
        eventq_run(&fabric->events, now_ns, SIZE_MAX);
    return now_ns;
}

struct packet *fabric_packet(struct fabric *fabric, const uint8_t *frame, size_t length)
{
    struct packet *packet = packet_new(&fabric->pool, length);
    if (packet) {
        if (length)
            memcpy(packet->frame, frame, length);
        packet->flags |= PACKET_STALE;
        packet_layout(packet);
        classify(&fabric->job, packet);
    }
    return packet;
}

void fabric_emit(struct fabric_port *port, struct packet *packet, int64_t now_ns)
{
    if (port->port.capture)
        split_capture(port->port.capture, packet, now_ns, CAPTURE_OUTBOUND);
    host_sends(port, packet, now_ns);
}

void fabric_send(struct fabric_port *port, struct packet *packet)
{
    fabric_emit(port, packet, fabric_catch_up(port->fabric));
}

void fabric_advance(struct fabric *fabric, int64_t until_ns)
{
    eventq_run(&fabric->events, until_ns, SIZE_MAX);
    fabric->virtual_ns = until_ns;
}

/* Call what is due; false: something failed. What is called may be native code, that does not look for interrupts. */
static bool call_due(struct fabric *fabric, bool (*interrupted)(void))
{
    for (struct due *due; !fabric->ends_playing && (due = due_take(&fabric->due));)
        if (!due->serve(due, fabric->virtual_ns) || interrupted())
            return false;
    return true;
}

bool fabric_play(struct fabric *fabric, int64_t until_ns, bool (*interrupted)(void))
{
    bool well = true;
    fabric->playing = true;
    fabric->ends_playing = false;
    for (;;) {
        well = call_due(fabric, interrupted);
        if (!well || fabric->ends_playing)
            break;
        size_t fired = eventq_run(&fabric->events, until_ns, FABRIC_PLAY_EVENTS);
        fabric->fired += fired;
        if (fabric->due.first) {
            fabric->virtual_ns = fabric->due.at_ns;
        } else if (fired < FABRIC_PLAY_EVENTS) {
            fabric->virtual_ns = until_ns;
            break;
        } else if (interrupted()) {
            well = false;
            break;
        }
    }
    fabric->playing = false;
    return well;
}
