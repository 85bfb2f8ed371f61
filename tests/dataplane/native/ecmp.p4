// Longest prefix, ECMP by the hash of the five-tuple, TTL, checksum verified and updated: what a speed is measured on.
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ip_t {
    bit<4> ver; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<16> frag;
    bit<8> ttl; bit<8> pro; bit<16> sum; bit<32> src; bit<32> dst;
}
header l4_t { bit<16> sport; bit<16> dport; }
struct H { eth_t eth; ip_t ip; l4_t l4; }
struct M { bit<16> group; bit<16> pick; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.eth); transition select(h.eth.kind) { 0x800: ip; default: accept; } }
    state ip { pk.extract(h.ip); transition select(h.ip.pro) { 6: l4; 17: l4; default: accept; } }
    state l4 { pk.extract(h.l4); transition accept; }
}
#define FIELDS { h.ip.ver, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.frag, h.ip.ttl, h.ip.pro, h.ip.src, h.ip.dst }
control Vfy(inout H h, inout M m) {
    apply { verify_checksum(h.ip.isValid(), FIELDS, h.ip.sum, HashAlgorithm.csum16); }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) used;
    action drop() { mark_to_drop(sm); exit; }
    action to_group(bit<16> group, bit<16> size) {
        m.group = group;
        hash(m.pick, HashAlgorithm.crc32, 16w0, { h.ip.src, h.ip.dst, h.ip.pro, h.l4.sport, h.l4.dport }, size);
    }
    action to_port(bit<9> port, bit<48> dmac) {
        sm.egress_spec = port;
        h.eth.src = h.eth.dst;
        h.eth.dst = dmac;
        h.ip.ttl = h.ip.ttl - 1;
    }
    table routes { key = { h.ip.dst: lpm; } actions = { to_group; drop; } default_action = drop; size = 4096; }
    table members {
        key = { m.group: exact; m.pick: exact; }
        actions = { to_port; drop; }
        default_action = drop;
        counters = used;
    }
    apply {
        if (!h.ip.isValid() || h.ip.ttl < 2 || sm.checksum_error == 1) { drop(); }
        routes.apply();
        members.apply();
    }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control Cmp(inout H h, inout M m) {
    apply { update_checksum(h.ip.isValid(), FIELDS, h.ip.sum, HashAlgorithm.csum16); }
}
control Dep(packet_out pk, in H h) { apply { pk.emit(h.eth); pk.emit(h.ip); pk.emit(h.l4); } }
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
