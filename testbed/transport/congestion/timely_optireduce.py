"""TIMELY as OptiReduce's transport has it: only against collapse, so it starts at the line's rate.

The algorithm is that of `timely` as published. The constants are recalled, and the paper's public code has no rate
control at all; that it is TIMELY-like is from a reading note. UBT has it only where a spec names it: a flow of some
tens of packets has few samples in a collective, so that after a cut it takes many to come back (simulated).

Our reading of T_low: a packet waits for a burst of its own NIC, and what answers it for one of the peer's. That is no
congestion, and where bursts take as long as a round trip its ups and downs would cut the rate to nothing.
"""

from testbed.transport.congestion.control import Congestion
from testbed.transport.congestion.scaling import least_rate_bps, packet_bits, within_queue
from testbed.transport.congestion.timely import OriginalTimely
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values

_REFERENCE_BPS = 10 * 10**9
_STEP_BPS = 50_000_000
_BASE_NS = 20_000  # the fabric that the constants are for: TIMELY's own
_QUEUE_SHARE_LOW, _QUEUE_SHARE_HIGH = 0.5, 0.75  # our choice
_RECALLED = "recalled"
_TIMELY = "TIMELY paper, as the HPCC simulator and Zhu et al. have it"


def _bursts_ns(path: Path, values: Values) -> float:
    """How long the NICs at both ends are busy with a burst."""
    burst = values.get("burst", path.max_burst_packets)
    assert isinstance(burst, int)
    return 2 * burst * packet_bits(values) * 10**9 / path.rate_bps


def _low(path: Path, values: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, _bursts_ns(path, values), _QUEUE_SHARE_LOW)


def _high(path: Path, values: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, _bursts_ns(path, values) + 11.25 * path.base_rtt_ns, _QUEUE_SHARE_HIGH)


_PARAMETERS = (
    Parameter("ewma", "alpha: weight of a new difference", 0.875, "fraction", _TIMELY),
    Parameter("beta", "weight of a decrease", 0.5, "fraction", _RECALLED),
    Parameter(
        "min_rtt",
        "D: what gradients are shares of; a sample that comes sooner counts less",
        _BASE_NS,
        "ns",
        _TIMELY,
        "the base RTT",
        lambda path, _: path.base_rtt_ns,
        least=1,
    ),
    Parameter(
        "t_low",
        "below this round trip the rate rises in any case",
        25_000,
        "ns",
        _RECALLED,
        f"the base RTT and two bursts, the latter at most {_QUEUE_SHARE_LOW:.0%} of the fullest queue",
        _low,
        least=1,
    ),
    Parameter(
        "t_high",
        "above this round trip the rate falls in any case",
        250_000,
        "ns",
        _RECALLED,
        f"11.25 base RTTs more, but at most the base RTT and {_QUEUE_SHARE_HIGH:.0%} of the fullest queue",
        _high,
        least=1,
    ),
    Parameter(
        "additive_increase",
        "delta: step of the rate",
        _STEP_BPS,
        "bps",
        f"{_RECALLED}; our reading: at 10 Gb/s",
        "x rate / 10 Gb/s",
        lambda path, _: max(1, _STEP_BPS * path.rate_bps // _REFERENCE_BPS),
        least=1,
    ),
    Parameter("segment", "a run is at most so long", 32, "packets", "public code: bursts of 32", least=1),
    Parameter(
        "initial_rate",
        "the rate at the start",
        _REFERENCE_BPS,
        "bps",
        "our reading: the line's, as it is there only against collapse",
        "the line's",
        lambda path, _: path.rate_bps,
        least=1,
    ),
    Parameter(
        "least_rate",
        "the rate is never cut below this",
        10_000_000,
        "bps",
        "our reading: TIMELY's step",
        "a full packet in 10 base RTTs",
        least_rate_bps,
        least=1,
    ),
    Parameter("most_cut", "one sample cuts the rate by at most this share", 0.5, "fraction", "as of `timely`"),
    Parameter("hyper_after", "samples in a row without a rise until steps are fivefold", 5, "", _TIMELY, least=1),
)

TIMELY_OPTIREDUCE = Congestion(
    "timely-optireduce", "TIMELY as OptiReduce has it, against collapse only", _PARAMETERS, OriginalTimely
)
