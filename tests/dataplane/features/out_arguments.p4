// Functions and actions that write their arguments; early returns.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
bool div3(in bit<8> v, out bit<8> r, inout k_t k) {
    r = 0;
    if (v == 0) return false;
    if (v > 100) { k.a = 1; return false; }
    r = v + v + v;
    return true;
}
void swap(inout bit<8> x, inout bit<8> y) { bit<8> t = x; x = y; y = t; }
bool chk(in k_t k) { return k.isValid() && k.a == 7; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    action act(inout bit<8> p, out bit<8> q) {
        q = p + 1;
        p = p + 2;
        if (p == 5) { return; }
        p = p + 2;
    }
    apply {
        sm.egress_spec = 1;
        bit<8> r;
        bool ok = div3(h.k.a, r, h.k);
        if (ok) { h.k.b = r; } else { h.k.b = 0xEE; }
        k_t c = h.k;
        swap(c.a, c.b);
        h.k.c = c.a ++ c.b;
        act(h.k.a, h.k.b);
        if (chk(h.k)) return;
        h.k.c = 0xFFFF;
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
