// Numbers of 128 and 200 bits, odd signed widths, saturation, slices of them.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<128> a; bit<200> w; int<33> s; bit<7> p; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.k.a = h.k.a * 3 + (bit<128>)h.k.w;
        h.k.w = (h.k.w << 70) | (bit<200>)h.k.p;
        h.k.s = h.k.s |-| 33s5;
        h.k.w[199:100] = h.k.w[99:0];
        h.k.p = -h.k.p;
        h.k.a[127:120] = 8w1 |+| 8w255;
        if (h.k.s < 0) { h.k.p = ~h.k.p; }
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
