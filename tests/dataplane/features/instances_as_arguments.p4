// Controls, a parser and a register that constructors are given.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<8> c; }
header e_t { bit<8> v; }
struct H { k_t k; e_t e; }
struct M { }
control step_t(inout bit<8> x);
parser part_t(packet_in pk, inout H h);
control Add(inout bit<8> y)(bit<8> n) {
    apply { y = y + n; }
}
control Twice(inout bit<8> x)(step_t step) {
    apply { step.apply(x); step.apply(x); }
}
control Both(inout bit<8> x)(step_t one, step_t other) {
    Twice(one) first;
    apply { first.apply(x); other.apply(x); }
}
control Numbered(inout bit<8> x)(register<bit<8>> counts) {
    apply {
        counts.read(x, 0);
        x = x + 1;
        counts.write(0, x);
    }
}
parser One(packet_in p, inout H all) {
    state start { p.extract(all.e); transition accept; }
}
parser Outer(packet_in pk, inout H h)(part_t part) {
    state start { part.apply(pk, h); transition accept; }
}
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    One() one;
    Outer(one) outer;
    state start { pk.extract(h.k); outer.apply(pk, h); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    register<bit<8>>(1) counts;
    Add(3) three;
    Both(three, Add(16)) both;
    Numbered(counts) here;
    Numbered(counts) there;
    apply {
        sm.egress_spec = 1;
        both.apply(h.k.a);
        here.apply(h.k.b);
        there.apply(h.k.c);
        three.apply(h.e.v);
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
