// Forwards as l3_ecmp does, gives each packet the priority of its DSCP, and marks ECN-capable packets when their queue is deep.
//
// The mark is CE (RFC 3168), set on a packet that leaves more than the threshold behind it in its queue; a packet that is not
// ECN-capable is never touched. Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills `priorities`, DSCP
// to priority (0 where there is no entry; a larger one is served first), and the register `mark_above`: by priority, the
// threshold in the unit of deq_qdepth (bytes on native switches, packets on simple_switch); 0, as at first, never marks.
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

const bit<32> PRIORITIES = 8;

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    direct_counter(CounterType.packets_and_bytes) classified;

    action to_priority(priority_t priority) {
        standard_metadata.priority = priority;
    }

    table priorities {
        key = { headers.ipv4.dscp: exact @name("dscp"); }
        actions = { to_priority; }
        default_action = to_priority(0);
        counters = classified;
        size = 64;
    }

    apply {
        bit<32> draw;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
        priorities.apply();
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(PRIORITIES) mark_above;
    counter(PRIORITIES, CounterType.packets) marked;

    apply {
        bit<32> priority = (bit<32>)standard_metadata.priority;
        bit<32> threshold;
        mark_above.read(threshold, priority);
        if (threshold != 0 && (bit<32>)standard_metadata.deq_qdepth > threshold && headers.ipv4.ecn != ECN_NOT_ECT) {
            headers.ipv4.ecn = ECN_CE;
            marked.count(priority);
        }
    }
}

V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
