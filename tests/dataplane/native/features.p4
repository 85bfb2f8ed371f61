// Value set, stacks with run-time indices, a stack of unions, varbit, digest, log_msg, assert.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> i; bit<8> n; bit<8> r; }
header e_t { bit<8> v; }
header x_t { bit<8> a; } header y_t { bit<16> b; }
header_union u_t { x_t x; y_t y; }
header o_t { bit<8> len; varbit<64> data; bit<8> tail; }
struct H { k_t k; e_t[4] s; u_t[2] u; o_t o; o_t p; }
struct D { bit<8> r; bit<16> w; }
struct M { bit<8> t; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) vs;
    state start { pk.extract(h.k); m.t = h.k.n; transition select(h.k.i) { vs: special; default: more; } }
    state special { m.t = 0xAA; transition accept; }
    state more { transition select(m.t) { 0: un; default: el; } }
    state el { pk.extract(h.s.next); m.t = m.t - 1; transition more; }
    state un { transition select(pk.lookahead<bit<8>>()) { 1: ux; 2: uy; 3: vb; default: accept; } }
    state ux { pk.extract(h.u.next.x); transition un; }
    state uy { pk.extract(h.u.next.y); transition un; }
    state vb { pk.extract(h.o, (bit<32>)(pk.lookahead<bit<16>>()[7:0]) * 8); transition accept; }
}
control Vfy(inout H h, inout M m) { apply { } }
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (m.t == 0xAA) { h.k.r = 0xAA; return; }
        h.k.r = h.s[h.k.i].v;
        h.s[h.k.i].v = 0x77;
        h.p = h.o;
        log_msg("i {} r {}", { h.k.i, h.k.r });
        assert(h.k.i != 9);
        digest<D>(1, { h.k.r, 16w0x1234 });
    }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control Cmp(inout H h, inout M m) { apply { } }
control Dep(packet_out pk, in H h) { apply { pk.emit(h.k); pk.emit(h.s); pk.emit(h.u); pk.emit(h.o); pk.emit(h.p); } }
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
