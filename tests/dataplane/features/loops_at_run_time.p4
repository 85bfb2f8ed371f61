// Loops whose turns only the packet tells: in an action, in a control, over a range, nested, with break and continue.
#include <core.p4>
#include <v1model.p4>
header k_t {
    bit<8> n;
    bit<8> limit;
    bit<16> sum;
    bit<8> odd;
    bit<8> pairs;
    bit<8> steps;
    bit<8> fresh;
    bit<8> range;
    bit<16> many;
}
header e_t { bit<8> v; }
struct H { k_t k; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    action sum() {
        h.k.sum = 0;
        for (bit<8> i = 1; i <= h.k.n; i += 1) {
            if (i == h.k.limit) { break; }
            h.k.sum = h.k.sum + (bit<16>)i;
        }
    }
    action step() { h.k.steps = h.k.steps + 2; }
    table steps {
        key = { h.k.steps: exact; }
        actions = { step; NoAction; }
        default_action = step;
        const entries = { 6: NoAction(); }
    }
    apply {
        sm.egress_spec = 1;
        sum();
        for (bit<8> i = 0; i < h.k.n; i = i + 1) {
            if ((i & 1) == 0) { continue; }
            h.k.odd = h.k.odd + i;
        }
        for (bit<8> i = 0; i < h.k.n; i = i + 1) {
            for (bit<8> j = 0; j < i; j = j + 1) { h.k.pairs = h.k.pairs + 1; }
        }
        for (bit<8> i = 0; i < h.k.n; i = i + 1) {
            if (steps.apply().hit) { break; }
        }
        for (bit<8> i = 0; i < h.k.n; i = i + 1) {
            e_t e;
            if (!e.isValid()) { h.k.fresh = h.k.fresh + 1; }
            e.setValid();
        }
        for (bit<8> i in h.k.limit..h.k.n) {
            h.k.range = h.k.range + i;
            i = 0;
        }
        for (bit<16> i = 0; i < 3000; i = i + 1) { h.k.many = h.k.many + 1; }
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
