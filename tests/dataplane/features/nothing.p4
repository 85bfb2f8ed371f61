// A program without headers, metadata or keys.
#include <core.p4>
#include <v1model.p4>
struct H { }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    table t {
        actions = { }
    }
    apply { sm.egress_spec = 2; t.apply(); }
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
