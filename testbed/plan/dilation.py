"""How much slower than model time an emulation runs, and why."""

import math
from dataclasses import dataclass

from testbed.plan.model import Capabilities, Prediction
from testbed.spec.model import Spec

MOST_LOAD = 0.5  # of the packet-hops a second that the machine carries
MOST_ERROR = 0.1  # of the base round trip


@dataclass(frozen=True, slots=True)
class Dilation:
    """The factor that runs, and the least that each of the two limits asks for."""

    value: int
    by_load: int
    by_timing: int
    reasons: tuple[str, ...]


def dilate(spec: Spec, prediction: Prediction, hops: int, capabilities: Capabilities) -> Dilation:
    """`time_dilation` of the spec, or for `auto` the least that keeps load and timing within their limits.

    hops: the links that a packet and its acknowledgement cross together on the longest path among ranks.
    """
    carries = MOST_LOAD * capabilities.packet_hops_per_s
    by_load = max(1, math.ceil(prediction.packet_hops_per_s / carries))
    excess_ns = hops * capabilities.hop_excess_ns
    allowed_ns = MOST_ERROR * prediction.base_rtt_ns
    by_timing = max(1, math.ceil(excess_ns / allowed_ns)) if allowed_ns else 1
    load = (
        f"load asks for {by_load}: {prediction.packet_hops_per_s:,.0f} packet-hops/s predicted, "
        f"{carries:,.0f} allowed (half of what this machine carries)"
    )
    timing = (
        f"timing asks for {by_timing}: {hops} hops there and back come {excess_ns / 1000:,.0f} us late, "
        f"{allowed_ns / 1000:,.1f} us allowed (a tenth of the base RTT)"
    )
    if spec.engine == "simulation":
        return Dilation(1, by_load, by_timing, ("a simulation has a clock of its own",))
    if spec.time_dilation != "auto":
        return Dilation(spec.time_dilation, by_load, by_timing, (f"the spec says {spec.time_dilation}", load, timing))
    return Dilation(max(by_load, by_timing), by_load, by_timing, (load, timing))
