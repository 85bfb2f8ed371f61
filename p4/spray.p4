// Forwards IPv4 by the longest prefix and sprays packets over equal ports: each packet draws a port of its own.
//
// Receivers must bear packets out of order. All else is as in l3_ecmp: a controller fills the tables `routes` and
// `members` (include/routing.p4) with the very same entries; there is no salt, for draws are independent between switches.
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "include/ipv4.p4"
#include "include/routing.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Routing() routing;

    apply {
        bit<32> draw;
        random(draw, 32w0, 32w0xFFFF_FFFF);
        routing.apply(headers, draw, standard_metadata);
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
