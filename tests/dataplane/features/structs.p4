// Nested structs, lists, records, swaps and default values.
#include <core.p4>
#include <v1model.p4>
struct pr { bit<8> x; bit<8> y; }
struct inn { bit<8> p; pr q; }
struct st { inn i; pr t; bool b; }
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { st deep; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        st s;
        s.i.p = h.k.a;
        s.i.q = {1, 2};
        s.t = s.i.q;
        s.b = s.t == s.i.q;
        if (s.b) { h.k.b = s.i.q.y; }
        s.t = {s.t.y, s.t.x};
        h.k.c = s.t.x ++ s.t.y;
        m.deep = s;
        m.deep.i.q = {y = 9, x = 8};
        h.k = {a = m.deep.i.q.x, ...};
        h.k.setInvalid();
        h.k = {1, m.deep.i.q.y, 3};
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
