// @priority on entries, older than `priority =`: the smallest number wins; entries without have their place as number.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; }
struct H { k_t k; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    action to(bit<9> port) { sm.egress_spec = port; }
    table t {
        key = { h.k.a: ternary; }
        actions = { to; }
        default_action = to(9);
        const entries = {
            0x01 &&& 0x0f: to(1) @priority(4);
            0x10 &&& 0xf0: to(2);
            0x11 &&& 0x1f: to(3) @priority(1);
        }
    }
    apply { t.apply(); }
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
