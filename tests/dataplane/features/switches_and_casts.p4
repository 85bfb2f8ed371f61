// switch on numbers and enums, casts between bits, int, bool, enums and new types.
#include <core.p4>
#include <v1model.p4>
enum E { A, B }
enum bit<16> S { X = 5, Y = 0x1234 }
type bit<9> port_t;
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    E e;
    apply {
        sm.egress_spec = 1;
        switch (h.k.a) {
            1: 2: { h.k.b = 1; }
            default: { h.k.b = 2; }
        }
        e = h.k.b == 1 ? E.B : E.A;
        switch (e) {
            E.B: { h.k.c = (bit<16>)S.Y; }
            E.A: { h.k.c = 3; }
        }
        port_t p = (port_t)9w3;
        sm.egress_spec = (bit<9>)p;
        int<8> i = (int<8>)h.k.a;
        i = -i;
        h.k.a = (bit<8>)(i >> 1);
        bool bb = (bool)h.k.b[0:0];
        if (bb) { h.k.b = (bit<8>)(bit<1>)bb; }
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
