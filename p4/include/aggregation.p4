// In-network aggregation: its packets, the pool of slots, and what the aggregating programs do with a child's contribution.
//
// After SwitchML (Sapio et al., NSDI 2021, section 3.5). A packet is a header of 16 bytes and up to eight blocks of 32 values,
// in UDP (port 48864) or behind RoCE's BTH (UC SEND ONLY; an ICRC follows the values). A slot takes one chunk after the
// other, with versions 0 and 1 by turns and chunk numbers that grow (modulo 2^32), and a child sends its next one only when
// it has the result of the last. So when a chunk begins, each child has the result of the chunk before the last, whose place
// it takes, while the last one's sums stay for children that lack them. The numbers tell late duplicates from what is due.
// What was damaged on the way is refused, by its UDP checksum or, where it has none, its ICRC; sums get both anew.
//
// It makes headers.p4 hold its headers, so it comes before all other includes of ours.
#ifndef AGGREGATION_P4
#define AGGREGATION_P4

header aggregation_t {
    bit<8> kind;
    bit<8> job;
    bit<16> worker;  // the sender's number among the children of the switch that it is for
    bit<1> version;
    bit<15> slot;
    bit<16> values;
    bit<32> chunk;
    bit<8> exponent;  // signed, of the slot's next chunk; in a result the largest
    bit<8> flags;
    bit<16> reserved;
}

// Four values side by side, which are added without carries from one to the next: the signs are added by themselves.
typedef bit<128> values_t;
const values_t SIGNS = 0x80000000_80000000_80000000_80000000;
#define ADDED(a, b) (((a & ~SIGNS) + (b & ~SIGNS)) ^ ((a ^ b) & SIGNS))

header block_t {
    values_t v0;
    values_t v1;
    values_t v2;
    values_t v3;
    values_t v4;
    values_t v5;
    values_t v6;
    values_t v7;
}

// InfiniBand's invariant CRC, the one field of RoCE that begins with its lowest byte.
header icrc_t {
    bit<32> reversed;
}

struct metadata_t {
    bool whole;      // an aggregation packet, all of which was there
    bool summed;     // its values are those of this switch
    bit<16> child;   // that a result is for, from 1 on; 0: by egress_rid, or none
}

#define HEADERS_BEHIND aggregation_t aggregation; block_t[8] blocks; icrc_t icrc;
#include "ipv4.p4"

const bit<16> UDP_PORT_AGGREGATION = 48864;
const bit<8> UC_SEND_ONLY = 0x24;

const bit<8> KIND_ADD = 1;     // up, from a child
const bit<8> KIND_RESULT = 2;  // down, to a child

parser AggregationParser(packet_in packet, out headers_t headers, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    HeadersParser() outer;
    bit<16> left;

    state start {
        meta.whole = false;
        meta.summed = false;
        meta.child = 0;
        outer.apply(packet, headers, meta, standard_metadata);
        transition select(headers.udp.isValid(), headers.bth.isValid()) {
            (true, true): roce;
            (true, false): udp;
            default: accept;
        }
    }

    state roce {
        transition select(headers.bth.opcode) {
            UC_SEND_ONLY: aggregation;
            default: accept;
        }
    }

    state udp {
        transition select(headers.udp.destination_port) {
            UDP_PORT_AGGREGATION: aggregation;
            default: accept;
        }
    }

    state aggregation {
        packet.extract(headers.aggregation);
        left = headers.aggregation.values;
        transition select(left) {
            0: behind;
            0 &&& 0xFF1F: block;  // 32, 64 .. 224
            256: block;
            default: accept;
        }
    }

    state block {
        packet.extract(headers.blocks.next);
        left = left - 32;
        transition select(left) {
            0: behind;
            default: block;
        }
    }

    state behind {
        transition select(headers.bth.isValid()) {
            true: icrc;
            default: end;
        }
    }

    state icrc {
        packet.extract(headers.icrc);
        transition end;
    }

    state end {
        meta.whole = true;
        transition accept;
    }
}

