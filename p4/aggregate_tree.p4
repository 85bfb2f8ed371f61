// Adds up the vectors of a job's workers over a tree of switches, and forwards all else as l3_ecmp does.
//
// At the root of a job's tree a switch does what aggregate.p4 does; below it a switch sends its children's sums up as one
// contribution, and copies the result that comes down to its children. It keeps the result in place of its own sums, so that
// it answers itself a child that asks again after that; before, all ask, and when its first child does it sends its sums up
// again. A parent sees a switch as it sees a worker. Contributions go to the root's address all the way up, by `routes`.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills
//   jobs      the root's address -> aggregate_root(number, children, first_slot, slots, values, group): see aggregate.p4, or
//             aggregate_leaf(number, children, first_slot, slots, values, group, index): likewise, and the switch's own
//             number among its parent's children
//   children  job and child, from 1 on -> to_child(source, destination, address, queue_pair): see aggregate.p4; a switch is
//             a child as a host is, with any address that is routed to it
//
// By slot of the pool there are `completed`, `answered_again`, `ignored` and `arrivals` (see aggregate.p4), and `asked_again`
// counts how often sums were sent up again, `came_twice` results that were there already.
#include <core.p4>
#include <v1model.p4>

#include "include/aggregation.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

// By slot and version: the number of the chunk whose result took the place of the sums, plus 1.
register<bit<32>>(POOL_SLOTS * 2) answers;

// A result that came down: for all children, if it is due.
control Descent(inout headers_t headers, inout metadata_t meta, in slot_t slot, in bit<16> group,
                inout standard_metadata_t standard_metadata) {
    counter(POOL_SLOTS, CounterType.packets) came_twice;
    Store() store;

    apply {
        place_t place = slot ++ headers.aggregation.version;
        bit<64> numbers;
        bit<32> answered;
        chunks.read(numbers, (bit<32>)slot);
        answers.read(answered, (bit<32>)place);
        bit<32> number = headers.aggregation.version == 1 ? numbers[63:32] : numbers[31:0];
        if (headers.aggregation.chunk == number && answered != number + 1) {
            store.apply(headers, place);
            answers.write((bit<32>)place, number + 1);
            meta.summed = true;
            headers.ipv4.ttl = 64;
            standard_metadata.mcast_grp = group;
        } else {
            came_twice.count((bit<32>)slot);
            mark_to_drop(standard_metadata);
        }
    }
}

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    Check() check;
    Contribution() contribution;
    Answer() answer;
    Descent() descent;
    counter(POOL_SLOTS, CounterType.packets) asked_again;
    ipv4_address_t aggregator;
    job_t job;
    bit<16> all_children;
    bool is_root;
    bit<16> own_index;

    action aggregate_root(bit<8> number, bit<6> children, slot_t first_slot, bit<12> slots, bit<16> values,
                          bit<16> group) {
        job = { number, children, first_slot, slots, values };
        all_children = group;
        is_root = true;
    }

    action aggregate_leaf(bit<8> number, bit<6> children, slot_t first_slot, bit<12> slots, bit<16> values,
                          bit<16> group, bit<16> index) {
        job = { number, children, first_slot, slots, values };
        all_children = group;
        is_root = false;
        own_index = index;
    }

    table jobs {
        key = { aggregator: exact; }
        actions = { aggregate_root; aggregate_leaf; NoAction; }
        default_action = NoAction;
        size = 256;
    }

    apply {
        bool forwards = true;
        bool is_result = headers.aggregation.kind == KIND_RESULT;
        if (headers.aggregation.isValid() && (is_result || headers.aggregation.kind == KIND_ADD)) {
            aggregator = is_result ? headers.ipv4.source : headers.ipv4.destination;
            if (jobs.apply().hit && !(is_result && is_root)) {
                slot_t slot = job.first_slot + headers.aggregation.slot[10:0];
                check.apply(headers, meta, job, standard_metadata);
                forwards = false;
                if (is_result) {
                    descent.apply(headers, meta, slot, all_children, standard_metadata);
                } else {
                    outcome_t outcome;
                    bit<32> answered;
                    contribution.apply(headers, job, slot, outcome);
                    answers.read(answered, (bit<32>)(slot ++ headers.aggregation.version));
                    bool is_final = is_root || answered == headers.aggregation.chunk + 1;
                    // All children lack the result: all ask again, and what the first one asks is enough.
                    bool is_echo = outcome == AGAIN && !is_final && headers.aggregation.worker != 0;
                    if ((outcome != COMPLETES && outcome != AGAIN) || is_echo) {
                        mark_to_drop(standard_metadata);
                    } else if (is_final) {
                        answer.apply(headers, meta, slot, all_children, outcome, standard_metadata);
                    } else {
                        if (outcome == AGAIN) {
                            asked_again.count((bit<32>)slot);
                        }
                        meta.summed = true;
                        headers.aggregation.worker = own_index;
                        forwards = true;
                    }
                }
            }
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
