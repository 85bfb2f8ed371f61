// How deep each egress queue is, for ingress to know: what leaves a queue writes down the depth behind it.
//
// v1model tells depths to egress only, when a packet has waited already. This one is as old as the queue's last departure, and
// the packet that empties a queue leaves a 0. The unit is the target's: bytes on native switches, packets on simple_switch.
#ifndef QUEUE_DEPTH_P4
#define QUEUE_DEPTH_P4

#include "headers.p4"

register<bit<32>>(4096) queue_depths;

bit<32> queue_index(in port_t port, in priority_t priority) {
    return 20w0 ++ port ++ priority;
}

control RememberDepth(in standard_metadata_t standard_metadata) {
    apply {
        queue_depths.write(queue_index(standard_metadata.egress_port, standard_metadata.priority),
                           (bit<32>)standard_metadata.deq_qdepth);
    }
}

#endif