// The pool. Jobs share it, each with slots of its own.
#define POOL_SLOTS 2048
typedef bit<11> slot_t;
typedef bit<12> place_t;  // slot and version

register<values_t>(POOL_SLOTS * 2 * 64) sums;   // by place, block and four values
register<bit<8>>(POOL_SLOTS * 2) exponents;     // by place: the largest
register<bit<64>>(POOL_SLOTS) arrivals;         // a bit a child that contributed, in the upper half of version 1
register<bit<64>>(POOL_SLOTS) chunks;           // the chunks' numbers, likewise

// What of a job its entry tells.
struct job_t {
    bit<8> number;
    bit<6> children;   // at most 32
    slot_t first_slot;
    bit<12> slots;
    bit<16> values;    // in each packet that has any
}

// An operation on each four values of each block, and on their cell of `sums`.
#define BLOCKS(OP) \
    BLOCK(OP, 3w0) BLOCK(OP, 3w1) BLOCK(OP, 3w2) BLOCK(OP, 3w3) \
    BLOCK(OP, 3w4) BLOCK(OP, 3w5) BLOCK(OP, 3w6) BLOCK(OP, 3w7)
#define BLOCK(OP, number) \
    if (headers.blocks[number].isValid()) { \
        row = place ++ number; \
        EACH(OP, headers.blocks[number]) \
    }
#define EACH(OP, block) \
    OP(block.v0, 3w0) OP(block.v1, 3w1) OP(block.v2, 3w2) OP(block.v3, 3w3) \
    OP(block.v4, 3w4) OP(block.v5, 3w5) OP(block.v6, 3w6) OP(block.v7, 3w7)
#define STORE(values, number) \
    at = (bit<32>)(row ++ number); \
    sums.write(at, values);
#define ADD(values, number) \
    at = (bit<32>)(row ++ number); \
    sums.read(held, at); \
    values = ADDED(values, held); \
    sums.write(at, values);
#define LOAD(values, number) \
    at = (bit<32>)(row ++ number); \
    sums.read(values, at);

// The packet's values and exponent become those of a place.
control Store(in headers_t headers, in place_t place) {
    bit<15> row;
    bit<32> at;

    apply {
        BLOCKS(STORE)
        exponents.write((bit<32>)place, headers.aggregation.exponent);
    }
}

// The packet's values are added to those of a place, and the larger exponent stays; the packet gets what there is then.
control Add(inout headers_t headers, in place_t place) {
    bit<15> row;
    bit<32> at;
    values_t held;

    apply {
        BLOCKS(ADD)
        bit<8> largest;
        exponents.read(largest, (bit<32>)place);
        if ((int<8>)largest > (int<8>)headers.aggregation.exponent) {
            headers.aggregation.exponent = largest;
        } else {
            exponents.write((bit<32>)place, headers.aggregation.exponent);
        }
    }
}

// The packet gets the values and the exponent of a place.
control Load(inout headers_t headers, in place_t place) {
    bit<15> row;
    bit<32> at;

    apply {
        BLOCKS(LOAD)
        exponents.read(headers.aggregation.exponent, (bit<32>)place);
    }
}

// What a contribution is to its slot.
typedef bit<2> outcome_t;
const outcome_t WAITS = 0;      // it was added; others are missing
const outcome_t COMPLETES = 1;  // it was added as the last one: the packet has the sums now
const outcome_t AGAIN = 2;      // it was there already, as all others are: the packet has the sums now
const outcome_t IGNORED = 3;    // it was there already, and others are missing; or its chunk has passed for this child

// The checksum of what UDP's covers (RFC 768), its own field included: of a packet that is intact 0.
control UdpSum(in headers_t headers, out bit<16> sum) {
    apply {
        hash(sum, HashAlgorithm.csum16, 16w0,
             { headers.ipv4.source, headers.ipv4.destination, 8w0 ++ PROTOCOL_UDP, headers.udp.length,
               headers.udp.source_port, headers.udp.destination_port, headers.udp.length, headers.udp.checksum,
               headers.bth, headers.aggregation, headers.blocks[0], headers.blocks[1], headers.blocks[2],
               headers.blocks[3], headers.blocks[4], headers.blocks[5], headers.blocks[6], headers.blocks[7],
               headers.icrc },
             17w0x1_0000);
    }
}

