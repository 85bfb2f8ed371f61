// Adds up the vectors of jobs' workers as far as there is room, and leaves the rest to a server; forwards all else as l3_ecmp.
//
// ATP's protocol (Lao et al., NSDI 2021), with the packets of include/aggregation.p4. All jobs share the pool's aggregators: a
// chunk's is given by a hash of job and number, and belongs to the first contribution that finds it free. A contribution that
// finds another chunk there goes on to the job's server alone; so does, with all that was added, one that was sent again,
// and the last one of a chunk. What goes to the server (PARTIAL) tells by a bitmap whose contributions it has. The server
// sends the sum back (SUM), which frees the aggregator and leaves as the result, a copy to each child, or to the one asked
// for. The largest of the exponents goes with the sums; sums wrap around, as in aggregate.p4 (ATP's saturate).
//
// A contribution that comes late and twice may hold an aggregator of whose chunk nothing more is to come. One that is two turns
// of the job's slots behind is taken over by the next chunk of the job that falls on it.
//
// Besides `routes`, `members` and `salts` (see l3_ecmp.p4) a controller fills
//   jobs      the job's address, which contributions and sums go to -> aggregate_besteffort(number, children, slots, values,
//             group, pool, server, server_mac): the job's number, how many children it has (at most 32), how many chunks are
//             under way at once, how many values a packet has, the multicast group of the children, child i with rid i + 1,
//             how many of the 2048 aggregators are used, and the server's addresses
//   children  as for aggregate.p4
// Contributions to an address that is not in `jobs` are forwarded.
//
// By job number, `completed` counts chunks added up whole here, `collided` contributions that found another chunk, `flushed`
// partial sums that a contribution sent again took along, `taken_over` aggregators, `ignored` contributions that were there
// already, and `congested` sums that tell workers to slow down. `refused`: as in aggregate.p4.
#include <core.p4>
#include <v1model.p4>

#include "include/aggregation.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

const bit<8> KIND_AGAIN = 3;    // up, a contribution for which no result came
const bit<8> KIND_PARTIAL = 4;  // to the server; worker and, as the upper half, reserved are a bitmap of children
const bit<8> KIND_SUM = 5;      // from the server

const bit<8> FLAG_CONGESTED = 1;  // on the way up, of any contribution, and down
const bit<8> FLAG_ALONE = 2;      // a sum for one child, which `worker` tells

