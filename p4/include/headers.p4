// The headers of a RoCEv2 packet, outermost first, and the numbers in them that the programs know.
#ifndef HEADERS_P4
#define HEADERS_P4

typedef bit<9> port_t;
typedef bit<3> priority_t;  // a larger one is served first
typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
typedef bit<6> dscp_t;
typedef bit<2> ecn_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_PORT_ROCE = 4791;

const ecn_t ECN_NOT_ECT = 0;  // RFC 3168
const ecn_t ECN_CE = 3;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;  // without options

header ethernet_t {
    mac_t destination;
    mac_t source;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4> version;
    bit<4> header_words;  // IHL
    dscp_t dscp;
    ecn_t ecn;
    bit<16> length;
    bit<16> identification;
    bit<1> reserved;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_address_t source;
    ipv4_address_t destination;
}

header udp_t {
    bit<16> source_port;  // RoCEv2: the flow's entropy
    bit<16> destination_port;
    bit<16> length;
    bit<16> checksum;
}

// As much of TCP as a flow is told by.
header tcp_ports_t {
    bit<16> source_port;
    bit<16> destination_port;
}

// InfiniBand's base transport header.
header bth_t {
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migration;
    bit<2> pad;
    bit<4> version;
    bit<16> partition_key;
    bit<8> flags;
    bit<24> queue_pair;  // of the receiver
    bit<1> acknowledge;
    bit<7> reserved;
    bit<24> sequence;  // PSN
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    tcp_ports_t tcp;
    bth_t bth;
#ifdef HEADERS_BEHIND
    HEADERS_BEHIND  // those of a program that reads on
#endif
}

#endif
