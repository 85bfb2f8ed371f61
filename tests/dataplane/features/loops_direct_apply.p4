// for loops that are unrolled, with break; a control applied by its type.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; }
struct H { k_t k; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control C(inout k_t k) {
    table t {
        key = { k.a: exact; }
        actions = { NoAction; }
    }
    apply {
        if (t.apply().hit) { k.a = 1; return; }
        k.a = 3;
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    table t2 {
        key = { h.k.b : ternary; }
        actions = { NoAction; }
    }
    apply {
        sm.egress_spec = 1;
        C.apply(h.k);
        for (bit<8> i in 1..3) {
            h.k.b = h.k.b + i;
            if (h.k.b > 200) { break; }
        }
        switch (t2.apply().action_run) {
            NoAction: { h.k.a = 9; }
        }
        for (@unroll bit<8> j = 0; j < 3; j += 1) { h.k.a = h.k.a ^ j; }
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
