"""The constants of the aggregation transport, and what an endpoint makes of them."""

from dataclasses import dataclass

from testbed.transport.aggregation.reordering import Reordering
from testbed.transport.aggregation.timer import Timer
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.wire.aggregation import BLOCK_VALUES, HEADER_BYTES, MOST_SLOTS, MOST_VALUES, VALUE_BYTES
from testbed.wire.ethernet import IPV4_BYTES, UDP_BYTES, UDP_WIRE_BYTES
from testbed.wire.protocols import BEST_EFFORT, OPTICAL, SLOTS
from testbed.wire.roce import BTH_BYTES, ICRC_BYTES

_SLOTS_BDPS = 2
_SLOTS_MOST = 512
_SLOTS_LEAST = 16
_TIMEOUT_RTTS = 2
_HOLD_SHARE = 4  # of the base RTT
_BATCH_SHARE = 4  # of the slots
_OVERTAKEN_BY = 3  # ATP's and TCP's threshold (RFC 5681); ATP's public worker has 1
POOL = 2048
_ROCE_BYTES = BTH_BYTES + ICRC_BYTES


def framed_bytes(values: Values) -> int:
    """What a packet has in UDP beside its values: the header, and with RoCE's framing a BTH and an ICRC."""
    return HEADER_BYTES + (_ROCE_BYTES if values["framing"] == "roce" else 0)


def packet_bytes(values: Values) -> int:
    """A packet of a chunk in UDP; add `UDP_WIRE_BYTES` for what a link's rate counts."""
    return framed_bytes(values) + whole(values, "values") * VALUE_BYTES


