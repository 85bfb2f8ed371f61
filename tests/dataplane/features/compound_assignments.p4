// What names the target of a compound assignment is evaluated once.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> at; bit<8> x; }
header e_t { bit<8> v; }
struct H { k_t k; e_t[4] st; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        pk.extract(h.k);
        pk.extract(h.st.next);
        pk.extract(h.st.next);
        pk.extract(h.st.next);
        pk.extract(h.st.next);
        transition accept;
    }
}
bit<8> following(inout bit<8> x) {
    x += 1;
    return x - 1;
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.st[following(h.k.at) & 3].v += h.k.x;
        h.st[following(h.k.at) & 3].v -= following(h.k.x);
        h.k.x[3:0] ^= 0xf;
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
