// apply().hit and miss inside of &&, || and !.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    action n() {}
    table t {
        key = { h.k.b: exact; }
        actions = { n; }
        const entries = { 1: n(); }
        const default_action = n;
    }
    table u {
        key = { h.k.b: ternary; }
        actions = { n; NoAction; }
        entries = { 7: n(); }
    }
    apply {
        sm.egress_spec = 1;
        if (h.k.a == 1 && t.apply().hit || h.k.a == 2) { h.k.b = 7; } else { h.k.b = 8; }
        if (!(h.k.a == 9 || u.apply().miss)) { h.k.c = 1; }
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