def batch_of(values: Values) -> int:
    """How many results are taken in at once without waiting for more."""
    return max(1, whole(values, "slots") // _BATCH_SHARE)


def _packet_ns(path: Path, values: Values) -> int:
    return max(1, (packet_bytes(values) + UDP_WIRE_BYTES) * 8 * 10**9 // path.rate_bps)


def _scaled_values(path: Path, values: Values) -> Value:
    room = (path.mtu_bytes - IPV4_BYTES - UDP_BYTES - framed_bytes(values)) // VALUE_BYTES
    return min(max(room // BLOCK_VALUES, 1) * BLOCK_VALUES, MOST_VALUES)


def _scaled_slots(path: Path, values: Values) -> Value:
    slots = _SLOTS_BDPS * -(-path.base_rtt_ns // _packet_ns(path, values))
    return min(max(slots, 2 * path.max_burst_packets, _SLOTS_LEAST), _SLOTS_MOST)


def _scaled_hold(path: Path, _: Values) -> Value:
    return path.base_rtt_ns // _HOLD_SHARE


def _scaled_timeout(path: Path, values: Values) -> Value:
    server_ns = path.queueing_ns if values["protocol"] == BEST_EFFORT else 0  # all workers' packets may wait there
    return _TIMEOUT_RTTS * path.base_rtt_ns + whole(values, "slots") * _packet_ns(path, values) + server_ns


PARAMETERS = (
    Parameter(
        "protocol",
        "slots: SwitchML's, each job has slots of its own; besteffort: ATP's, jobs share what the switches have, and a "
        "server adds up what finds no room; optical: OptINC's, the rounded mean of words, without retransmissions",
        "slots",
        "",
        "our choice",
        choices=(SLOTS, BEST_EFFORT, OPTICAL),
    ),
    Parameter(
        "server",
        "besteffort: the host that adds up what the switch does not, or auto: the first one without a rank",
        "auto",
        "",
        "our choice",
    ),
    Parameter(
        "pool",
        "besteffort: how many of the switch's aggregators are used, which all jobs share",
        POOL,
        "aggregators",
        "that of p4/aggregate_besteffort.p4; ATP's public switch has 20,000 or 40,000",
        least=1,
        most=POOL,
    ),
    Parameter(
        "root",
        "the switch where the sums end, or auto: the one nearest to all workers of those whose program adds up",
        "auto",
        "",
        "our choice",
    ),
    Parameter(
        "framing",
        "what stands before the header in UDP: nothing (udp, port 48864) or a BTH (roce, UC SEND ONLY and ICRC)",
        "udp",
        "",
        "SwitchML's public worker has both kinds",
        choices=("udp", "roce"),
    ),
    Parameter(
        "values",
        "values of 32 bits a packet, which are a chunk: 32, 64 .. 256",
        MOST_VALUES,
        "values",
        "SwitchML's public worker: 256 (packet_numel)",
        "the most that fit the links' MTU",
        _scaled_values,
        choices=tuple(range(BLOCK_VALUES, MOST_VALUES + 1, BLOCK_VALUES)),
    ),
    Parameter(
        "slots",
        "chunks under way at once, each in a slot of the switches' pool",
        _SLOTS_MOST,
        "slots",
        "SwitchML (NSDI 2021): 512 at 100 Gb/s (recalled)",
        f"{_SLOTS_BDPS} BDP, at least two runs and {_SLOTS_LEAST}, at most {_SLOTS_MOST}",
        _scaled_slots,
        least=1,
        most=MOST_SLOTS,
    ),
    Parameter(
        "timeout",
        "how long a packet waits for its result, with all slots under way, before it is sent again: less by a packet's "
        "time for each slot that is not, but two base RTTs at least, and four times what short measured round trips "
        "take beyond that; twice as long after each timeout, never longer than `backoff` doublings of this",
        10_000_000,
        "ns",
        "SwitchML's public worker: 10 ms",
        f"{_TIMEOUT_RTTS} base RTTs and all slots' packets at the NIC's rate; with a server, and the longest queue",
        _scaled_timeout,
        least=1,
    ),
    Parameter(
        "backoff",
        "most doublings of the wait: who waits long keeps all others waiting, and who hardly waits sends in vain",
        2,
        "",
        "our choice: at 3 % loss 6 took over 4 times as long, and at 1 % 0 took 2.5 times as long and filled queues; "
        "SwitchML's public worker doubles after 100 timeouts",
        most=20,
    ),
    Parameter(
        "retries",
        "timeouts of a slot in a row before the reduction fails: 1,000, with 2 doublings, are 4,000 times `timeout`",
        1000,
        "",
        "our choice: SwitchML's worker never gives up",
        least=1,
    ),
    Parameter(
        "hold",
        "how long results may wait for others, until a quarter of the slots' or all that are to come are there; they "
        "are taken in at once, and what follows leaves as one run",
        0,
        "ns",
        "SwitchML's public worker takes in what there is",
        "a quarter of the base RTT",
        _scaled_hold,
    ),
    Parameter("dscp", "DSCP of the packets", 26, "", "our choice: that of RoCE's data", most=63),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    roce: bool
    best_effort: bool
    values: int
    slots: int
    timeout_ns: int
    backoff: int
    retries: int
    hold_ns: int
    batch: int
    dscp: int
    burst_packets: int
    reordered_by: int  # at the least: how many of its packets may overtake one
    packet_ns: int
    base_rtt_ns: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        best_effort = values["protocol"] == BEST_EFFORT
        return cls(
            roce=values["framing"] == "roce",
            best_effort=best_effort,
            values=whole(values, "values"),
            slots=whole(values, "slots"),
            timeout_ns=whole(values, "timeout"),
            backoff=whole(values, "backoff"),
            retries=whole(values, "retries"),
            hold_ns=whole(values, "hold"),
            batch=batch_of(values),
            dscp=whole(values, "dscp"),
            burst_packets=path.max_burst_packets,
            reordered_by=_OVERTAKEN_BY if best_effort else max(_OVERTAKEN_BY, batch_of(values)),
            packet_ns=_packet_ns(path, values),
            base_rtt_ns=path.base_rtt_ns,
        )

    def reordering(self) -> Reordering:
        """A member's, at the beginning; with a server it stays so."""
        most = self.reordered_by if self.best_effort else max(self.slots, self.reordered_by)
        return Reordering(self.reordered_by, most)

    def timer(self) -> Timer:
        """A member's, at the beginning."""
        return Timer(self.timeout_ns, _TIMEOUT_RTTS * self.base_rtt_ns, self.packet_ns, self.slots, self.backoff)
