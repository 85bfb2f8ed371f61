// Forwards IPv4 by the longest prefix and spreads flows over equal ports by a hash of the 5-tuple.
//
// The UDP source port of RoCEv2 is part of the 5-tuple, so that each queue pair is a flow of its own. The TTL is
// decremented, the checksum verified and updated, and what cannot be forwarded is dropped and counted by reason; each route
// counts its packets and bytes. A controller fills the tables `routes` and `members` (include/routing.p4) and sets the default
// action of `salts` to a number of the switch's own (include/flow_hash.p4).
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;

    apply {
        bit<32> draw;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
