// Ways of an IPv4 packet, by its DSCP: to the port of its destination, and what is done meanwhile.
#include <core.p4>
#include <v1model.p4>

const bit<6> PLAIN = 0;
const bit<6> MULTICAST = 1;
const bit<6> TAG = 2;  // a header goes before the IPv4 header at one switch, and is taken away at the next
const bit<6> CLONE = 3;
const bit<6> TRUNCATE = 4;
const bit<6> PUNT = 5;
const bit<6> RECIRCULATE = 6;
const bit<6> SPOIL = 7;  // the RoCE header is changed

header ethernet_t {
    bit<96> addresses;
    bit<16> ethertype;
}

header tag_t {
    bit<48> about;
    bit<16> ethertype;
}

header ipv4_t {
    bit<8> version_and_length;
    bit<6> dscp;
    bit<2> ecn;
    bit<32> length_and_id;
    bit<32> rest;
    bit<16> checksum;
    bit<32> source;
    bit<24> network;
    bit<8> host;
}

header udp_t {
    bit<64> all;
}

header bth_t {
    bit<8> opcode;
    bit<56> more;
    bit<32> sequence;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t tag;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
}

struct metadata_t {
    bit<8> again;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.ethertype) {
            0x88b5: tag;
            0x0800: ipv4;
            default: accept;
        }
    }
    state tag {
        packet.extract(h.tag);
        transition ipv4;
    }
    state ipv4 {
        packet.extract(h.ipv4);
        packet.extract(h.udp);
        packet.extract(h.bth);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply { }
}

control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    action to_port(bit<9> port) {
        sm.egress_spec = port;
    }
    table hosts {
        key = {
            h.ipv4.host: exact;
        }
        actions = {
            to_port;
        }
    }
    apply {
        hosts.apply();
        m.again = sm.instance_type == 4 ? 8w1 : 8w0;
        if (h.tag.isValid()) {
            h.ethernet.ethertype = h.tag.ethertype;
            h.tag.setInvalid();
        } else if (h.ipv4.dscp == TAG) {
            h.tag.setValid();
            h.tag.about = 0x112233445566;
            h.tag.ethertype = h.ethernet.ethertype;
            h.ethernet.ethertype = 0x88b5;
        } else if (h.ipv4.dscp == MULTICAST) {
            sm.mcast_grp = 1;
        } else if (h.ipv4.dscp == CLONE) {
            clone(CloneType.I2E, 1);
        } else if (h.ipv4.dscp == TRUNCATE) {
            truncate(100);
        } else if (h.ipv4.dscp == PUNT) {
            sm.egress_spec = 510;
        } else if (h.ipv4.dscp == SPOIL) {
            h.bth.sequence = h.bth.sequence + 100;
        }
    }
}

control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        if (h.ipv4.dscp == RECIRCULATE && m.again == 0) {
            recirculate_preserving_field_list(0);
        }
    }
}

control Update(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.tag);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
        packet.emit(h.bth);
    }
}

V1Switch(Parse(), Verify(), In(), Out(), Update(), Deparse()) main;
