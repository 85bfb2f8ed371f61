// A stack of header unions: extraction, assignment, validity, equality.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> n; }
header a_t { bit<8> t; bit<8> x; }
header b_t { bit<8> t; bit<16> y; }
header_union U { a_t a; b_t b; }
struct H { k_t k; U[3] us; }
struct M { bit<8> c; U loc; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        pk.extract(h.k);
        m.c = h.k.n;
        transition select(m.c) { 0: accept; default: more; }
    }
    state more {
        m.c = m.c - 1;
        transition select(pk.lookahead<bit<8>>()) { 1: pa; 2: pb; default: accept; }
    }
    state pa {
        pk.extract(h.us.next.a);
        transition select(m.c) { 0: accept; default: more; }
    }
    state pb {
        pk.extract(h.us.next.b);
        m.c = m.c + (bit<8>)(h.us.last.b.y & 0);
        transition select(m.c) { 0: accept; default: more; }
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (h.us[0].isValid()) { sm.egress_spec = 2; }
        if (h.us[0].a.isValid()) { h.us[1] = h.us[0]; h.us[1].a.x = 0x77; } else if (h.us[0].b.isValid()) {
            h.us[0].a.setValid();
            h.us[0].a = {5, 6};
        }
        if (h.us[0] == h.us[1]) { h.k.n = 0xEE; }
    }
}
control Vfy(inout H h, inout M m) {
    apply { }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) {
    apply { }
}
control Cmp(inout H h, inout M m) {
    apply { }
}
control Dep(packet_out pk, in H h) {
    apply { pk.emit(h); }
}
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
