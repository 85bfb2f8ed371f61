// Reading a packet down to RoCE, and writing it again; the IPv4 checksum on both ways. Needs the program's metadata_t.
#ifndef IPV4_P4
#define IPV4_P4

#include "headers.p4"

parser HeadersParser(packet_in packet, out headers_t headers, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    // Fragments have no ports, not even the first one: all parts of a datagram shall be one flow.
    state ipv4 {
        packet.extract(headers.ipv4);
        transition select(headers.ipv4.header_words, headers.ipv4.more_fragments, headers.ipv4.fragment_offset,
                          headers.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_UDP): udp;
            (5, 0, 0, PROTOCOL_TCP): tcp;
            default: accept;
        }
    }

    state udp {
        packet.extract(headers.udp);
        transition select(headers.udp.destination_port) {
            UDP_PORT_ROCE: bth;
            default: accept;
        }
    }

    state tcp {
        packet.extract(headers.tcp);
        transition accept;
    }

    state bth {
        packet.extract(headers.bth);
        transition accept;
    }
}

#define IPV4_SUMMED { \
    headers.ipv4.version, headers.ipv4.header_words, headers.ipv4.dscp, headers.ipv4.ecn, headers.ipv4.length, \
    headers.ipv4.identification, headers.ipv4.reserved, headers.ipv4.dont_fragment, headers.ipv4.more_fragments, \
    headers.ipv4.fragment_offset, headers.ipv4.ttl, headers.ipv4.protocol, headers.ipv4.source, \
    headers.ipv4.destination }

control VerifyIpv4(inout headers_t headers, inout metadata_t meta) {
    apply {
        verify_checksum(headers.ipv4.isValid(), IPV4_SUMMED, headers.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control UpdateIpv4(inout headers_t headers, inout metadata_t meta) {
    apply {
        update_checksum(headers.ipv4.isValid(), IPV4_SUMMED, headers.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control HeadersDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers);
    }
}

#endif