// InfiniBand's invariant CRC of a packet in RoCE's framing, as its field has it.
control Icrc(in headers_t headers, out bit<32> reversed) {
    apply {
        bit<32> crc;
        // Ones are in place of what routers may change. Blocks that are not there are left out.
        hash(crc, HashAlgorithm.crc32, 32w0,
             { 64w0xFFFF_FFFF_FFFF_FFFF,
               headers.ipv4.version, headers.ipv4.header_words, 8w0xFF, headers.ipv4.length,
               headers.ipv4.identification, headers.ipv4.reserved, headers.ipv4.dont_fragment,
               headers.ipv4.more_fragments, headers.ipv4.fragment_offset, 8w0xFF, headers.ipv4.protocol, 16w0xFFFF,
               headers.ipv4.source, headers.ipv4.destination,
               headers.udp.source_port, headers.udp.destination_port, headers.udp.length, 16w0xFFFF,
               headers.bth.opcode, headers.bth.solicited, headers.bth.migration, headers.bth.pad, headers.bth.version,
               headers.bth.partition_key, 8w0xFF, headers.bth.queue_pair, headers.bth.acknowledge,
               headers.bth.reserved, headers.bth.sequence,
               headers.aggregation, headers.blocks[0], headers.blocks[1], headers.blocks[2], headers.blocks[3],
               headers.blocks[4], headers.blocks[5], headers.blocks[6], headers.blocks[7] },
             33w0x1_0000_0000);
        reversed = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

const bit<32> REFUSE_MALFORMED = 0;  // cut short, a number of values that cannot be, or a wrong IPv4 checksum
const bit<32> REFUSE_JOB = 1;        // another job's number
const bit<32> REFUSE_WORKER = 2;     // not below the job's children here
const bit<32> REFUSE_SLOT = 3;       // not below the job's slots
const bit<32> REFUSE_VALUES = 4;     // another number of values than the job's, and not 0
const bit<32> REFUSE_DAMAGED = 5;    // a wrong UDP checksum, or a wrong ICRC

// Drops what cannot be the job's.
control Check(in headers_t headers, in metadata_t meta, in job_t job, inout standard_metadata_t standard_metadata) {
    counter(2048, CounterType.packets) refused;  // by job number and, in the low three bits, reason
    Icrc() icrc;
    UdpSum() udp_sum;

    action refuse(in bit<32> reason) {
        refused.count((bit<32>)job.number << 3 | reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    apply {
        if (!meta.whole || standard_metadata.checksum_error == 1) {
            refuse(REFUSE_MALFORMED);
        }
        if (headers.aggregation.job != job.number) {
            refuse(REFUSE_JOB);
        }
        if (headers.aggregation.worker >= (bit<16>)job.children) {
            refuse(REFUSE_WORKER);
        }
        if (headers.aggregation.slot >= (bit<15>)job.slots) {
            refuse(REFUSE_SLOT);
        }
        if (headers.aggregation.values != job.values && headers.aggregation.values != 0) {
            refuse(REFUSE_VALUES);
        }
        if (headers.udp.checksum != 0) {  // RFC 768: 0 is none
            bit<16> sum;
            udp_sum.apply(headers, sum);
            if (sum != 0) {
                refuse(REFUSE_DAMAGED);
            }
        } else if (headers.icrc.isValid()) {  // which takes longer
            bit<32> reversed;
            icrc.apply(headers, reversed);
            if (headers.icrc.reversed != reversed) {
                refuse(REFUSE_DAMAGED);
            }
        }
    }
}

// Adds what a child sent to its slot, unless it is there.
control Contribution(inout headers_t headers, in job_t job, in slot_t slot, out outcome_t outcome) {
    counter(POOL_SLOTS, CounterType.packets) completed;
    counter(POOL_SLOTS, CounterType.packets) ignored;
    Store() store;
    Add() add;
    Load() load;

    apply {
        place_t place = slot ++ headers.aggregation.version;
        bit<32> own = 32w1 << headers.aggregation.worker[4:0];
        bit<32> all = (32w1 << job.children) - 1;
        bit<64> arrived;
        bit<64> numbers;
        arrivals.read(arrived, (bit<32>)slot);
        chunks.read(numbers, (bit<32>)slot);
        bit<32> here = arrived[31:0];  // in this version, as `number`; the others are of the other version
        bit<32> there = arrived[63:32];
        bit<32> number = numbers[31:0];
        bit<32> other = numbers[63:32];
        if (headers.aggregation.version == 1) {
            here = arrived[63:32];
            there = arrived[31:0];
            number = numbers[63:32];
            other = numbers[31:0];
        }
        bit<32> ahead = headers.aggregation.chunk - number;
        bit<32> lag = other - number;
        bool begins = ahead != 0 && ahead[31:31] == 0;
        bool passed = lag != 0 && lag[31:31] == 0;  // the slot's next chunk has begun, so that this one is complete
        if (begins) {
            number = headers.aggregation.chunk;
            here = 0;
            passed = false;
        }
        outcome = IGNORED;
        if ((begins || ahead == 0) && (here & own) == 0 && !passed) {
            if (here == 0) {
                store.apply(headers, place);
            } else {
                add.apply(headers, place);
            }
            here = here | own;
            there = there & ~own;
            if (headers.aggregation.version == 1) {
                arrivals.write((bit<32>)slot, here ++ there);
                chunks.write((bit<32>)slot, number ++ other);
            } else {
                arrivals.write((bit<32>)slot, there ++ here);
                chunks.write((bit<32>)slot, other ++ number);
            }
            outcome = WAITS;
            if (here == all) {
                outcome = COMPLETES;
                completed.count((bit<32>)slot);
            }
        } else if (ahead == 0 && (here & own) != 0 && (passed || here == all)) {
            load.apply(headers, place);
            outcome = AGAIN;
        } else {
            ignored.count((bit<32>)slot);
        }
    }
}

// Makes a packet that has the sums the result: for all children, or for the one that asked again.
control Answer(inout headers_t headers, inout metadata_t meta, in slot_t slot, in bit<16> group, in outcome_t outcome,
               inout standard_metadata_t standard_metadata) {
    counter(POOL_SLOTS, CounterType.packets) answered_again;

    apply {
        if (outcome == COMPLETES) {
            standard_metadata.mcast_grp = group;
        } else {
            answered_again.count((bit<32>)slot);
            meta.child = headers.aggregation.worker + 1;
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        }
        meta.summed = true;
        headers.aggregation.kind = KIND_RESULT;
        headers.aggregation.worker = 0;
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.ttl = 64;
        headers.udp.source_port = headers.udp.destination_port;
    }
}

// Egress: addresses a result to its child, and gives what was summed here checksums of its own.
control Sending(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Icrc() icrc;
    UdpSum() udp_sum;

    action to_child(mac_t source, mac_t destination, ipv4_address_t address, bit<24> queue_pair) {
        headers.ethernet.source = source;
        headers.ethernet.destination = destination;
        headers.ipv4.destination = address;
        headers.bth.queue_pair = queue_pair;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table children {
        key = { headers.aggregation.job: exact @name("job"); meta.child: exact @name("child"); }
        actions = { to_child; drop; }
        default_action = drop;
        size = 8192;
    }

    apply {
        if (meta.summed) {
            if (standard_metadata.egress_rid != 0) {
                meta.child = standard_metadata.egress_rid;
            }
            if (meta.child != 0) {
                children.apply();
            }
            headers.udp.checksum = 0;
            if (headers.icrc.isValid()) {
                bit<32> reversed;
                icrc.apply(headers, reversed);
                headers.icrc.reversed = reversed;
            }
            bit<16> sum;
            udp_sum.apply(headers, sum);
            headers.udp.checksum = sum == 0 ? 16w0xFFFF : sum;
        }
    }
}

#endif
