#include "port.h"

#include "clock.h"
#include "split.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* linux/if_tun.h of Linux 6.2 */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define SOURCE_MAC_LAST 11

bool port_init(struct port *port, int fd, struct port_options options, struct packet_pool *pool, uint64_t spray_key)
{
    struct stat about;
    *port = (struct port){.fd = fd, .options = options, .pool = pool, .spray_key = spray_key};
    if (fstat(fd, &about) != 0 || !S_ISSOCK(about.st_mode))
        return true;
    packet_pool_need(pool, VIRTIO_HEADER_BYTES);
    return interface_init(&port->interface, fd);
}

void port_destroy(struct port *port)
{
    if (port->capture)
        capture_close(port->capture);
    interface_destroy(&port->interface);
    close(port->fd);
}

int port_read(struct port *port, struct port_reading *reading, struct packet_list *packets)
{
    struct virtio_header header = {0};
    size_t offset = port->options.virtio ? VIRTIO_HEADER_BYTES : 0;
    *packets = (struct packet_list){0};
    if (port->interface.ring)
        return interface_read(&port->interface, port->pool, reading->scratch, packets, &port->malformed);
    if (port->options.virtio)
        reading->intake = intake_again(port->pool, reading->intake, PORT_SCRATCH_BYTES);
    struct intake *intake = port->options.virtio ? reading->intake : NULL;
    uint8_t *into = intake ? intake->bytes : reading->scratch;
    ssize_t got = read(port->fd, into, offset + FRAME_MAX_BYTES);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if ((size_t)got < offset) {
        port->malformed++;
        return 1;
    }
    memcpy(&header, into, offset);
    if (!offload_cut(port->pool, intake, &header, into + offset, (size_t)got - offset, packets))
        port->malformed++;
    return 1;
}

/* A packet that the kernel was given: it came out, or was not taken. */
static void gone(struct port *port, struct packet *packet, bool taken, int64_t now_ns)
{
    if (taken)
        link_came_out(packet->link, packet, now_ns);
    else
        port->write_errors++;
    packet_free(port->pool, packet);
}

/* Write one join out and free its packets. */
static void write_join(struct port *port, struct join *join)
{
    struct virtio_header header;
    struct iovec pieces[JOIN_PIECES];
    size_t count = join_describe(join, &header, pieces), skip = port->options.virtio ? 0 : 1;
    ssize_t done = writev(port->fd, pieces + skip, (int)(count - skip));
    int64_t now_ns = clock_monotonic_ns();
    for (struct packet *packet; (packet = packet_take(&join->packets));)
        gone(port, packet, done >= 0, now_ns);
    *join = (struct join){0};
}

static void write_batch(struct port *port)
{
    for (unsigned done = 0; done < port->waiting;) {
        unsigned taken = interface_write(port->fd, port->batch + done, port->waiting - done);
        int64_t now_ns = clock_monotonic_ns();
        for (unsigned i = 0; i < taken; i++)
            gone(port, port->batch[done++], true, now_ns);
        if (done < port->waiting && !taken)
            gone(port, port->batch[done++], false, now_ns);
    }
    port->waiting = 0;
}

void port_flush(struct port *port)
{
    for (unsigned i = 0; i < port->joining; i++)
        write_join(port, &port->joins[i]);
    port->joining = 0;
    write_batch(port);
}

/* Have all of a packet lie at its frame, where it is to be looked at or has to be one piece; NULL: no memory, and it is gone. */
static struct packet *gather(struct port *port, struct packet *packet)
{
    bool joins = port->options.join && !port->interface.ring;
    if (joins ? join_knows(packet) : packet_here(packet) == packet->length)
        return packet;
    struct packet *whole = split_fill(port->pool, packet, SPLIT_ALL);
    if (!whole)
        gone(port, packet, false, 0);
    return whole;
}

void port_write(struct port *port, struct packet *packet)
{
    if (port->options.spray) {
        uint8_t nibble = (uint8_t)(random_draw(port->spray_key, port->written) >> 60);
        packet->frame[SOURCE_MAC_LAST] = (uint8_t)((packet->frame[SOURCE_MAC_LAST] & 0xf0) | nibble);
    }
    port->written++;
    if (port->capture)
        split_capture(port->capture, packet, clock_monotonic_ns(), CAPTURE_INBOUND);
    if (!(packet = gather(port, packet)))
        return;
    if (port->interface.ring) {
        port->batch[port->waiting++] = packet;
        if (port->waiting == INTERFACE_BATCH)
            write_batch(port);
        return;
    }
    if (!port->options.join || !join_may_begin(packet)) {
        struct join alone = {0};
        port_flush(port);
        join_append(&alone, packet);
        write_join(port, &alone);
        return;
    }
    for (unsigned i = 0; i < port->joining; i++) {
        enum join_fit fit = join_fit(&port->joins[i], packet);
        if (fit == JOIN_OTHER)
            continue;
        if (fit == JOIN_BREAKS)
            write_join(port, &port->joins[i]);
        join_append(&port->joins[i], packet);
        return;
    }
    if (port->joining == PORT_FLOWS)
        port_flush(port);
    join_append(&port->joins[port->joining++], packet);
}

/* --- devices ------------------------------------------------------------------------------------------------------- */

int port_open_tap(const char *name, bool virtio, bool *segmentation)
{
    struct ifreq request = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL | (virtio ? IFF_VNET_HDR : 0))};
    if (strlen(name) >= IFNAMSIZ) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (ioctl(fd, TUNSETIFF, &request) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    /* The kernel wants both families of UDP segmentation or none. */
    unsigned long offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_USO4 | TUN_F_USO6;
    *segmentation = virtio && *segmentation && ioctl(fd, TUNSETOFFLOAD, offloads) == 0;
    return fd;
}

bool port_set_running(const char *name, bool running)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg interface;
        struct rtattr attribute;
        uint8_t state;
    } request = {
        .header = {NLMSG_LENGTH(sizeof(struct ifinfomsg)) + RTA_SPACE(1), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0},
        .interface = {.ifi_index = (int)if_nametoindex(name)},
        .attribute = {RTA_LENGTH(1), IFLA_OPERSTATE},
        .state = running ? IF_OPER_UP : IF_OPER_DORMANT,
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr body;
    } answer;
    int fd = request.interface.ifi_index ? socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) : -1;
    if (fd < 0)
        return false;
    bool told = send(fd, &request, sizeof request, 0) >= 0 && recv(fd, &answer, sizeof answer, 0) >= 0;
    int error = told ? -answer.body.error : errno;
    close(fd);
    errno = error;
    return !error;
}
