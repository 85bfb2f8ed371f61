// One of each thing that P4Runtime knows. A frame's byte `step` says what is to be done; tables mark bits of its `note`.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> unused;
}

header frame_t {
    bit<48> destination;
    bit<48> source;
    bit<16> kind;
    bit<8> step;
    bit<16> value;
    bit<8> note;
}

header special_t {
    bit<8> tag;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    frame_t frame;
    special_t special;
}

struct learned_t {
    bit<48> source;
    bit<9> port;
}

struct metadata_t {
    bit<32> colour;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) special_kinds;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_controller;
            default: frame;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition frame;
    }

    state frame {
        packet.extract(hdr.frame);
        transition select(hdr.frame.kind) {
            special_kinds: special;
            default: accept;
        }
    }

    state special {
        packet.extract(hdr.special);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) tallies;
    meter(8, MeterType.packets) colours;
    register<bit<16>>(32) memory;
    register<int<8>>(4) signs;
    direct_counter(CounterType.packets_and_bytes) step_counter;
    direct_meter<bit<32>>(MeterType.packets) prefix_meter;
    action_profile(64) profile;
    action_selector(HashAlgorithm.crc32, 64, 16) selector;

    action mark(bit<8> bits) { hdr.frame.note = hdr.frame.note | bits; }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action punt() { standard_metadata.egress_spec = CPU_PORT; }
    action drop() { mark_to_drop(standard_metadata); }
    action spread(bit<16> group) { standard_metadata.mcast_grp = group; }
    action mirror(bit<9> port) {
        standard_metadata.egress_spec = port;
        clone(CloneType.I2E, 100);
    }
    action learn(bit<9> port) {
        standard_metadata.egress_spec = port;
        digest<learned_t>(1, {hdr.frame.source, standard_metadata.ingress_port});
    }
    action tally(bit<9> port, bit<32> index) {
        standard_metadata.egress_spec = port;
        tallies.count(index);
    }
    action colour(bit<9> port, bit<32> index) {
        standard_metadata.egress_spec = port;
        colours.execute_meter(index, meta.colour);
        hdr.frame.value = (bit<16>)meta.colour;
    }
    action store(bit<9> port, bit<32> index) {
        standard_metadata.egress_spec = port;
        memory.write(index, hdr.frame.value);
        int<8> sign;
        signs.read(sign, 0);
        signs.write(1, sign - 1);
    }

    table steps {
        key = { hdr.frame.step: exact; }
        actions = { forward; punt; drop; spread; mirror; learn; tally; colour; store; @defaultonly NoAction; }
        default_action = NoAction();
        counters = step_counter;
        size = 64;
    }

    table prefixes {
        key = { hdr.frame.destination: lpm; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        meters = prefix_meter;
        size = 8;
    }

    table choices {
        key = {
            hdr.frame.kind: ternary;
            hdr.frame.value: range;
            hdr.frame.source: optional;
        }
        actions = { mark; @tableonly drop; NoAction; }
        default_action = NoAction();
        size = 128;
    }

    table fixed_ones {
        key = { hdr.frame.step: ternary; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        const entries = {
            0xff &&& 0xff: mark(0x40);
            0x80 &&& 0x80: mark(0x20);
        }
    }

    table aging {
        key = { hdr.frame.step: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        support_timeout = true;
    }

    table by_member {
        key = { hdr.frame.step: exact; }
        actions = { mark; forward; NoAction; }
        implementation = profile;
    }

    table by_group {
        key = {
            hdr.frame.step: exact;
            hdr.frame.source: selector;
            hdr.frame.value: selector;
        }
        actions = { forward; NoAction; }
        implementation = selector;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            exit;
        }
        steps.apply();
        prefixes.apply();
        choices.apply();
        fixed_ones.apply();
        aging.apply();
        by_member.apply();
        by_group.apply();
        if (hdr.special.isValid()) {
            hdr.frame.note = hdr.frame.note | 0x80;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.reason = 7w5;
        } else if (standard_metadata.egress_rid != 0) {
            hdr.frame.value = standard_metadata.egress_rid;
        }
    }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
