// Errors as values, registers of bool.
#include <core.p4>
#include <v1model.p4>
error { Mine }
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    error e = error.Mine;
    register<bool>(4) rg;
    apply {
        sm.egress_spec = 1;
        if (e == error.Mine || sm.parser_error == error.NoError) { h.k.b = 3; }
        e = sm.parser_error;
        switch (e) {
            error.NoError: { h.k.c = 8; }
            error.Mine: {}
        }
        rg.write(0, h.k.a == 1);
        bool q;
        rg.read(q, 0);
        h.k.a = (bit<8>)(bit<1>)q;
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
