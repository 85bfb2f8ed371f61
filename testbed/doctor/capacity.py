"""What this machine carries: packet-hops a second without loss, and how late packets are, through a shaped fat-tree.

Measured once and kept (see `store`); `plan` predicts a spec's packet-hops a second against it, and
`time_dilation: auto` brings the two together.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from testbed.doctor import facts
from testbed.doctor.load import PACKET_BYTES, Load
from testbed.doctor.store import load_capabilities, save_capabilities
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, TestbedError
from testbed.plan.model import Capabilities
from testbed.plan.paths import Paths
from testbed.plan.planner import plan
from testbed.plan.serial import to_json
from testbed.run.probes import one_way_ns
from testbed.spec.model import Spec

_FABRIC = {
    "name": "doctor",
    "topology": {"kind": "fat-tree", "k": 4},
    "links": [{"rate": "10Gbps", "delay": "5ms", "queue": "4MiB"}],
    "time_dilation": 1,
}
_PAIRS = [("h0", "h15"), ("h15", "h0"), ("h4", "h11"), ("h11", "h4")]
_FIRST_PACKETS_PER_S = 500.0
_LOSSLESS_SHARE = 0.001
_OFFER_S = 0.7
_REFINEMENTS = 4
_ROUND_TRIPS = 101
_COLD_START = 2000  # packets-hops a second assumed before anything is known


def capabilities(say: Callable[[str], None]) -> Capabilities:
    """This machine's, measured now if they never were; raises MachineLacks without root."""
    known = load_capabilities()
    if known is None:
        say("measuring what this machine carries (once)")
        known = measure()
        save_capabilities(known)
    return known


def measure() -> Capabilities:
    """Bring a k=4 fat-tree up and load it; about ten seconds. Raises MachineLacks for what is missing."""
    for fact in facts.look():
        if fact.needed and not fact.found:
            raise MachineLacks(f"{fact.name}: {fact.detail} ({fact.cost})", hint=fact.mend)
    guess = Capabilities(
        datapath="kernel" if facts.kernel_datapath() else "user",
        netem=facts.netem(),
        tun_segmentation=facts.tun_segmentation(),
        cores=len(os.sched_getaffinity(0)),
        packet_hops_per_s=_COLD_START,
        path_excess_ns=0,
        switch_ns=0,
    )
    fabric = plan(Spec.model_validate(_FABRIC), guess)
    with tempfile.TemporaryDirectory(prefix="testbed-doctor-") as logs:
        state = RunState.create("run", "doctor", Path(logs))
        (state.directory / "plan.json").write_text(json.dumps(to_json(fabric)))
        network = EmulatedNetwork(fabric, state, Path(logs))
        try:
            network.start()
            paths = Paths(fabric.graph, fabric.addresses, fabric.switches)
            links = [fabric.graph.links[stage[0]] for stage in paths.stages(*_PAIRS[0])]
            load = Load(
                _PAIRS,
                {host: network.netns(host) for host in fabric.graph.hosts},
                {host: address.ip for host, address in fabric.addresses.items()},
            )
            excess_ns = max(0, load.round_trip_ns(_ROUND_TRIPS) - 2 * one_way_ns(links, PACKET_BYTES))
            packets_per_s = _most_without_loss(load)
            network.mark()
            load.offer(packets_per_s / 2, _OFFER_S)
            transit = network.fabric.transit_ns() if "netcore" in fabric.drivers else None
            load.close()
        finally:
            problems = network.stop()
            if not problems:
                state.remove()
    if problems:
        raise TestbedError("the doctor's network did not go down: " + "; ".join(problems), hint="run `testbed clean`")
    return Capabilities(
        datapath=guess.datapath,
        netem=guess.netem,
        tun_segmentation=guess.tun_segmentation,
        cores=guess.cores,
        packet_hops_per_s=round(packets_per_s * len(_PAIRS) * len(links)),
        path_excess_ns=excess_ns // 2,
        switch_ns=transit[1] if transit else 0,
    )


def _most_without_loss(load: Load) -> float:
    """The highest rate a pair that arrives whole: doubled until it does not, then narrowed down."""
    good, bad = _FIRST_PACKETS_PER_S, None
    while bad is None:
        if _whole(load, 2 * good):
            good *= 2
        else:
            bad = 2 * good
    for _ in range(_REFINEMENTS):
        middle = (good + bad) / 2
        if _whole(load, middle):
            good = middle
        else:
            bad = middle
    return good


def _whole(load: Load, packets_per_s: float) -> bool:
    offered = load.offer(packets_per_s, _OFFER_S)
    kept_up = offered.sent >= 0.95 * packets_per_s * len(_PAIRS) * _OFFER_S
    return kept_up and offered.lost_share <= _LOSSLESS_SHARE
