// IPv4 forwarding: the longest prefix gives a port, or a group of ports of which `draw` takes one.
//
// A controller fills
//   routes   prefix -> to_port, to_next_hop, to_group(group, size) or drop
//   members  group and number below its size -> to_port or to_next_hop
// What has no route is dropped; `drops` counts it, and what was not fit to be forwarded, by reason.
#ifndef ROUTING_P4
#define ROUTING_P4

#include "headers.p4"

const bit<32> DROP_NOT_IPV4 = 0;     // or an IPv4 header that is cut off or has options
const bit<32> DROP_CHECKSUM = 1;
const bit<32> DROP_TTL = 2;
const bit<32> DROP_NO_ROUTE = 3;     // no prefix, an empty group, or a route that says so
const bit<32> DROP_REASONS = 4;

control Routing(inout headers_t headers, in bit<32> draw, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) routed;
    counter(DROP_REASONS, CounterType.packets) drops;
    bit<16> group;
    bit<16> size = 0;
    bit<16> member;

    action discard(in bit<32> reason) {
        drops.count(reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    action drop() {
        discard(DROP_NO_ROUTE);
    }

    action to_port(port_t port) {
        standard_metadata.egress_spec = port;
    }

    // As to_port, with the MAC addresses of the next cable.
    action to_next_hop(port_t port, mac_t source, mac_t destination) {
        standard_metadata.egress_spec = port;
        headers.ethernet.source = source;
        headers.ethernet.destination = destination;
    }

    action to_group(bit<16> number, bit<16> members) {
        group = number;
        size = members;
    }

    table routes {
        key = { headers.ipv4.destination: lpm; }
        actions = { to_port; to_next_hop; to_group; drop; }
        default_action = drop;
        counters = routed;
        size = 65536;
    }

    table members {
        key = { group: exact; member: exact; }
        actions = { to_port; to_next_hop; drop; }
        default_action = drop;
        size = 65536;
    }

    apply {
        if (!headers.ipv4.isValid() || headers.ipv4.version != 4 || headers.ipv4.header_words != 5) {
            discard(DROP_NOT_IPV4);
        }
        if (standard_metadata.checksum_error == 1) {
            discard(DROP_CHECKSUM);
        }
        if (headers.ipv4.ttl < 2) {
            discard(DROP_TTL);
        }
        headers.ipv4.ttl = headers.ipv4.ttl - 1;
        routes.apply();
        if (size != 0) {
            // The upper half of draw, scaled from 0 .. 65535 to 0 .. size - 1.
            member = (((bit<32>)draw[31:16]) * (bit<32>)size)[31:16];
            members.apply();
        }
    }
}

#endif
