// A sub-parser that loops over a stack; lookahead of a struct; value sets, ranges and masks in a select.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; }
header l_t { bit<8> v; }
struct look_t { bit<4> hi; bit<4> lo; bit<8> nx; }
struct H { k_t k; l_t[4] l; }
struct M { bit<8> n; look_t lk; }
bit<8> dbl(in bit<8> x) { return x + x; }
parser Loop(packet_in pk, inout l_t[4] l, inout bit<8> n) {
    bit<8> cnt = 0;
    state start {
        cnt = cnt + 1;
        pk.extract(l.next);
        n = dbl(n) + l.last.v;
        transition select(l.lastIndex, l.last.v[0:0]) {
            (2, _): accept;
            (_, 1): start;
            default: accept;
        }
    }
}
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    value_set<tuple<bit<8>, bit<8>>>(4) vs;
    state start {
        m.lk = pk.lookahead<look_t>();
        pk.extract(h.k);
        m.n = 1;
        Loop.apply(pk, h.l, m.n);
        l_t t;
        if (h.k.a > 3) { t = pk.lookahead<l_t>(); }
        transition select(h.k.a, h.k.b) {
            vs: accept;
            (1 .. 5, 0x10 &&& 0x30): two;
            default: fin;
        }
    }
    state two {
        pk.advance((bit<32>)h.k.a * 8);
        transition fin;
    }
    state fin { transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.k.b = m.n;
        h.k.a = m.lk.lo ++ m.lk.hi;
        h.l.push_front(1);
        h.l[0].setValid();
        h.l[0].v = m.lk.nx;
        h.l[3] = {1};
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
