// One use of each extern, for the shape of the JSON and of P4Info.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<8> b; bit<16> c; }
struct H { k_t k; }
struct dig_t { bit<8> a; bit<16> c; bool f; }
struct M { @field_list(1) bit<8> keep; bit<2> col; bit<32> col2; bool t; error e; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
register<bit<16>>(8) top;
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    meter(4, MeterType.bytes) mt;
    direct_meter<bit<2>>(MeterType.packets) dm;
    counter(4, CounterType.packets_and_bytes) ct;
    direct_counter(CounterType.bytes) dc;
    action a(bit<8> x) { dm.read(m.col); dc.count(); h.k.b = x; }
    table t {
        key = { h.k.a: lpm; }
        actions = { a; NoAction; }
        meters = dm;
        counters = dc;
        size = 7;
        support_timeout = true;
    }
    action_selector(HashAlgorithm.crc32, 64, 16) sel;
    action p(bit<9> q) { sm.egress_spec = q; }
    table ecmp {
        key = { h.k.a: exact; h.k.c: selector; h.k.b: selector; }
        actions = { p; NoAction; }
        implementation = sel;
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        ecmp.apply();
        mt.execute_meter((bit<32>)h.k.a[1:0], m.col2);
        ct.count((bit<32>)h.k.a[1:0]);
        random(h.k.c, 16w3, 16w9);
        bit<16> r;
        top.read(r, 1);
        top.write(1, r + 1);
        digest<dig_t>(1, {h.k.a, h.k.c + 1, h.k.a == 3});
        log_msg("hello {} {}", {h.k.a, r});
        assert(h.k.a != 99);
        assume(h.k.a != 98);
        hash(h.k.b[3:0], HashAlgorithm.crc16, 4w0, { h.k.a, h.k.c, 8w3 }, 4w10);
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        clone3(CloneType.I2E, 6, { h.k.a, m.keep });
        if (h.k.b == 255) { resubmit_preserving_field_list(0); }
        truncate((bit<32>)h.k.a + 4);
        m.t = h.k.a == 1;
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
