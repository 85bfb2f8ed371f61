// Every fate that a packet may have, chosen by its first byte; egress notes in the packet what it was told.
#include <core.p4>
#include <v1model.p4>

const bit<8> UNICAST = 0;
const bit<8> DROP = 1;
const bit<8> MULTICAST = 2;
const bit<8> CLONE_INGRESS = 3;
const bit<8> CLONE_EGRESS = 4;
const bit<8> RESUBMIT = 5;
const bit<8> RECIRCULATE = 6;
const bit<8> DIGEST = 7;
const bit<8> TRUNCATE = 8;
const bit<8> DROP_AT_EGRESS = 9;
const bit<8> GROW = 10;
const bit<8> SHRINK = 11;
const bit<8> LOG = 12;
const bit<8> METER = 13;
const bit<8> TIMES = 14;

header note_t {
    bit<8> what;
    bit<8> argument;
    bit<8> port;
    bit<8> priority;
    bit<8> instance;
    bit<8> rid;
    bit<32> enq_depth;
    bit<32> deq_depth;
    bit<32> waited_us;
    bit<32> length;
}

header more_t {
    bit<64> more;
}

struct headers_t {
    more_t more;
    note_t note;
    more_t less;
}

struct metadata_t {
    @field_list(1)
    bit<8> turns;
}

struct told_t {
    bit<8> argument;
    bit<9> from;
}

parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    state start {
        packet.extract(h.note);
        transition select(h.note.what) {
            SHRINK: less;
            default: accept;
        }
    }
    state less {
        packet.extract(h.less);
        transition accept;
    }
}

control Arrive(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    meter(1, MeterType.packets) packets;
    apply {
        sm.egress_spec = (bit<9>)h.note.port;
        sm.priority = (bit<3>)h.note.priority;
        if (h.note.port == 255) {
            sm.egress_spec = 510;
        }
        if (h.note.what == DROP) {
            mark_to_drop(sm);
        } else if (h.note.what == MULTICAST) {
            sm.mcast_grp = (bit<16>)h.note.argument;
        } else if (h.note.what == CLONE_INGRESS) {
            clone(CloneType.I2E, (bit<32>)h.note.argument);
        } else if (h.note.what == RESUBMIT) {
            if (m.turns < h.note.argument) {
                m.turns = m.turns + 1;
                resubmit_preserving_field_list(1);
            }
        } else if (h.note.what == DIGEST) {
            digest<told_t>(1, { h.note.argument, sm.ingress_port });
        } else if (h.note.what == TRUNCATE) {
            truncate((bit<32>)h.note.argument);
        } else if (h.note.what == GROW) {
            h.more.setValid();
            h.more.more = 0x0123456789abcdef;
        } else if (h.note.what == SHRINK) {
            h.less.setInvalid();
        } else if (h.note.what == LOG) {
            log_msg("argument {}", { h.note.argument });
        } else if (h.note.what == METER) {
            packets.execute_meter<bit<8>>(32w0, h.note.argument);
        }
    }
}

control Leave(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        h.note.instance = (bit<8>)sm.instance_type;
        h.note.rid = (bit<8>)sm.egress_rid;
        h.note.enq_depth = (bit<32>)sm.enq_qdepth;
        h.note.deq_depth = (bit<32>)sm.deq_qdepth;
        h.note.waited_us = sm.deq_timedelta;
        h.note.length = sm.packet_length;
        if (h.note.what == TIMES) {
            h.note.enq_depth = sm.enq_timestamp;
            h.note.deq_depth = (bit<32>)sm.egress_global_timestamp;
            h.note.length = (bit<32>)sm.ingress_global_timestamp;
        }
        if (h.note.what == DROP_AT_EGRESS) {
            mark_to_drop(sm);
        } else if (h.note.what == CLONE_EGRESS && sm.instance_type == 0) {
            clone(CloneType.E2E, (bit<32>)h.note.argument);
        } else if (h.note.what == RECIRCULATE && h.note.argument != 0) {
            if (h.note.argument != 255) {
                h.note.argument = h.note.argument - 1;
            }
            h.more.setValid();
            h.more.more = 0;
            recirculate_preserving_field_list(0);
        }
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
        packet.emit(h.note);
        packet.emit(h.more);
        packet.emit(h.less);
    }
}

V1Switch(Parse(), Verify(), Arrive(), Leave(), Compute(), Deparse()) main;
