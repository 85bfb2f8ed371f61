"""TIMELY as OptiReduce's transport has it: only against collapse, so it starts at the line's rate.

The algorithm is that of `timely` as published, and so are the constants that are not recalled here. That it is
TIMELY-like is from a reading note; the paper's public code has no rate control at all.

UBT has it only where a spec names it, as in the public code. A rate that was cut rises by a step with each sample, and
messages of some packets give few: with those of `experiments/optireduce.yaml`, at tails of 3, a collective takes 49 ms
in place of 12 under congestion and 102 in place of 15 with a slow host, and under stalls 21 % is missing in place of
0.5 % (simulated). The paper's buckets of 25 MB would give some hundred samples a message.

Our reading of T_low: a packet waits for a burst of its own NIC, and what answers it for one of the peer's. That is no
congestion, and where bursts take as long as a round trip its ups and downs would cut the rate to nothing.
"""

from dataclasses import replace
from typing import Any

from testbed.transport.congestion.control import Congestion
from testbed.transport.congestion.scaling import packet_bits, within_queue
from testbed.transport.congestion.timely import ORIGINAL, OriginalTimely
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Value, Values

_REFERENCE_BPS = 10 * 10**9
_STEP_BPS = 50_000_000
_QUEUE_SHARE_LOW, _QUEUE_SHARE_HIGH = 0.5, 0.75  # our choice
_RECALLED = "recalled"


def _bursts_ns(path: Path, values: Values) -> float:
    """How long the NICs at both ends are busy with a burst."""
    burst = values.get("burst", path.max_burst_packets)
    assert isinstance(burst, int)
    return 2 * burst * packet_bits(values) * 10**9 / path.rate_bps


def _low(path: Path, values: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, _bursts_ns(path, values), _QUEUE_SHARE_LOW)


def _high(path: Path, values: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, _bursts_ns(path, values) + 11.25 * path.base_rtt_ns, _QUEUE_SHARE_HIGH)


_OWN: dict[str, dict[str, Any]] = {  # what differs from TIMELY as published
    "beta": {"default": 0.5, "source": _RECALLED},
    "t_low": {
        "default": 25_000,
        "source": _RECALLED,
        "rule": f"the base RTT and two bursts, the latter at most {_QUEUE_SHARE_LOW:.0%} of the fullest queue",
        "scaled": _low,
    },
    "t_high": {
        "default": 250_000,
        "source": _RECALLED,
        "rule": f"11.25 base RTTs more, but at most the base RTT and {_QUEUE_SHARE_HIGH:.0%} of the fullest queue",
        "scaled": _high,
    },
    "additive_increase": {
        "default": _STEP_BPS,
        "source": f"{_RECALLED}; our reading: at 10 Gb/s",
        "scaled": lambda path, _: max(1, _STEP_BPS * path.rate_bps // _REFERENCE_BPS),
    },
    "segment": {"default": 32, "source": "public code: bursts of 32"},
    "initial_rate": {
        "default": _REFERENCE_BPS,
        "source": "our reading: the line's, as it is there only against collapse",
        "rule": "the line's",
        "scaled": lambda path, _: path.rate_bps,
    },
}

TIMELY_OPTIREDUCE = Congestion(
    "timely-optireduce",
    "TIMELY as OptiReduce has it, against collapse only",
    tuple(replace(parameter, **_OWN.get(parameter.name, {})) for parameter in ORIGINAL),
    OriginalTimely,
)
