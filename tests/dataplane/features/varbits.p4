// Varbits outside of headers, and comparisons of varbits and of headers that have one.
#include <core.p4>
#include <v1model.p4>
header v_t { bit<8> n; varbit<32> o; }
header r_t { bit<8> same; }
struct H { r_t r; v_t a; v_t b; v_t[2] st; }
struct M { bit<8> at; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        m.at = pk.lookahead<bit<8>>();
        pk.extract(h.a, (bit<32>)(pk.lookahead<bit<8>>() << 3));
        pk.extract(h.b, (bit<32>)(pk.lookahead<bit<8>>() << 3));
        transition accept;
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    varbit<32> kept;
    apply {
        sm.egress_spec = 1;
        h.r.setValid();
        h.st[0] = h.b;
        h.st[1] = h.a;
        h.r.same = 0;
        if (h.a.o == h.b.o) { h.r.same = h.r.same | 1; }
        if (h.a.o != h.b.o) { h.r.same = h.r.same | 2; }
        if (h.a == h.b) { h.r.same = h.r.same | 4; }
        if (h.st[m.at & 1].o == h.a.o) { h.r.same = h.r.same | 8; }
        kept = h.a.o;
        h.a.o = h.b.o;
        h.b.o = kept;
        h.st[0].setInvalid();
        h.st[1].setInvalid();
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
