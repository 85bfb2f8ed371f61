// Forwards as l3_ecmp does, and where a queue is deep lets go first of the gradients that training misses least.
//
// After DLCP (arXiv 2008.08445): front layers are needed first and bear more loss, small magnitudes more than large ones. So
// a packet's class is its layer's and its magnitude's, both numbered as the operator likes; a class has a priority, and a
// depth of its queue above which its packets are dropped, or marked CE instead. Depths are as in include/queue_depth.p4.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills
//   gradients  DSCP and RoCE opcode, queue pair and partition key, each with a mask -> gradient(layer, magnitude)
//   classes    layer and magnitude -> drop_above(depth, priority) or mark_above(depth, priority)
// What is in no entry of `gradients`, or in one with NoAction, is no gradient: priority 0, never dropped early nor marked.
// Likewise a class without an entry.
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"
#include "include/queue_depth.p4"

typedef bit<3> layer_t;
typedef bit<2> magnitude_t;

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    direct_counter(CounterType.packets_and_bytes) classified;
    counter(32, CounterType.packets_and_bytes) dropped_early;  // by layer and, in the low two bits, magnitude
    counter(32, CounterType.packets_and_bytes) marked;
    bit<8> opcode = 0;
    bit<24> queue_pair = 0;
    bit<16> partition_key = 0;
    layer_t layer = 0;
    magnitude_t magnitude = 0;
    bit<32> limit = 0xFFFF_FFFF;  // deeper than any queue
    bool drops = false;

    action gradient(layer_t of_layer, magnitude_t of_magnitude) {
        layer = of_layer;
        magnitude = of_magnitude;
    }

    table gradients {
        key = {
            headers.ipv4.dscp: ternary @name("dscp");
            opcode: ternary;  // these three are 0 where there is no RoCE
            queue_pair: ternary;
            partition_key: ternary;
        }
        actions = { gradient; NoAction; }
        default_action = NoAction;
    }

    action mark_above(bit<32> depth, priority_t priority) {
        limit = depth;
        standard_metadata.priority = priority;
    }

    action drop_above(bit<32> depth, priority_t priority) {
        mark_above(depth, priority);
        drops = true;
    }

    table classes {
        key = { layer: exact; magnitude: exact; }
        actions = { drop_above; mark_above; NoAction; }
        default_action = NoAction;
        counters = classified;
        size = 32;
    }

    apply {
        bit<32> draw;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
        if (headers.bth.isValid()) {
            opcode = headers.bth.opcode;
            queue_pair = headers.bth.queue_pair;
            partition_key = headers.bth.partition_key;
        }
        switch (gradients.apply().action_run) {
            gradient: { classes.apply(); }
        }
        bit<32> class = 27w0 ++ layer ++ magnitude;
        bit<32> depth;
        queue_depths.read(depth, queue_index(standard_metadata.egress_spec, standard_metadata.priority));
        if (depth > limit) {
            if (drops) {
                dropped_early.count(class);
                mark_to_drop(standard_metadata);
            } else if (headers.ipv4.ecn != ECN_NOT_ECT) {
                marked.count(class);
                headers.ipv4.ecn = ECN_CE;
            }
        }
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    RememberDepth() remember_depth;

    apply {
        remember_depth.apply(standard_metadata);
    }
}

V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
