// Fields that the program does not use, in headers that stay where they are, move up, or stand behind a gap.
#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> kind; bit<4> written; bit<4> beside; bit<16> sum; bit<16> unused; }
header b_t { bit<16> unused; bit<8> changed; }
header c_t { bit<24> unused; }
struct H { a_t a; b_t b; c_t c; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start {
        pk.extract(h.a);
        transition select(h.a.kind) { 4: gap; default: rest; }
    }
    state gap { pk.advance(8); transition rest; }
    state rest { pk.extract(h.b); pk.extract(h.c); transition accept; }
}
control Vfy(inout H h, inout M m) {
    apply { }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.a.written = 9;
        h.b.changed = h.b.changed + 1;
        if (h.a.kind == 1) { h.a.setInvalid(); }
        if (h.a.kind == 2) { h.b.setInvalid(); }
    }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) {
    apply { }
}
control Cmp(inout H h, inout M m) {
    apply {
        update_checksum(h.b.isValid() && h.c.isValid(), { h.b.unused, h.b.changed, h.c.unused }, h.a.sum,
                        HashAlgorithm.csum16);
    }
}
control Dep(packet_out pk, in H h) {
    apply { pk.emit(h); }
}
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