// Adds a contribution to the chunk's aggregator, or takes out what goes to the server.
control Aggregator(inout headers_t headers, in job_t job, in slot_t at, out bool leaves, out bit<32> with) {
    counter(256, CounterType.packets) completed;
    counter(256, CounterType.packets) collided;
    counter(256, CounterType.packets) flushed;
    counter(256, CounterType.packets) taken_over;
    counter(256, CounterType.packets) ignored;
    Store() store;
    Add() add;
    Load() load;

    apply {
        place_t place = at ++ 1w0;
        bit<32> job_index = (bit<32>)job.number;
        bit<32> own = 32w1 << headers.aggregation.worker[4:0];
        bit<32> all = (32w1 << job.children) - 1;
        bit<64> state;
        bit<64> holder;
        arrivals.read(state, (bit<32>)at);
        chunks.read(holder, (bit<32>)at);
        bit<32> here = state[31:0];
        bit<1> congested = state[32:32] | headers.aggregation.flags[0:0];
        bit<64> tag = 24w0 ++ job.number ++ headers.aggregation.chunk;
        if (headers.ipv4.ecn == ECN_CE) {
            congested = 1;
        }
        bit<32> behind = headers.aggregation.chunk - holder[31:0];
        bool old = holder[39:32] == job.number && behind[31:31] == 0 && behind >= (bit<32>)job.slots << 1;
        bool again = headers.aggregation.kind == KIND_AGAIN;
        leaves = again;
        with = own;
        if (here != 0 && holder == tag) {
            if ((here & own) == 0) {
                add.apply(headers, place);
                with = here | own;
            } else if (again) {
                load.apply(headers, place);
                with = here;
            }
            if (again) {
                flushed.count(job_index);
                arrivals.write((bit<32>)at, 0);
            } else if ((here & own) != 0) {
                ignored.count(job_index);
            } else {
                arrivals.write((bit<32>)at, 31w0 ++ congested ++ with);
                if (with == all) {
                    leaves = true;
                    completed.count(job_index);
                }
            }
        } else if (again) {
            congested = headers.aggregation.flags[0:0];
        } else if (here == 0 || old) {
            if (here != 0) {
                taken_over.count(job_index);
                congested = headers.aggregation.flags[0:0];
            }
            store.apply(headers, place);
            arrivals.write((bit<32>)at, 31w0 ++ congested ++ own);
            chunks.write((bit<32>)at, tag);
            if (own == all) {
                leaves = true;
                completed.count(job_index);
            }
        } else {
            leaves = true;
            congested = headers.aggregation.flags[0:0];
            collided.count(job_index);
        }
        if (leaves) {
            headers.aggregation.flags[0:0] = congested;
        }
    }
}

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(256, CounterType.packets) congested;
    FlowHash() flow_hash;
    Routing() routing;
    Check() check;
    Aggregator() aggregator;
    job_t job;
    bit<16> all_children;
    bit<12> pool;
    ipv4_address_t server_address;
    mac_t server_ethernet;

    action aggregate_besteffort(bit<8> number, bit<6> children, bit<12> slots, bit<16> values, bit<16> group,
                                bit<12> aggregators, ipv4_address_t server, mac_t server_mac) {
        job = { number, children, 0, slots, values };
        all_children = group;
        pool = aggregators;
        server_address = server;
        server_ethernet = server_mac;
    }

    table jobs {
        key = { headers.ipv4.destination: exact @name("aggregator"); }
        actions = { aggregate_besteffort; NoAction; }
        default_action = NoAction;
        size = 256;
    }

    action readdress(ipv4_address_t target, mac_t ethernet) {
        headers.ipv4.source = headers.ipv4.destination;
        headers.ipv4.destination = target;
        headers.ipv4.ttl = 64;
        headers.ethernet.source = headers.ethernet.destination;
        headers.ethernet.destination = ethernet;
        headers.udp.source_port = headers.udp.destination_port;
        meta.summed = true;
    }

    apply {
        bool handled = false;
        if (headers.aggregation.isValid()
            && (headers.aggregation.kind == KIND_ADD || headers.aggregation.kind == KIND_AGAIN
                || headers.aggregation.kind == KIND_SUM)
            && jobs.apply().hit) {
            check.apply(headers, meta, job, standard_metadata);
            // As ATP's, a CRC of job and number; the upper half, scaled from 0 .. 65535 to 0 .. pool - 1.
            bit<32> drawn;
            hash(drawn, HashAlgorithm.crc32, 32w0, { job.number, headers.aggregation.chunk }, 33w0x1_0000_0000);
            slot_t at = (((bit<32>)drawn[31:16]) * (bit<32>)pool)[26:16];
            if (headers.aggregation.kind == KIND_SUM) {
                bit<64> holder;
                chunks.read(holder, (bit<32>)at);
                if (holder == 24w0 ++ job.number ++ headers.aggregation.chunk) {
                    arrivals.write((bit<32>)at, 0);
                }
                if (headers.aggregation.flags & FLAG_CONGESTED != 0) {
                    congested.count((bit<32>)job.number);
                }
                headers.aggregation.kind = KIND_RESULT;
                readdress(headers.ipv4.source, headers.ethernet.source);
                standard_metadata.mcast_grp = all_children;
                handled = true;
            } else {
                bool leaves;
                bit<32> with;
                aggregator.apply(headers, job, at, leaves, with);
                if (leaves) {
                    headers.aggregation.kind = KIND_PARTIAL;
                    headers.aggregation.worker = with[15:0];
                    headers.aggregation.reserved = with[31:16];
                    readdress(server_address, server_ethernet);
                } else {
                    mark_to_drop(standard_metadata);
                    handled = true;
                }
            }
        }
        if (!handled) {
            bit<32> draw;
            flow_hash.apply(headers, draw);
            routing.apply(headers, draw, standard_metadata);
        }
    }
}

control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Sending() sending;

    apply {
        if (meta.summed && standard_metadata.egress_rid != 0) {
            if (headers.aggregation.flags & FLAG_ALONE != 0
                && standard_metadata.egress_rid != headers.aggregation.worker + 1) {
                mark_to_drop(standard_metadata);
                exit;
            }
            headers.aggregation.flags = headers.aggregation.flags & FLAG_CONGESTED;
            headers.aggregation.worker = 0;
        }
        sending.apply(headers, meta, standard_metadata);
    }
}

V1Switch(AggregationParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
