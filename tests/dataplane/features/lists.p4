// Tuples, list constants, stacks written out, invalid headers, a loop over a stack.
#include <core.p4>
#include <v1model.p4>
struct pr { bit<8> x; bit<8> y; }
struct list_t { bit<8> a; pr b; }
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        tuple<bit<8>, bit<16>> t = {h.k.a, h.k.c};
        if (t == {h.k.a, 16w5}) { h.k.b = 1; }
        h.k.c = t[1] + 1;
        const list_t z = {1, {2, 3}};
        h.k.a = z.b.y;
        k_t[2] st = {{1,2,3},{4,5,6}};
        h.k.b = st[1].b + (bit<8>)(bit<1>)st[0].isValid();
        st[1] = {#};
        if (st[1] == h.k) { h.k.c = 1; }
        if (st[0] != {1, 2, 3}) { h.k.c = 2; }
        for (k_t one in st) { h.k.c = h.k.c + one.c; }
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
