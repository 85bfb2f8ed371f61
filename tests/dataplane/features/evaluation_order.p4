// Operands and arguments are evaluated from left to right, copies are made in time, exit copies out.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
bit<8> inc(inout bit<8> v) { v = v + 1; return v; }
bit<8> addmul(in bit<8> p, in bit<8> q) {
    if (p > q) { return p - q; }
    bit<8> t = p + q;
    return t;
}
control Inner(inout bit<8> p, out bit<8> q) {
    apply {
        p = 5;
        q = 6;
        if (p == 5) { exit; }
        p = 7;
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    Inner() inner;
    action ex(inout bit<8> v) { v = 0x55; exit; }
    apply {
        sm.egress_spec = 1;  // left operand keeps its old value
        h.k.b = h.k.a + inc(h.k.a);  // a + (a+1)
        h.k.c = addmul(inc(h.k.a), h.k.a);  // (a+2) , (a+2)
        h.k.d[3:0] = (bit<4>)inc(h.k.d);
        if (h.k.a == 0x10) { inner.apply(h.k.b, h.k.b); h.k.c = 99; }
        k_t q = h.k;
        q.a = 1;
        h.k = {q.b, q.a, q.d, q.c};
        bool f = inc(h.k.a) == 3 && inc(h.k.a) == 4 || inc(h.k.a) > 200;
        if (f) { h.k.d = 0xFF; }
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
