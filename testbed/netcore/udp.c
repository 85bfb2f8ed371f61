#include "udp.h"

#include "clock.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define SEND_CONTROL_BYTES (CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t)))
#define RECEIVE_CONTROL_BYTES 128

bool udp_prepare(int fd)
{
    int on = 1, discover = IP_PMTUDISC_DO;
    return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0 &&
           setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on) == 0 &&
           setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0;
}

static void add_control(struct msghdr *message, int level, int type, const void *value, size_t bytes)
{
    struct cmsghdr *control = (struct cmsghdr *)((char *)message->msg_control + message->msg_controllen);
    control->cmsg_level = level;
    control->cmsg_type = type;
    control->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(control), value, bytes);
    message->msg_controllen += CMSG_SPACE(bytes);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == ENOBUFS;
}

static ssize_t send_singly(int fd, struct msghdr *common, uint8_t *data, size_t length, size_t segment_bytes)
{
    size_t sent = 0;
    while (sent < length) {
        struct mmsghdr messages[UDP_SEND_BATCH];
        struct iovec pieces[UDP_SEND_BATCH];
        size_t planned = sent;
        unsigned count = 0;
        for (; count < UDP_SEND_BATCH && planned < length; count++) {
            size_t bytes = length - planned < segment_bytes ? length - planned : segment_bytes;
            pieces[count] = (struct iovec){data + planned, bytes};
            messages[count].msg_hdr = *common;
            messages[count].msg_hdr.msg_iov = &pieces[count];
            messages[count].msg_hdr.msg_iovlen = 1;
            planned += bytes;
        }
        int done = sendmmsg(fd, messages, count, MSG_DONTWAIT);
        if (done < 0)
            return would_block() || sent ? (ssize_t)sent : -1;
        for (int i = 0; i < done; i++)
            sent += pieces[i].iov_len;
        if ((unsigned)done < count)
            break;
    }
    return (ssize_t)sent;
}

ssize_t udp_send(int fd, uint32_t ip, uint16_t port, const uint8_t *data, size_t length, size_t segment_bytes,
                 uint8_t tos, bool segmented)
{
    _Alignas(struct cmsghdr) char control[SEND_CONTROL_BYTES] = {0};
    struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    struct iovec all = {(uint8_t *)data, length};
    struct msghdr message = {.msg_name = &target, .msg_namelen = sizeof target, .msg_control = control};
    int tos_value = tos;
    add_control(&message, IPPROTO_IP, IP_TOS, &tos_value, sizeof tos_value);
    if (!segmented && length > segment_bytes)
        return send_singly(fd, &message, (uint8_t *)data, length, segment_bytes);
    if (length > segment_bytes) {
        uint16_t segment = (uint16_t)segment_bytes;
        add_control(&message, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    }
    message.msg_iov = &all;
    message.msg_iovlen = 1;
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT);
    return sent < 0 && would_block() ? 0 : sent;
}

static void read_control(struct msghdr *header, int64_t realtime_offset_ns, struct udp_message *message)
{
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control)) {
        const void *value = CMSG_DATA(control);
        if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
            memcpy(&message->tos, value, sizeof message->tos);
        } else if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == UDP_GRO) {
            int segment = 0;
            memcpy(&segment, value, sizeof segment);
            message->segment_bytes = (size_t)segment;
        } else if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, value, sizeof at);
            message->at_ns = at.tv_sec * NS_PER_S + at.tv_nsec - realtime_offset_ns;
        }
    }
}

int udp_receive(int fd, uint8_t *buffer, size_t slots, struct udp_message *messages)
{
    struct mmsghdr headers[UDP_RECEIVE_BATCH];
    struct iovec pieces[UDP_RECEIVE_BATCH];
    struct sockaddr_in sources[UDP_RECEIVE_BATCH];
    _Alignas(struct cmsghdr) char controls[UDP_RECEIVE_BATCH][RECEIVE_CONTROL_BYTES];
    unsigned count = slots < UDP_RECEIVE_BATCH ? (unsigned)slots : UDP_RECEIVE_BATCH;
    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){buffer + (size_t)i * UDP_SLOT_BYTES, UDP_SLOT_BYTES};
        headers[i].msg_hdr = (struct msghdr){
            .msg_name = &sources[i],
            .msg_namelen = sizeof sources[i],
            .msg_iov = &pieces[i],
            .msg_iovlen = 1,
            .msg_control = controls[i],
            .msg_controllen = RECEIVE_CONTROL_BYTES,
        };
    }
    int got = recvmmsg(fd, headers, count, MSG_DONTWAIT, NULL);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    int64_t offset_ns = clock_realtime_offset_ns();
    for (int i = 0; i < got; i++) {
        messages[i] = (struct udp_message){
            .offset = (size_t)i * UDP_SLOT_BYTES,
            .bytes = headers[i].msg_len,
            .source_ip = ntohl(sources[i].sin_addr.s_addr),
            .source_port = ntohs(sources[i].sin_port),
        };
        read_control(&headers[i].msg_hdr, offset_ns, &messages[i]);
    }
    return got;
}

int64_t udp_drops(int fd)
{
    uint32_t values[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof values;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, values, &length) != 0)
        return -1;
    return values[SK_MEMINFO_DROPS];
}
