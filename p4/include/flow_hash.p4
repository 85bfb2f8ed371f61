// A number that is the same for all packets of a flow: a hash of its addresses, protocol and ports, salted per switch.
//
// A controller sets the default action of `salts`, a table without key, to salted(salt). CRC-32 alone would not do: it is
// linear, so that a salt in its input only renumbers the members, and two switches in a row would choose alike.
#ifndef FLOW_HASH_P4
#define FLOW_HASH_P4

#include "headers.p4"

// Each bit of the result depends on all bits of x: the finaliser of A. Appleby's MurmurHash3.
bit<32> mixed(in bit<32> x) {
    bit<32> y = (x ^ (x >> 16)) * 0x85EBCA6B;
    y = (y ^ (y >> 13)) * 0xC2B2AE35;
    return y ^ (y >> 16);
}

control FlowHash(in headers_t headers, out bit<32> result) {
    bit<32> salt = 0;

    action salted(bit<32> value) {
        salt = value;
    }

    table salts {
        actions = { salted; }
        default_action = salted(0);
    }

    apply {
        bit<32> flow;
        bit<16> source_port = 0;
        bit<16> destination_port = 0;
        if (headers.udp.isValid()) {
            source_port = headers.udp.source_port;
            destination_port = headers.udp.destination_port;
        } else if (headers.tcp.isValid()) {
            source_port = headers.tcp.source_port;
            destination_port = headers.tcp.destination_port;
        }
        salts.apply();
        hash(flow, HashAlgorithm.crc32, 32w0,
             { headers.ipv4.source, headers.ipv4.destination, headers.ipv4.protocol, source_port, destination_port },
             33w0x1_0000_0000);
        result = mixed(flow ^ salt);
    }
}

#endif
