// Generic structs and functions.
#include <core.p4>
#include <v1model.p4>
struct P<A, B> { A x; B y; }
T first<T>(in T a, in T b) { return a; }
T mx<T>(in T a, in T b) { T r = a; return r; }
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        P<bit<8>, bit<16>> p = { h.k.a, h.k.c };
        h.k.b = first(p.x, h.k.b);
        h.k.c = mx<bit<16>>(p.y, 16w5);
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
