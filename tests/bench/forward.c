/* A chain of native switches in memory between a source and a sink, driven by forward.py under the virtual clock. */
#include "fabric.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE_BPS UINT64_C(100000000000)
#define DELAY_NS 1000
#define QUEUE_BYTES (UINT64_C(1) << 20)

#define EXPORTED __attribute__((visibility("default")))

struct chain {
    struct fabric *fabric;
    struct fabric_port *source;
    uint64_t arrived;
};

static void sink(void *receiver, struct packet *packet)
{
    struct chain *chain = receiver;
    chain->arrived++;
    packet_free(&chain->fabric->pool, packet);
}

static struct link *join(struct fabric *fabric, struct fabric_port *from, struct fabric_port *to)
{
    if (!from || !to || !fabric_add_link(fabric, from, to, fabric->link_count))
        return NULL;
    struct link *link = &fabric->links[fabric->link_count - 1]->link;
    struct link_parameters parameters = {
        .rate_bps = RATE_BPS, .delay_ns = DELAY_NS, .queue_bytes = QUEUE_BYTES, .never_drops = from->host};
    link_parameters_loss(&parameters, 0, 1);
    link_set(link, &parameters);
    return link;
}

/* Packets enter each switch at port 0 and leave it at port 1. NULL: no memory. */
EXPORTED struct chain *chain_new(const struct p4_program *program, uint32_t switches)
{
    struct chain *chain = calloc(1, sizeof *chain);
    if (!chain || !(chain->fabric = fabric_new(1, true)))
        return NULL;
    struct fabric_port *from = chain->source = fabric_add_memory_port(chain->fabric);
    for (uint32_t i = 0; i < switches; i++) {
        struct p4_switch *of = fabric_add_switch(chain->fabric, program, i, 1);
        if (!of || !join(chain->fabric, from, fabric_add_switch_port(chain->fabric, of, 0)))
            return NULL;
        from = fabric_add_switch_port(chain->fabric, of, 1);
    }
    struct link *last = join(chain->fabric, from, fabric_add_memory_port(chain->fabric));
    if (!last)
        return NULL;
    last->deliver = sink;
    last->receiver = chain;
    return chain;
}

EXPORTED struct p4_instance *chain_instance(struct chain *chain, uint32_t number)
{
    return chain->fabric->switches[number]->now->instance;
}

EXPORTED void chain_free(struct chain *chain)
{
    fabric_destroy(chain->fabric);
    free(chain);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Send `count` frames in bursts back to back at the links' rate; ns of CPU time, 0: one did not arrive. */
EXPORTED uint64_t chain_run(struct chain *chain, const uint8_t *frames, uint32_t frame_bytes, uint32_t frame_count,
                            uint64_t count, uint32_t burst)
{
    struct fabric *fabric = chain->fabric;
    int64_t burst_ns = (int64_t)(burst * (frame_bytes + WIRE_OVERHEAD_BYTES) * UINT64_C(8000000000) / RATE_BPS) + 1;
    uint64_t begun = cpu_ns(), before = chain->arrived;
    for (uint64_t sent = 0; sent < count;) {
        for (uint32_t i = 0; i < burst && sent < count; i++, sent++) {
            struct packet *packet = fabric_packet(fabric, frames + sent % frame_count * frame_bytes, frame_bytes);
            if (!packet)
                return 0;
            fabric_send(chain->source, packet);
        }
        fabric_advance(fabric, fabric->virtual_ns + burst_ns);
    }
    fabric_advance(fabric, fabric->virtual_ns + INT64_C(1000000000));
    uint64_t taken = cpu_ns() - begun;
    return chain->arrived - before == count ? taken : 0;
}
