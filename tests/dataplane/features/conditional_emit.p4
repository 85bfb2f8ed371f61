// Emits under a condition and twice; varbit in a sub-parser; if in a parser; structs among headers.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; }
header v_t { bit<8> n; varbit<64> o; }
struct In { k_t k2; bit<8> w; }
struct H { k_t k; v_t v; In inn; }
struct M { In q; tuple<bit<8>, bool> tt; }
parser Sub(packet_in pk, out v_t v, in bit<8> n) {
    state start {
        pk.extract(v, (bit<32>)n * 8);
        transition accept;
    }
}
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    Sub() s;
    state start {
        pk.extract(h.k);
        if (h.k.b > 4) { m.q.w = 3; } else { m.q.w = 4; }
        s.apply(pk, h.v, h.k.a);
        transition select(h.k.b) { 1..6: x; default: accept; }
    }
    state x { pk.extract(h.inn.k2); transition accept; }
}
control Vfy(inout H h, inout M m) {
    apply { }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.inn.w = m.q.w;
        m.tt = {h.k.a, true};
        if (m.tt[1]) { h.k.a = m.tt[0] + 1; }
        h.inn.k2.b = m.q.w;
    }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) {
    apply { }
}
control Cmp(inout H h, inout M m) {
    apply { }
}
control Dep(packet_out pk, in H h) {
    apply {
        pk.emit(h.k);
        if (h.k.b == 3) { pk.emit(h.inn.k2); }
        pk.emit(h.v);
        pk.emit(h.k);
    }
}
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
