// Averages the words of a job's workers, as an optical interconnect does in passing, and forwards all else as l3_ecmp does.
//
// After OptINC (Fei et al., arXiv 2603.28290): a unit has N inputs, a power of two, which each send a word of 8 or 16 bits;
// when those of all inputs are there, their rounded mean leaves to all of them. Words are what light has levels for: not
// negative, a value and half the range. A word has 32 bits of a packet here, and words must be below 2^21 / N.
//
// A unit is one switch. Units make a cascade of any depth: those below the root send their means up, as one contribution,
// with some bits of fraction, so that only the root's rounding loses any. All units at one height must have as many inputs,
// or the mean of means is none. With what a unit's inputs have in bits of fraction, and with what its mean is to have,
//   shift = log2(N) + fraction of the inputs - fraction of the mean,   mean = sum / 2^shift
// rounded to the nearest, halves to even: halves that all go up would make means that are too large on the average.
//
// Who is connected to whom is set once. A slot has one version, which takes one chunk after the other (numbers grow, modulo
// 2^32). Nothing is asked for or sent again, and nothing is kept for that: a chunk that begins takes the place of one that
// is not complete. What else include/aggregation.p4 says of packets, exponents and refusals holds.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills
//   jobs      the root's address -> average_root(number, children, first_slot, slots, values, group, shift): see aggregate.p4,
//             or average_leaf(number, children, first_slot, slots, values, group, shift, index): likewise, and the unit's own
//             number among its parent's inputs
//   children  job and child, from 1 on -> to_child(source, destination, address, queue_pair): see aggregate.p4; a unit is a
//             child as a host is, with any address that is routed to it
//
// By slot of the pool, `completed` counts chunks, `abandoned` those whose place was taken before they were complete,
// `ignored` contributions that came twice or too late, and the register `arrivals` has a bit for each input that is there.
#include <core.p4>
#include <v1model.p4>

#include "include/aggregation.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

#define FOUR(word) (word ++ word ++ word ++ word)

// Adds an input's words to their chunk.
control Input(inout headers_t headers, in job_t job, in slot_t slot, out bool is_whole) {
    counter(POOL_SLOTS, CounterType.packets) completed;
    counter(POOL_SLOTS, CounterType.packets) abandoned;
    counter(POOL_SLOTS, CounterType.packets) ignored;
    Store() store;
    Add() add;

    apply {
        place_t place = slot ++ 1w0;
        bit<64> own = 64w1 << headers.aggregation.worker[4:0];
        bit<64> all = (64w1 << job.children) - 1;
        bit<64> here;
        bit<64> number;
        arrivals.read(here, (bit<32>)slot);
        chunks.read(number, (bit<32>)slot);
        bit<32> ahead = headers.aggregation.chunk - number[31:0];
        if (ahead != 0 && ahead[31:31] == 0) {
            if (here != 0 && here != all) {
                abandoned.count((bit<32>)slot);
            }
            here = 0;
            ahead = 0;
            chunks.write((bit<32>)slot, (bit<64>)headers.aggregation.chunk);
        }
        is_whole = false;
        if (ahead == 0 && here & own == 0) {
            if (here == 0) {
                store.apply(headers, place);
            } else {
                add.apply(headers, place);
            }
            here = here | own;
            arrivals.write((bit<32>)slot, here);
            if (here == all) {
                is_whole = true;
                completed.count((bit<32>)slot);
            }
        } else {
            ignored.count((bit<32>)slot);
        }
    }
}

// Makes sums means.
control Mean(inout headers_t headers, in bit<8> shift) {
    values_t nearly_half;
    values_t mask;

#define DIVIDE(values, number) \
    values = (values + nearly_half + (values >> shift & FOUR(32w1))) >> shift & mask;
#define MEANS(number) \
    if (headers.blocks[number].isValid()) { \
        EACH(DIVIDE, headers.blocks[number]) \
    }

    apply {
        if (shift != 0) {
            nearly_half = FOUR(((32w1 << (shift - 1)) - 1));
            mask = FOUR((32w0xFFFF_FFFF >> shift));
            MEANS(0) MEANS(1) MEANS(2) MEANS(3) MEANS(4) MEANS(5) MEANS(6) MEANS(7)
        }
    }
}

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    Check() check;
    Input() arriving;
    Mean() mean;
    ipv4_address_t aggregator;
    job_t job;
    bit<16> all_children;
    bit<8> divisor;
    bool is_root;
    bit<16> own_index;

    action average_root(bit<8> number, bit<6> children, slot_t first_slot, bit<12> slots, bit<16> values, bit<16> group,
                        bit<8> shift) {
        job = { number, children, first_slot, slots, values };
        all_children = group;
        divisor = shift;
        is_root = true;
    }

    action average_leaf(bit<8> number, bit<6> children, slot_t first_slot, bit<12> slots, bit<16> values, bit<16> group,
                        bit<8> shift, bit<16> index) {
        job = { number, children, first_slot, slots, values };
        all_children = group;
        divisor = shift;
        is_root = false;
        own_index = index;
    }

    table jobs {
        key = { aggregator: exact; }
        actions = { average_root; average_leaf; NoAction; }
        default_action = NoAction;
        size = 256;
    }

    apply {
        bool forwards = true;
        bool splits = false;
        bool is_result = headers.aggregation.kind == KIND_RESULT;
        if (headers.aggregation.isValid() && (is_result || headers.aggregation.kind == KIND_ADD)) {
            aggregator = is_result ? headers.ipv4.source : headers.ipv4.destination;
            if (jobs.apply().hit && !(is_result && is_root)) {
                check.apply(headers, meta, job, standard_metadata);
                forwards = false;
                if (is_result) {
                    splits = true;
                } else {
                    bool is_whole;
                    arriving.apply(headers, job, job.first_slot + headers.aggregation.slot[10:0], is_whole);
                    if (!is_whole) {
                        mark_to_drop(standard_metadata);
                    } else {
                        mean.apply(headers, divisor);
                        meta.summed = true;
                        if (is_root) {
                            splits = true;
                            headers.aggregation.kind = KIND_RESULT;
                            headers.aggregation.worker = 0;
                            headers.ipv4.source = headers.ipv4.destination;
                            headers.udp.source_port = headers.udp.destination_port;
                        } else {
                            headers.aggregation.worker = own_index;
                            forwards = true;
                        }
                    }
                }
            }
        }
        if (splits) {
            meta.summed = true;
            headers.ipv4.ttl = 64;
            standard_metadata.mcast_grp = all_children;
        }
        if (forwards) {
            bit<32> draw;
            flow_hash.apply(headers, draw);
            routing.apply(headers, draw, standard_metadata);
        }
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Sending() sending;

    apply {
        sending.apply(headers, meta, standard_metadata);
    }
}

V1Switch(AggregationParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
