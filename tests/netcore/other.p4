// Another program than fates.p4: its context and its headers are larger, and its egress writes a B.
#include <core.p4>
#include <v1model.p4>

header note_t {
    bit<8> what;
    bit<8> argument;
    bit<8> port;
    bit<8> priority;
    bit<8> mark;
}

header large_t {
    bit<2048> filler;
}

struct headers_t {
    note_t note;
    large_t large;
}

struct metadata_t {
    bit<2048> kept;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    state start {
        packet.extract(h.note);
        transition accept;
    }
}

control Arrive(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    register<bit<64>>(4096) some_memory;
    apply {
        m.kept = 2048w1;
        some_memory.write(32w7, 64w7);
        sm.egress_spec = (bit<9>)h.note.port;
        h.large.setValid();
        h.large.filler = m.kept;
    }
}

control Leave(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        h.note.mark = 0x42;
    }
}

control Verify(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Compute(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h);
    }
}

V1Switch(Parse(), Verify(), Arrive(), Leave(), Compute(), Deparse()) main;
