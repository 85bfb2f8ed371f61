// A switch on action_run within another; return and exit in its cases and in actions.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    action x() { }
    action y(bit<8> v) {
        if (v == 0) { return; }
        h.k.b = v;
        if (v == 4) { h.k.b = 5; exit; }
        h.k.a = v;
    }
    table t {
        key = { h.k.a[3:0]: exact; }
        actions = { x; y; }
        default_action = y(9);
        const entries = { 1: x(); 2: y(0); 3: y(4); }
    }
    table u {
        key = { h.k.a[7:4]: range; }
        actions = { x; y; }
        default_action = x();
        const entries = { 1..2: y(8); }
    }
    apply {
        sm.egress_spec = 1;
        switch (t.apply().action_run) {
            x: {
                switch (u.apply().action_run) {
                    y: { h.k.c = 1; return; }
                    default: { h.k.c = 2; }
                }
            }
            y: default: {
                if (h.k.b == 9) { exit; }
                h.k.c = 3;
            }
        }
        h.k.b = h.k.b + 1;
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
