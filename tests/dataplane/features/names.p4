// @name on tables, actions and keys; actions for the default or for the table only; direct calls.
#include <core.p4>
#include <v1model.p4>
action g(inout bit<16> z) { z = z + 1; }
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    @name("pp") action p(bit<8> v) { h.k.b = v; }
    action q(bit<8> x, bit<3> y) { h.k.a = x + (bit<8>)y; }
    @name(".glob.tab") table t {
        key = { h.k.a : exact @name("aa"); h.k.isValid(): exact; h.k.c[3:0]: ternary; }
        actions = { @tableonly p; @defaultonly q; g(h.k.c); }
        const default_action = q(3, 4);
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        g(h.k.c);
        p(1);
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
