#include "interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAC_ADDRESSES_BYTES 12
#define VLAN_TAG_BYTES 4

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* Nothing may come in before all is set: the socket listens to no protocol until it is bound. */
static bool prepare(int fd, const char *name)
{
    int buffer = INTERFACE_BUFFER_BYTES;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    address.sll_ifindex = (int)if_nametoindex(name);
    struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    return address.sll_ifindex && set(fd, SOL_PACKET, PACKET_VNET_HDR, 1) && set(fd, SOL_PACKET, PACKET_AUXDATA, 1) &&
           set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) && set(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer) &&
           set(fd, SOL_SOCKET, SO_SNDBUFFORCE, buffer) &&
           setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) == 0 &&
           bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

int interface_open(const char *name)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !prepare(fd, name)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* The tag that the kernel took off, or 0: the frame had none, or has it still. */
static uint32_t removed_tag(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        struct tpacket_auxdata about;
        if (part->cmsg_level != SOL_PACKET || part->cmsg_type != PACKET_AUXDATA)
            continue;
        memcpy(&about, CMSG_DATA(part), sizeof about);
        if (about.tp_status & TP_STATUS_VLAN_VALID) {
            uint32_t type = about.tp_status & TP_STATUS_VLAN_TPID_VALID ? about.tp_vlan_tpid : ETH_P_8021Q;
            return type << 16 | about.tp_vlan_tci;
        }
    }
    return 0;
}

static struct packet *tagged(struct packet_pool *pool, struct packet *packet, uint32_t tag)
{
    struct packet *whole = packet_new(pool, packet->length + VLAN_TAG_BYTES);
    if (whole) {
        memcpy(whole->frame, packet->frame, MAC_ADDRESSES_BYTES);
        store32(whole->frame + MAC_ADDRESSES_BYTES, tag);
        memcpy(whole->frame + MAC_ADDRESSES_BYTES + VLAN_TAG_BYTES, packet->frame + MAC_ADDRESSES_BYTES,
               packet->length - MAC_ADDRESSES_BYTES);
        whole->layout = frame_parse(whole->frame, whole->length);
    }
    packet_free(pool, packet);
    return whole;
}

/* Append the wire packets of a header and its frame; false: it is malformed, or the pool is exhausted. */
static bool take(struct packet_pool *pool, uint8_t *received, struct msghdr *message, size_t length,
                 struct packet_list *packets)
{
    struct virtio_header header;
    struct packet_list cut;
    memcpy(&header, received, VIRTIO_HEADER_BYTES);
    bool whole = !(message->msg_flags & MSG_TRUNC) && length >= VIRTIO_HEADER_BYTES &&
                 offload_cut(pool, &header, received + VIRTIO_HEADER_BYTES, length - VIRTIO_HEADER_BYTES, &cut);
    uint32_t tag = whole ? removed_tag(message) : 0;
    for (struct packet *packet; whole && (packet = packet_take(&cut));) {
        if (tag && !(packet = tagged(pool, packet, tag)))
            whole = false;
        else
            packet_append(packets, packet);
    }
    return whole;
}

int interface_read(int fd, struct packet_pool *pool, uint8_t *scratch, struct packet_list *packets, uint64_t *malformed)
{
    struct mmsghdr messages[INTERFACE_BATCH];
    struct iovec places[INTERFACE_BATCH];
    union {
        struct cmsghdr aligned;
        uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } about[INTERFACE_BATCH];
    for (unsigned i = 0; i < INTERFACE_BATCH; i++) {
        places[i] = (struct iovec){scratch + i * INTERFACE_FRAME_BYTES, VIRTIO_HEADER_BYTES + FRAME_MAX_BYTES};
        messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &places[i], .msg_iovlen = 1, .msg_control = &about[i], .msg_controllen = sizeof about[i]};
    }
    int count = recvmmsg(fd, messages, INTERFACE_BATCH, 0, NULL);
    /* ENETDOWN: told once when the interface goes down, which may come up again. EINVAL: a super-packet of a kind that a
     * virtio-net header cannot tell. */
    if (count < 0 && errno == EINVAL)
        (*malformed)++;
    if (count < 0)
        return errno == EAGAIN || errno == EINTR || errno == ENETDOWN || errno == EINVAL ? 0 : -1;
    for (int i = 0; i < count; i++)
        if (!take(pool, places[i].iov_base, &messages[i].msg_hdr, messages[i].msg_len, packets))
            (*malformed)++;
    return count;
}

/* The header of a whole frame is all zeros: in front of the frame where there is room, which spares a piece. */
unsigned interface_write(int fd, struct packet *const *packets, unsigned count)
{
    struct virtio_header whole = {0};
    struct mmsghdr messages[INTERFACE_BATCH];
    struct iovec pieces[INTERFACE_BATCH][2];
    for (unsigned i = 0; i < count; i++) {
        struct packet *packet = packets[i];
        bool room = packet->frame - packet->room >= VIRTIO_HEADER_BYTES;
        if (room) {
            memset(packet->frame - VIRTIO_HEADER_BYTES, 0, VIRTIO_HEADER_BYTES);
            pieces[i][0] = (struct iovec){packet->frame - VIRTIO_HEADER_BYTES, VIRTIO_HEADER_BYTES + packet->length};
        } else {
            pieces[i][0] = (struct iovec){&whole, VIRTIO_HEADER_BYTES};
            pieces[i][1] = (struct iovec){packet->frame, packet->length};
        }
        messages[i].msg_hdr = (struct msghdr){.msg_iov = pieces[i], .msg_iovlen = room ? 1 : 2};
    }
    int sent = sendmmsg(fd, messages, count, 0);
    return sent < 0 ? 0 : (unsigned)sent;
}
