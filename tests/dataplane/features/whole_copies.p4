// Copies of all headers, of stacks, varbits and standard metadata; an out argument that is an in argument too.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; }
header l_t { bit<8> v; }
header o_t { bit<8> n; varbit<32> o; }
struct in_t { bit<4> x; bit<4> y; }
header n_t { in_t i; bool f; bit<7> p; }
struct H { k_t k; o_t o; n_t n; l_t[3] l; }
struct M { H save; standard_metadata_t s; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        pk.extract(h.k);
        pk.extract(h.o, (bit<32>)(h.k.a << 3));
        pk.extract(h.n);
        transition ls;
    }
    state ls {
        pk.extract(h.l.next);
        transition select(h.l.last.v) { 0: accept; default: ls; }
    }
}
control Wipe(out H h, in H g) {
    apply {
        h.k = g.k;
        h.l[2] = g.l[0];
        h.n = g.n;
        h.n.i = {g.n.i.y, g.n.i.x};
        h.n.f = !g.n.f;
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    Wipe() wp;
    table t {
        key = { h.l[0].v: exact; h.n.i.x: ternary; h.n.f: exact; m.s.egress_spec: exact; }
        actions = { NoAction; }
        const entries = { (1, _, true, 3): NoAction(); }
    }
    apply {
        sm.egress_spec = 3;
        m.s = sm;
        if (t.apply().hit) { h.k.b = 0x77; }
        m.save = h;
        if (h.k.b == 0x77) { wp.apply(h, h); } else {
            h = m.save;
            h.o.o = m.save.o.o;
            mark_to_drop(m.s);
            sm.egress_spec = m.s.egress_spec == 511 ? 9w4 : 9w5;
            h.l.pop_front(1);
            h.l[1] = m.save.l[0];
        }
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
