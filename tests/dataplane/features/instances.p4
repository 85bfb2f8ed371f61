// Instances within instances, constructor arguments, controls applied by their type.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
control D(inout k_t k) {
    action z() { k.b = k.b + 1; }
    apply { z(); z(); }
}
@name("cc") control C(inout k_t k)(bit<8> v) {
    D() d1;
    D() d2;
    const bit<8> W = v + 1;
    apply {
        k.b = W;
        d1.apply(k);
        d2.apply(k);
        if (v == 3) { k.c = 5; } else { k.c = 6; }
    }
}
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    C(3) c;
    apply {
        sm.egress_spec = 1;
        c.apply(h.k);
        D.apply(h.k);
        D.apply(h.k);
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
