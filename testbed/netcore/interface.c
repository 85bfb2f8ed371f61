#include "interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAC_ADDRESSES_BYTES 12
#define VLAN_TAG_BYTES 4
#define RING_BYTES ((size_t)INTERFACE_SLOT_BYTES * INTERFACE_SLOTS)

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
    struct tpacket_req ring = {
        .tp_block_size = INTERFACE_BLOCK_BYTES,
        .tp_block_nr = RING_BYTES / INTERFACE_BLOCK_BYTES,
        .tp_frame_size = INTERFACE_SLOT_BYTES,
        .tp_frame_nr = INTERFACE_SLOTS,
    };
    return address.sll_ifindex && set(fd, SOL_PACKET, PACKET_VNET_HDR, 1) &&
           set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) && set(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer) &&
           set(fd, SOL_SOCKET, SO_SNDBUFFORCE, buffer) && set(fd, SOL_PACKET, PACKET_COPY_THRESH, 1) &&
           set(fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2) &&
           setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) == 0 &&
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

uint32_t interface_drops(int fd)
{
    struct tpacket_stats counts = {0};
    socklen_t size = sizeof counts;
    return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0 ? counts.tp_drops : 0;
}

bool interface_init(struct interface *interface, int fd)
{
    void *ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *interface = (struct interface){.fd = fd, .ring = ring == MAP_FAILED ? NULL : ring};
    return interface->ring;
}

void interface_destroy(struct interface *interface)
{
    if (interface->ring)
        munmap(interface->ring, RING_BYTES);
}

/* The tag that the kernel took off, or 0: the frame had none, or has it still. */
static uint32_t removed_tag(const struct tpacket2_hdr *slot)
{
    if (!(slot->tp_status & TP_STATUS_VLAN_VALID))
        return 0;
    uint32_t type = slot->tp_status & TP_STATUS_VLAN_TPID_VALID ? slot->tp_vlan_tpid : ETH_P_8021Q;
    return type << 16 | slot->tp_vlan_tci;
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
static bool take(struct packet_pool *pool, uint8_t *received, size_t length, uint32_t tag, struct packet_list *packets)
{
    struct virtio_header header;
    struct packet_list cut;
    memcpy(&header, received, VIRTIO_HEADER_BYTES);
    bool whole = offload_cut(pool, NULL, &header, received + VIRTIO_HEADER_BYTES, length, &cut);
    for (struct packet *packet; whole && (packet = packet_take(&cut));) {
        if (tag && !(packet = tagged(pool, packet, tag)))
            whole = false;
        else
            packet_append(packets, packet);
    }
    return whole;
}

/* As above, for what a slot tells of. */
static bool take_slot(struct interface *interface, struct packet_pool *pool, struct tpacket2_hdr *slot, uint8_t *scratch,
                      struct packet_list *packets)
{
    uint32_t tag = removed_tag(slot);
    if (slot->tp_snaplen == slot->tp_len)
        return take(pool, (uint8_t *)slot + slot->tp_mac - VIRTIO_HEADER_BYTES, slot->tp_len, tag, packets);
    if (!(slot->tp_status & TP_STATUS_COPY))
        return false; /* the socket's queue was full */
    ssize_t got = recv(interface->fd, scratch, VIRTIO_HEADER_BYTES + FRAME_MAX_BYTES, MSG_DONTWAIT);
    return got >= VIRTIO_HEADER_BYTES && take(pool, scratch, (size_t)got - VIRTIO_HEADER_BYTES, tag, packets);
}

/* Forget that the interface went down, which would wake whoever waits again and again. It may come up again. */
static void clear_error(int fd)
{
    int error;
    socklen_t size = sizeof error;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
}

int interface_read(struct interface *interface, struct packet_pool *pool, uint8_t *scratch, struct packet_list *packets,
                   uint64_t *malformed)
{
    int count = 0;
    for (; count < INTERFACE_BATCH; count++) {
        struct tpacket2_hdr *slot = (void *)(interface->ring + (size_t)interface->next * INTERFACE_SLOT_BYTES);
        if (!(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            break;
        if (!take_slot(interface, pool, slot, scratch, packets))
            (*malformed)++;
        __atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        interface->next = (interface->next + 1) % INTERFACE_SLOTS;
    }
    if (!count && interface->idle)
        clear_error(interface->fd);
    interface->idle = !count;
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
