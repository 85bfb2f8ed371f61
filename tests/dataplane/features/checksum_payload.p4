// Checksums over fields and payload, verified and updated, the update under a condition.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct M { bit<8> x; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        h.k.b = (bit<8>)sm.checksum_error;
    }
}
control Vfy(inout H h, inout M m) {
    apply {
        verify_checksum_with_payload(true, {h.k.a, 8w0}, h.k.c, HashAlgorithm.csum16);
    }
}
control Eg(inout H h, inout M m, inout standard_metadata_t sm) {
    apply { }
}
control Cmp(inout H h, inout M m) {
    apply {
        if (h.k.a == 1) {
            update_checksum_with_payload(h.k.isValid(), {h.k.a, h.k.b}, h.k.c, HashAlgorithm.csum16);
        }
    }
}
control Dep(packet_out pk, in H h) {
    apply { pk.emit(h); }
}
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
