// 32 instances of a control, each with a register, table, entries and constructor arguments of its own.
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<32> v; }
struct H { k_t k; }
struct M { bit<32> s; }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    state start { pk.extract(h.k); transition accept; }
}
control Slot(inout bit<32> v, in bit<8> i)(bit<32> size, bit<32> bias) {
    register<bit<32>>(size) r;
    action put(bit<32> x) { r.write((bit<32>)i, x + bias); }
    table lut {
        key = { i: exact; }
        actions = { put; NoAction; }
        const entries = { 7: put(9); }
    }
    apply {
        bit<32> t;
        r.read(t, (bit<32>)i);
        v = v + t + bias;
        lut.apply();
    }
}
control Ig(inout H h, inout M m, inout standard_metadata_t sm) {
    Slot(8, 0) s0;
    Slot(9, 1) s1;
    Slot(10, 2) s2;
    Slot(11, 3) s3;
    Slot(12, 4) s4;
    Slot(13, 5) s5;
    Slot(14, 6) s6;
    Slot(15, 7) s7;
    Slot(16, 8) s8;
    Slot(17, 9) s9;
    Slot(18, 10) s10;
    Slot(19, 11) s11;
    Slot(20, 12) s12;
    Slot(21, 13) s13;
    Slot(22, 14) s14;
    Slot(23, 15) s15;
    Slot(24, 16) s16;
    Slot(25, 17) s17;
    Slot(26, 18) s18;
    Slot(27, 19) s19;
    Slot(28, 20) s20;
    Slot(29, 21) s21;
    Slot(30, 22) s22;
    Slot(31, 23) s23;
    Slot(32, 24) s24;
    Slot(33, 25) s25;
    Slot(34, 26) s26;
    Slot(35, 27) s27;
    Slot(36, 28) s28;
    Slot(37, 29) s29;
    Slot(38, 30) s30;
    Slot(39, 31) s31;
    apply {
        sm.egress_spec = 1;
        s0.apply(h.k.v, h.k.a);
        s1.apply(h.k.v, h.k.a);
        s2.apply(h.k.v, h.k.a);
        s3.apply(h.k.v, h.k.a);
        s4.apply(h.k.v, h.k.a);
        s5.apply(h.k.v, h.k.a);
        s6.apply(h.k.v, h.k.a);
        s7.apply(h.k.v, h.k.a);
        s8.apply(h.k.v, h.k.a);
        s9.apply(h.k.v, h.k.a);
        s10.apply(h.k.v, h.k.a);
        s11.apply(h.k.v, h.k.a);
        s12.apply(h.k.v, h.k.a);
        s13.apply(h.k.v, h.k.a);
        s14.apply(h.k.v, h.k.a);
        s15.apply(h.k.v, h.k.a);
        s16.apply(h.k.v, h.k.a);
        s17.apply(h.k.v, h.k.a);
        s18.apply(h.k.v, h.k.a);
        s19.apply(h.k.v, h.k.a);
        s20.apply(h.k.v, h.k.a);
        s21.apply(h.k.v, h.k.a);
        s22.apply(h.k.v, h.k.a);
        s23.apply(h.k.v, h.k.a);
        s24.apply(h.k.v, h.k.a);
        s25.apply(h.k.v, h.k.a);
        s26.apply(h.k.v, h.k.a);
        s27.apply(h.k.v, h.k.a);
        s28.apply(h.k.v, h.k.a);
        s29.apply(h.k.v, h.k.a);
        s30.apply(h.k.v, h.k.a);
        s31.apply(h.k.v, h.k.a);
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
