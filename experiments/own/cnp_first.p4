// Forwards as l3_ecmp does, and serves congestion notification packets before everything else.
//
// A CNP that waits behind the data it is to slow down comes too late, so NICs send it with a DSCP of its own: 48 here, the
// default of `cnp_dscp`. Priority 7 is the first that a port serves.
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

const dscp_t CNP_DSCP = 48;

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;

    apply {
        bit<32> draw;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
        if (headers.ipv4.isValid() && headers.ipv4.dscp == CNP_DSCP) {
            standard_metadata.priority = 7;
        }
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(8, CounterType.packets) by_priority;

    apply {
        by_priority.count((bit<32>)standard_metadata.priority);
    }
}

V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
