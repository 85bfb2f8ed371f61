// Forwards as l3_ecmp does, and where a queue is deep cuts packets to their headers and sends those ahead of the queue.
//
// After NDP (Handley et al., SIGCOMM 2017): a receiver that sees the header asks for the rest at once, without a timeout. The
// lengths of IPv4 and UDP are set to what is left, the UDP checksum to 0, which is none; the DSCP tells a receiver that a
// packet was cut. RoCE's ICRC goes with the payload, so a receiver must not ask for it on cut packets.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills `trimmable`: the DSCP of packets that may be cut
// -> trim_above(depth, kept, dscp, priority): cut them to `kept` bytes from Ethernet on (at least 42, the headers up to UDP; 54
// keeps RoCE's BTH, 70 a RETH too, 74 immediate data as well) if their queue is deeper than `depth`, and give the rest this DSCP
// and priority. Depths are as in include/queue_depth.p4. Other packets, and what is not UDP, keep priority 0 and their bytes.
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"
#include "include/queue_depth.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    direct_counter(CounterType.packets_and_bytes) eligible;
    counter(1, CounterType.packets_and_bytes) trimmed;

    action trim_above(bit<32> depth, bit<16> kept, dscp_t dscp, priority_t priority) {
        bit<32> found;
        queue_depths.read(found, queue_index(standard_metadata.egress_spec, standard_metadata.priority));
        if (found > depth && standard_metadata.packet_length > (bit<32>)kept) {
            trimmed.count(0);
            truncate((bit<32>)kept);
            headers.ipv4.length = kept - ETHERNET_BYTES;
            headers.udp.length = kept - ETHERNET_BYTES - IPV4_BYTES;
            headers.udp.checksum = 0;
            headers.ipv4.dscp = dscp;
            standard_metadata.priority = priority;
        }
    }

    table trimmable {
        key = { headers.ipv4.dscp: exact @name("dscp"); }
        actions = { trim_above; NoAction; }
        default_action = NoAction;
        counters = eligible;
        size = 64;
    }

    apply {
        bit<32> draw;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
        if (headers.udp.isValid()) {
            trimmable.apply();
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
