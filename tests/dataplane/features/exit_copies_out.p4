// exit in a table action of a control whose two inout arguments are one field.
#include <core.p4>
#include <v1model.p4>
control C(inout bit<8> p, inout bit<8> q) {
    action e(bit<8> v) { p = v; q = q + 1; exit; }
    table t {
        key = { p : exact; }
        actions = { e; NoAction; }
        const entries = { 1: e(5); }
    }
    apply { t.apply(); p = p + 2; }
}
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    C() c;
    apply {
        sm.egress_spec = 1;
        c.apply(h.k.a, h.k.a);
        h.k.b = 99;
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
