// The v1model architecture: one ingress and one egress pipeline around a queueing and replication engine, as BMv2's
// simple_switch has it. V1MODEL_VERSION selects the types of ports and indices, as in the reference compiler.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    range,     // lowest to highest value, both inside
    optional,  // a value or anything
    selector   // input of the hash that chooses a member of an action selector
}

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

@metadata
@name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;
    PortId_t egress_port;
#else
    bit<9> ingress_port;   // where the packet came in
    bit<9> egress_spec;    // where ingress wants it to leave; the drop port drops it
    bit<9> egress_port;    // where it leaves, for egress to read
#endif
    bit<32> instance_type;  // 0 normal, 1 ingress clone, 2 egress clone, 4 recirculated, 5 replicated, 6 resubmitted
    bit<32> packet_length;  // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;  // microseconds
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;     // bytes that it found in its queue; 2^19 - 1: so many or more
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;  // microseconds
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;     // bytes that it leaves behind there, itself not counted; 2^19 - 1: so many or more
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;  // microseconds
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;   // microseconds
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;      // not 0: replicate to the members of this group
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;     // which replica this is
    bit<1> checksum_error;  // 1: verify_checksum found a difference
    error parser_error;     // how the parser ended
    @alias("intrinsic_metadata.priority")
    bit<3> priority;        // the egress queue; the larger is served first
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

enum CloneType {
    I2E,
    E2E
}

/// An array of counters that the program advances.
#if V1MODEL_VERSION >= 20200408
extern counter<I> {
    counter(bit<32> size, CounterType type);
    void count(in I index);
}
#else
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
#endif

/// A counter for each entry of the one table whose `counters` it is.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

/// An array of two-rate three-colour meters: 0 green, 1 yellow, 2 red.
#if V1MODEL_VERSION >= 20200408
extern meter<I> {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in I index, out T result);
}
#else
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
#endif

/// A meter for each entry of the one table whose `meters` it is.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

/// An array of values that outlive the packet.
#if V1MODEL_VERSION >= 20200408
extern register<T, I> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
}
#else
extern register<T> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
#endif

/// A table's `implementation`: entries name members, which are actions with their arguments.
extern action_profile {
    action_profile(bit<32> size);
}

/// Like a profile, and groups of members of which a hash over the selector keys chooses one.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

/// A number from `lo` to `hi`, both inside.
extern void random<T>(out T result, in T lo, in T hi);

/// Sends `data` to the control plane.
extern void digest<T>(in bit<32> receiver, in T data);

/// Drops the packet at the end of the pipeline, unless something is assigned to egress_spec later.
#if V1MODEL_VERSION >= 20200408
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
#else
@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);
#endif

/// `base` plus the hash of `data` modulo `max`; `base` alone if `max` is 0.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

/// Calculates a checksum on its own; kept for old programs.
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

/// Sets checksum_error if `condition` holds and the checksum over `data` is not `checksum`.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// Writes the checksum over `data` if `condition` holds.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// The same with what the parser did not read behind `data`.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// Makes a copy for the port or group of the session.
extern void clone(in CloneType type, in bit<32> session);
/// The same, and the copy keeps the metadata fields that are marked `@field_list(index)`.
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("Please use 'clone_preserving_field_list' instead.")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/// Sends the packet, as it came, through the parser and ingress again when ingress ends.
extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("Please use 'resubmit_preserving_field_list' instead.")
extern void resubmit<T>(in T data);

/// Sends the packet, as deparsed, to the parser again when egress ends.
extern void recirculate_preserving_field_list(bit<8> index);
@deprecated("Please use 'recirculate_preserving_field_list' instead.")
extern void recirculate<T>(in T data);

/// Cuts the packet to at most `length` bytes when it leaves.
extern void truncate(in bit<32> length);

/// Checks, for testing and for formal tools.
extern void assert(in bool check);
extern void assume(in bool check);

/// Writes `msg` to the log, each `{}` in it replaced by a value of `data`.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(
    packet_in b,
    out H parsedHdr,
    inout M meta,
    inout standard_metadata_t standard_metadata);

/// May only call verify_checksum.
control VerifyChecksum<H, M>(inout H hdr, inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

/// May only call update_checksum.
control ComputeChecksum<H, M>(inout H hdr, inout M meta);

/// May only emit.
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p,
    VerifyChecksum<H, M> vr,
    Ingress<H, M> ig,
    Egress<H, M> eg,
    ComputeChecksum<H, M> ck,
    Deparser<H> dep);

#endif
