"""What this machine carries on time, in packet-hops a second, and how late packets are: with real ranks on a fat-tree.

Eight ranks of a k=4 fat-tree repeat a small ring allreduce while the links' rate is lowered, until it takes no longer
than it should: that load is what the machine carries. Measured once and kept (see `store`); `plan` predicts a spec's
packet-hops a second against it, and `time_dilation: auto` brings the two together.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.doctor import facts
from testbed.doctor.store import load_capabilities, save_capabilities
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, TestbedError
from testbed.plan.model import Capabilities, Plan
from testbed.plan.planner import plan
from testbed.run.conductor import Conductor
from testbed.run.interrupts import interruptible, uninterrupted
from testbed.run.launch import start_workers
from testbed.run.probes import Probes, probe
from testbed.spec.model import Spec

_HIGHEST_BPS, _LOWEST_BPS = 64_000_000, 500_000
_STEP = 2**-0.5
_MOST_LATE = 1.05  # of the alpha-beta bound: what still counts as carried
_ROUNDS = 3  # the median of so many decides
_WALL_LIMIT_S = 600.0  # an emulated machine is slow
_ROUND_LIMIT_S = 30.0
_START_LIMIT_S = 60.0
_RELEASE_NS = 20_000_000
_DELAY = "2ms"  # of a link: enough to hide what a switch takes


def capabilities(say: Callable[[str], None]) -> Capabilities:
    """This machine's, measured now if they never were; raises MachineLacks without root."""
    if os.geteuid() != 0:
        raise MachineLacks("emulation needs root", hint="run it with sudo")
    known = load_capabilities()
    if known is None:
        say("measuring what this machine carries (once)")
        known = measure()
        save_capabilities(known)
    return known


def measure() -> Capabilities:
    """Some fifteen seconds with a k=4 fat-tree. Raises MachineLacks for what is missing, RunFailed if it fails."""
    for fact in facts.look():
        if fact.needed and not fact.found:
            raise MachineLacks(f"{fact.name}: {fact.detail} ({fact.cost})", hint=fact.mend)
    known: dict[str, Any] = {
        "datapath": "kernel" if facts.kernel_datapath() else "user",
        "netem": facts.netem(),
        "tun_segmentation": facts.tun_segmentation(),
        "cores": len(os.sched_getaffinity(0)),
    }
    unknown = Capabilities(**known, packet_hops_per_s=1, path_excess_ns=0, switch_ns=0)
    state = RunState.create("run", "doctor", Path("/"))
    logs = state.directory / "logs"
    logs.mkdir()
    trial = _Trial(unknown, state, logs)
    with uninterrupted():
        try:
            with interruptible():
                hops_per_s, path_excess_ns, switch_ns = trial.run()
        finally:
            problems = trial.stop()
            if not problems:
                state.remove()
    if problems:
        raise TestbedError("the doctor's network did not go down: " + "; ".join(problems), hint="run `testbed clean`")
    return Capabilities(**known, packet_hops_per_s=hops_per_s, path_excess_ns=path_excess_ns, switch_ns=switch_ns)


class _Trial:
    """The fat-tree with its ranks, and the search over the links' rate."""

    def __init__(self, unknown: Capabilities, state: RunState, logs: Path) -> None:
        self._unknown = unknown
        self._logs = logs
        self._plan = self._planned(_HIGHEST_BPS)
        self._network = EmulatedNetwork(self._plan, state, logs)
        self._workers: Child | None = None
        self._round = 0

    def run(self) -> tuple[float, int, int]:
        """Packet-hops a second carried; lateness over an idle path; time in a switch at that load (real ns)."""
        self._network.start()
        conductor = Conductor(self._network.hub, wall_limit_s=_WALL_LIMIT_S)
        self._workers = start_workers(self._network, self._logs)
        conductor.welcome_ranks(len(self._plan.placement), _START_LIMIT_S, self._workers.check)
        idle = Probes()
        probe(self._plan, conductor, idle, trains=())
        path_excess_ns = max(0, *(p.measured_ns - p.modelled_ns for p in idle.rtt)) // 2
        self._allreduce(conductor)  # the first also fills the switches' caches
        rate_bps = float(_HIGHEST_BPS)
        while True:
            at_rate = self._planned(round(rate_bps))
            for link in at_rate.graph.links:
                self._network.set_link(link.index, link.parameters)
            self._network.mark()
            took_ns = statistics.median(self._allreduce(conductor) for _ in range(_ROUNDS))
            if took_ns <= _MOST_LATE * at_rate.prediction.bound_ns or rate_bps * _STEP < _LOWEST_BPS:
                break
            rate_bps *= _STEP
        transit = self._network.fabric.transit_ns() if "netcore" in self._plan.drivers else None
        hops = at_rate.prediction.packet_hops_per_iteration
        return round(hops * 1e9 / took_ns), path_excess_ns, transit[1] if transit else 0

    def stop(self) -> list[str]:
        problems = []
        if self._workers is not None:
            try:
                self._workers.stop()
            except TestbedError as error:
                problems.append(error.message)
        return problems + self._network.stop()

    def _planned(self, rate_bps: int) -> Plan:
        spec = {
            "name": "doctor",
            "topology": {"kind": "fat-tree", "k": 4},
            "links": [{"rate": f"{rate_bps}bps", "delay": _DELAY, "queue": "4MiB"}],
            "workers": {"count": 8, "placement": "spread"},
            "workload": {"size": "128KiB"},
            "time_dilation": 1,
        }
        return plan(Spec.model_validate(spec), self._unknown)

    def _allreduce(self, conductor: Conductor) -> int:
        """Run one; how long it took, in nanoseconds."""
        index, self._round = self._round, self._round + 1
        conductor.tell_ranks({"op": "prepare", "iteration": index})
        conductor.gather("ready", "ranks that are not ready", _ROUND_LIMIT_S, iteration=index)
        conductor.tell_ranks({"op": "release", "iteration": index, "at_ns": time.monotonic_ns() + _RELEASE_NS})
        done = conductor.gather("done", "ranks that are not done", _ROUND_LIMIT_S, iteration=index).values()
        return int(max(d["end_ns"] for d in done) - min(d["start_ns"] for d in done))
