/* A plain relay between two interfaces, and a generator of frames, for the benchmark of the fabric's ports.
 *
 *     packets relay IN OUT                            until it is killed
 *     packets generate INTERFACE BYTES RATE SECONDS   at RATE packets/s (0: as fast as it can); prints how many were sent
 *
 * BYTES of a frame count its FCS. Frames are UDP to 10.1.0.9:4791 from 256 source ports in turn.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define FRAME_BYTES 2048
#define SUPER_BYTES 65536
#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define UDP_BYTES 8
#define HEADER_BYTES (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define BUFFER_BYTES (32 << 20)
#define FLOWS 256
#define FCS_BYTES 4
#define SEGMENTS_UDP 5 /* VIRTIO_NET_HDR_GSO_UDP_L4 of Linux 6.2 */

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void set(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value) != 0)
        fail("setsockopt");
}

static int open_interface(const char *name, int protocol)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0)
        fail("socket");
    set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES);
    set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES);
    struct packet_mreq promiscuous = {.mr_ifindex = (int)if_nametoindex(name), .mr_type = PACKET_MR_PROMISC};
    if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) != 0)
        fail(name);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol)};
    address.sll_ifindex = promiscuous.mr_ifindex;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail(name);
    return fd;
}

static uint8_t frames[FLOWS][SUPER_BYTES];

static void send_all(int fd, struct mmsghdr *first, unsigned count)
{
    while (count) {
        int sent = sendmmsg(fd, first, count, 0);
        if (sent < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
            fail("sendmmsg");
        first += sent > 0 ? sent : 0;
        count -= sent > 0 ? (unsigned)sent : 0;
    }
}

static void relay(const char *from, const char *to)
{
    int in = open_interface(from, ETH_P_ALL), out = open_interface(to, 0);
    set(out, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    static struct iovec pieces[BATCH];
    static struct mmsghdr messages[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){frames[0] + i * FRAME_BYTES, FRAME_BYTES};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int got = recvmmsg(in, messages, BATCH, MSG_DONTWAIT, NULL);
        if (got < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = in, .events = POLLIN};
            poll(&ready, 1, -1);
            continue;
        }
        if (got < 0)
            fail("recvmmsg");
        for (int i = 0; i < got; i++)
            pieces[i].iov_len = messages[i].msg_len;
        send_all(out, messages, (unsigned)got);
        for (int i = 0; i < got; i++)
            pieces[i].iov_len = FRAME_BYTES;
    }
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void store16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* A device that can neither checksum nor segment: the kernel cuts super-packets before it, which costs least a packet. */
static void take_offloads_away(int fd, const char *name)
{
    struct ethtool_value off = {.cmd = ETHTOOL_STXCSUM};
    struct ifreq request = {.ifr_data = (char *)&off};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0)
        fail(name);
    set(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
}

static void make_super_packet(uint8_t *frame, size_t payload, unsigned flow)
{
    static const uint8_t start[] = {
        2, 0, 0, 0, 9, 2, 2, 0, 0, 0, 9, 1, 8, 0,                              /* Ethernet */
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 1, 0, 9, /* IPv4 */
        0xc0, 0, 4791 >> 8, 4791 & 255, 0, 0, 0, 0,                            /* UDP */
    };
    memcpy(frame, start, sizeof start);
    store16(frame + 16, (unsigned)(IPV4_BYTES + UDP_BYTES + BATCH * payload));
    store16(frame + 34, 0xc000 + flow);
    store16(frame + 38, (unsigned)(UDP_BYTES + BATCH * payload));
    uint32_t sum = 0;
    for (unsigned i = 14; i < 34; i += 2)
        sum += (unsigned)(frame[i] << 8 | frame[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    store16(frame + 24, ~((sum & 0xffff) + (sum >> 16)) & 0xffff);
    sum = 17 + (unsigned)(UDP_BYTES + BATCH * payload); /* of the pseudo header; the kernel adds the rest */
    for (unsigned i = 26; i < 34; i += 2)
        sum += (unsigned)(frame[i] << 8 | frame[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    store16(frame + 40, ((sum & 0xffff) + (sum >> 16)) & 0xffff);
}

static void generate(const char *to, size_t bytes, double rate, double seconds)
{
    int fd = open_interface(to, 0);
    size_t payload = bytes - FCS_BYTES - HEADER_BYTES;
    struct virtio_net_hdr about = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = SEGMENTS_UDP,
        .hdr_len = HEADER_BYTES,
        .gso_size = (uint16_t)payload,
        .csum_start = ETHERNET_BYTES + IPV4_BYTES,
        .csum_offset = 6,
    };
    take_offloads_away(fd, to);
    for (unsigned i = 0; i < FLOWS; i++)
        make_super_packet(frames[i], payload, i);
    uint64_t sent = 0;
    int64_t start = now_ns(), end = start + (int64_t)(seconds * 1e9), now = start;
    for (; now < end; now = now_ns()) {
        if (rate > 0 && (double)sent > (double)(now - start) * rate / 1e9)
            continue;
        struct iovec parts[] = {{&about, sizeof about}, {frames[sent / BATCH % FLOWS], HEADER_BYTES + BATCH * payload}};
        if (writev(fd, parts, 2) < 0)
            fail("writev");
        sent += BATCH;
    }
    printf("%llu %lld\n", (unsigned long long)sent, (long long)(now - start));
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "relay") == 0)
        relay(words[2], words[3]);
    if (count != 6 || strcmp(words[1], "generate") != 0)
        return 2;
    generate(words[2], (size_t)atoi(words[3]), atof(words[4]), atof(words[5]));
    return 0;
}
