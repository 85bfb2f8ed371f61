/* Priority flow control (IEEE 802.1Q-2018, clause 36; frames: IEEE 802.3 annex 31D): asking whoever sends to a port to pause.
 *
 * One frame asks for as many priorities as have changed. It goes ahead of all queues of the port, when the packet in service
 * is out, and says what holds then. While a priority is to stay paused it is asked for again in time; where that is lost,
 * the pause ends by itself. A cut cable ends none, so that nothing comes that there is no room for; when it is mended, what
 * holds is said anew. On its way a frame meets neither loss, corruption, duplication nor jitter.
 */
#ifndef NETCORE_PFC_H
#define NETCORE_PFC_H

#include "egress.h"

#define PFC_FRAME_BYTES 60  /* 64 with FCS: the least that Ethernet has */
#define PFC_QUANTUM_BITS 512
#define PFC_QUANTA_MAX UINT16_MAX

struct pfc_frame {
    uint8_t enabled; /* a bit for each priority that is spoken of */
    uint16_t quanta[PACKET_PRIORITIES]; /* 0: go on */
};

/* Write the PFC_FRAME_BYTES of a frame. */
void pfc_write(uint8_t *frame, const struct pfc_frame *from);

/* False: this is none. */
bool pfc_read(const uint8_t *frame, size_t length, struct pfc_frame *into);

/* For how long a number of quanta pauses. */
int64_t pfc_pause_ns(uint16_t quanta, uint64_t rate_bps);

/* What a port asks of its other end. */
struct pfc {
    struct egress *egress; /* by which the frames go */
    const struct link *from; /* what is paused: its rate says how long a quantum is */
    uint8_t asked;         /* a bit for each priority that is to pause */
    uint8_t untold;        /* or is to be told (again) whether it is to */
    uint8_t spoken;        /* or ever was spoken of */
    bool refreshing;       /* `refresh` is scheduled */
    struct event refresh;
    uint64_t sent;
};

/* Let frames go by an egress to whoever sends into the link `from`. False: no memory. */
bool pfc_init(struct pfc *pfc, struct egress *egress, const struct link *from);

/* Ask for a pause, or for its end. */
void pfc_ask(struct pfc *pfc, unsigned priority, bool pause, int64_t now_ns);

/* Say anew what holds, as frames may have been lost. */
void pfc_tell_all(struct pfc *pfc, int64_t now_ns);

/* The frame that says what is untold; NULL: there is nothing to say, or no memory. */
struct packet *pfc_take(struct pfc *pfc, int64_t now_ns);

/* Do what a packet from the other end asks of an egress. False: it is no pause frame, and nothing was done. */
bool pfc_obey(struct egress *egress, const struct packet *packet, int64_t now_ns);

#endif
