/* A switch for tests: one instance of a program, and packets carried through it one after another without any time passing.
 *
 * It does what a traffic manager does, in bmv2's order, with one queue that is always served at once.
 */
#ifndef P4_EXCHANGE_H
#define P4_EXCHANGE_H

#include "abi.h"
#include "replication.h"

#define EXCHANGE_PASSES 4096 /* work items that one injected packet may cause: a program that loops is stopped */

struct exchange;

struct exchange_output {
    uint32_t port;
    uint32_t length;
    const uint8_t *data;
};

/* NULL: no memory, or the program speaks another ABI. `log` as in `p4_host`. */
struct exchange *exchange_new(const struct p4_program *program, uint64_t seed, void (*log)(void *, const char *));
void exchange_destroy(struct exchange *exchange);
struct p4_instance *exchange_instance(struct exchange *exchange);
const struct p4_program *exchange_program(const struct exchange *exchange);
bool exchange_set_group(struct exchange *exchange, uint16_t group, const struct replica *replicas, uint32_t count);
bool exchange_set_session(struct exchange *exchange, uint16_t session, const struct clone_session *config);
void exchange_set_depth(struct exchange *exchange, uint32_t depth); /* what packets find in their queue and leave behind; first 0 */

/* Carry a frame, and all that comes of it, to the end; false: no memory. Outputs are kept until `exchange_forget`. */
bool exchange_inject(struct exchange *exchange, uint32_t port, const uint8_t *frame, uint32_t length, int64_t now_ns);
uint32_t exchange_output_count(const struct exchange *exchange);
struct exchange_output exchange_output(const struct exchange *exchange, uint32_t index);
uint64_t exchange_digest_count(const struct exchange *exchange);
uint64_t exchange_stopped_count(const struct exchange *exchange); /* packets that passed the limit */
void exchange_forget(struct exchange *exchange);

struct exchange_frame {
    uint32_t port;
    uint32_t length;
    const uint8_t *data;
};

/* Inject `count` mutants of the frames; false: no memory. */
bool exchange_fuzz(struct exchange *exchange, const struct exchange_frame *frames, uint32_t frame_count, uint64_t count,
                   uint64_t seed);

/* Forward copies of the frames `count` times in memory, packet after packet; ns of CPU time it took, 0: no memory. */
uint64_t exchange_bench(struct exchange *exchange, const struct exchange_frame *frames, uint32_t frame_count, uint64_t count);

#endif
