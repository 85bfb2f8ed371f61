// Stack elements chosen by an index that only the packet knows.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> i; bit<8> v; }
header e_t { bit<8> x; }
struct H { k_t k; e_t[3] s; }
struct M { bit<2> z; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        pk.extract(h.k);
        pk.extract(h.s.next);
        pk.extract(h.s.next);
        pk.extract(h.s.next);
        m.z = (bit<2>)h.k.i;
        transition accept;
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.s[m.z].x = h.s[m.z].x + 1;
        if (h.s[m.z].isValid()) { h.k.v = h.s[(bit<2>)h.k.v].x; }
        if (h.k.i == 2) h.s[m.z].setInvalid();
        e_t tmp = h.s[(bit<2>)h.k.i];
        if (h.k.i == 0) { h.s[1] = tmp; h.s[h.k.i + 2] = h.s[0]; }
        h.s[0].x[3:0] = 4w9;
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
