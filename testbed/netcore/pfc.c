#include "pfc.h"

#include <string.h>

#define ETHERTYPE_MAC_CONTROL 0x8808
#define OPCODE_PFC 0x0101
#define VECTOR_AT 16
#define QUANTA_AT 18

static const uint8_t addresses[12] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, /* MAC control, which no bridge forwards */
                                      0x02, 0x00, 0x00, 0x00, 0x00, 0x01};

void pfc_write(uint8_t *frame, const struct pfc_frame *from)
{
    memset(frame, 0, PFC_FRAME_BYTES);
    memcpy(frame, addresses, sizeof addresses);
    store16(frame + 12, ETHERTYPE_MAC_CONTROL);
    store16(frame + 14, OPCODE_PFC);
    store16(frame + VECTOR_AT, from->enabled);
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        store16(frame + QUANTA_AT + 2 * i, from->quanta[i]);
}

bool pfc_read(const uint8_t *frame, size_t length, struct pfc_frame *into)
{
    if (length < QUANTA_AT + 2 * PACKET_PRIORITIES || load16(frame + 12) != ETHERTYPE_MAC_CONTROL ||
        load16(frame + 14) != OPCODE_PFC || memcmp(frame, addresses, 6) != 0)
        return false;
    into->enabled = (uint8_t)load16(frame + VECTOR_AT);
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        into->quanta[i] = load16(frame + QUANTA_AT + 2 * i);
    return true;
}

int64_t pfc_pause_ns(uint16_t quanta, uint64_t rate_bps)
{
    return (int64_t)((unsigned __int128)quanta * PFC_QUANTUM_BITS * 1000000000 / rate_bps);
}

static void on_refresh(struct event *event, int64_t at_ns)
{
    struct pfc *pfc = CONTAINER_OF(event, struct pfc, refresh);
    pfc->refreshing = false;
    pfc->untold |= pfc->asked;
    egress_serve(pfc->egress, at_ns);
}

bool pfc_init(struct pfc *pfc, struct egress *egress, const struct link *from)
{
    *pfc = (struct pfc){.egress = egress, .from = from, .refresh.fire = on_refresh};
    egress->pfc = pfc;
    return eventq_attach(egress->link->events, 1);
}

void pfc_ask(struct pfc *pfc, unsigned priority, bool pause, int64_t now_ns)
{
    uint8_t bit = (uint8_t)(1u << priority);
    pfc->asked = pause ? pfc->asked | bit : pfc->asked & (uint8_t)~bit;
    pfc->untold |= bit;
    pfc->spoken |= bit;
    egress_serve(pfc->egress, now_ns);
}

void pfc_tell_all(struct pfc *pfc, int64_t now_ns)
{
    pfc->untold = pfc->spoken;
    egress_serve(pfc->egress, now_ns);
}

struct packet *pfc_take(struct pfc *pfc, int64_t now_ns)
{
    struct link *link = pfc->egress->link;
    if (pfc->asked && !pfc->refreshing) {
        int64_t half_ns = pfc_pause_ns(PFC_QUANTA_MAX / 2, pfc->from->parameters.rate_bps);
        pfc->refreshing = true;
        eventq_schedule(link->events, &pfc->refresh, now_ns + half_ns);
    }
    struct packet *packet = pfc->untold ? packet_new(link->pool, PFC_FRAME_BYTES) : NULL;
    if (packet) {
        struct pfc_frame frame = {.enabled = pfc->untold};
        for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
            frame.quanta[i] = pfc->untold & pfc->asked & 1u << i ? PFC_QUANTA_MAX : 0;
        pfc_write(packet->frame, &frame);
        packet->flags = PACKET_PFC;
        packet->ingress = PACKET_NO_INGRESS;
        pfc->sent++;
    }
    pfc->untold = 0; /* also where there was no memory: a pause is asked for again, and ends by itself */
    return packet;
}

bool pfc_obey(struct egress *egress, const struct packet *packet, int64_t now_ns)
{
    struct pfc_frame frame;
    if (!pfc_read(packet->frame, packet->length, &frame))
        return false;
    for (unsigned i = 0; i < PACKET_PRIORITIES; i++)
        if (frame.enabled >> i & 1)
            egress_pause(egress, i, now_ns + pfc_pause_ns(frame.quanta[i], egress->link->parameters.rate_bps), now_ns);
    return true;
}
