"""Reading the kernel's loss counters (texts as printed by Linux 6.1 and iproute2 6.1)."""

from testbed.emulation.drops import parse_packet_sockets, parse_receive_drops, parse_udp

SNMP = """\
Tcp: RtoAlgorithm RtoMin
Tcp: 1 200
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 105 2 12 99 7 0 5 0 0
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 1 1 1 1 1 1 1 1 1
"""

DEVICES = """\
Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:   0   0  0  0  0  0  0  0   0   0  0  0  0  0  0  0
h0-eth0: 830  9  0  4  0  0  0  0 830   9  0  6  0  0  0  0
"""

PACKET_SOCKETS = """\
p_raw 0      0      *:a3_0-eth2 * skmem:(r0,rb8388608,t0,tb8388608,f0,w0,o176,bl0,d0)
p_raw 0      0      *:a3_0-eth3 * skmem:(r0,rb8388608,t0,tb8388608,f0,w0,o176,bl0,d17)
p_raw 0      0      *:a3_0-eth3 * skmem:(r0,rb8388608,t0,tb8388608,f0,w0,o176,bl0,d3)
p_dgr 0      0      [802]:vethx * skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d0)
"""


def test_udp_losses_by_cause() -> None:
    assert parse_udp(SNMP) == {
        "UDP receive buffer full": 7,
        "UDP checksum wrong": 5,
        "UDP port without a listener": 2,
    }


def test_packets_an_interface_got_and_dropped() -> None:
    assert parse_receive_drops(DEVICES) == {"h0-eth0: received and dropped": 4}


def test_drops_at_packet_sockets_are_summed_by_interface() -> None:
    assert parse_packet_sockets(PACKET_SOCKETS) == {"a3_0-eth3": 20}
