// Adds up the vectors of a job's workers on one switch, and forwards all else as l3_ecmp does.
//
// SwitchML's protocol, with what include/aggregation.p4 says of packets and slots. The last contribution to a chunk leaves as
// the result, a copy to each child; a child that sends its contribution again after that gets the result alone, by the port
// it asked at. Results come from the address that contributions go to, the aggregator's. The largest of the exponents goes
// with the sums.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills
//   jobs      the aggregator's address -> aggregate_root(number, children, first_slot, slots, values, group): the job's number,
//             how many children it has here (at most 32), its part of the pool's 2048 slots, how many values a packet has,
//             and the multicast group of the children, child i with rid i + 1
//   children  job and child, from 1 on -> to_child(source, destination, address, queue_pair): MAC addresses, IP address and,
//             for RoCE, the queue pair that a result goes to
// Contributions to an address that is not in `jobs` are forwarded.
//
// By slot of the pool, `completed` counts chunks, `answered_again` results to one child, `ignored` contributions that were
// there already, and the register `arrivals` has a bit for each child whose contribution is there. `refused` counts what was
// dropped for a reason, by 8 x job + reason.
#include <core.p4>
#include <v1model.p4>

#include "include/aggregation.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    Check() check;
    Contribution() contribution;
    Answer() answer;
    job_t job;
    bit<16> all_children;

    action aggregate_root(bit<8> number, bit<6> children, slot_t first_slot, bit<12> slots, bit<16> values,
                          bit<16> group) {
        job = { number, children, first_slot, slots, values };
        all_children = group;
    }

    table jobs {
        key = { headers.ipv4.destination: exact @name("aggregator"); }
        actions = { aggregate_root; NoAction; }
        default_action = NoAction;
        size = 256;
    }

    apply {
        if (headers.aggregation.isValid() && headers.aggregation.kind == KIND_ADD && jobs.apply().hit) {
            slot_t slot = job.first_slot + headers.aggregation.slot[10:0];
            outcome_t outcome;
            check.apply(headers, meta, job, standard_metadata);
            contribution.apply(headers, job, slot, outcome);
            if (outcome == COMPLETES || outcome == AGAIN) {
                answer.apply(headers, meta, slot, all_children, outcome, standard_metadata);
            } else {
                mark_to_drop(standard_metadata);
            }
        } else {
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
