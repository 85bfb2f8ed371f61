"""What this machine carries on time, in packet-hops a second, and how late packets are: with real ranks on a fat-tree.

Eight ranks of a k=4 fat-tree repeat a small ring allreduce at various rates of the links. The highest at which it takes
no longer than it should is what the machine carries: once through Open vSwitch, and once through native switches where
there is a C compiler. Measured once and kept (see `store`); `plan` predicts a spec's packet-hops a second against it,
and `time_dilation: auto` brings the two together.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from testbed.doctor import facts
from testbed.doctor.store import load_capabilities, save_capabilities
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, TestbedError
from testbed.plan.model import Capabilities, Carried, Plan, SwitchingKind
from testbed.plan.planner import plan
from testbed.run.conductor import Conductor
from testbed.run.interrupts import interruptible, uninterrupted
from testbed.run.launch import start_workers
from testbed.run.probes import Probes, probe
from testbed.spec.model import Spec

_STEP = 2**-0.5
_MOST_LATE = 1.05  # of the alpha-beta bound: what still counts as carried
_ROUNDS = 3  # the median of so many decides
_WALL_LIMIT_S = 600.0  # an emulated machine is slow
_ROUND_LIMIT_S = 30.0
_START_LIMIT_S = 60.0
_RELEASE_NS = 20_000_000
_TIMEOUT = 19  # of a queue pair, 2 s (IBTA 9.7.6.1.3): ranks take theirs from the highest rate, and stay for the lowest


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one kind of switch is measured: from which rate down, in how many steps, and with what.

    An Open vSwitch's links have delays that hide what a switch takes. Through native switches, which take nothing, so
    much moves between two steps of the ring that what ranks and kernel take is little beside it.
    """

    kind: SwitchingKind
    highest_bps: int
    steps: int  # of `_STEP` down from there
    delay: str
    size: str


_OVS = _Kind("ovs", 64_000_000, 14, "2ms", "128KiB")
_NATIVE = _Kind("native", 512_000_000, 12, "100us", "1MiB")
_BMV2 = _Kind("bmv2", 32_000_000, 14, "2ms", "64KiB")


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
    """Some twenty seconds with a k=4 fat-tree, of either kind of switch.

    Raises MachineLacks for what is missing, RunFailed if it fails.
    """
    for fact in facts.look():
        if fact.needed and not fact.found:
            raise MachineLacks(f"{fact.name}: {fact.detail} ({fact.cost})", hint=fact.mend)
    unknown = Capabilities(
        datapath="kernel" if facts.kernel_datapath() else "user",
        netem=facts.netem(),
        tun_segmentation=facts.tun_segmentation(),
        cores=len(os.sched_getaffinity(0)),
        packet_hops_per_s=1,
        path_excess_ns=0,
        switch_ns=0,
        native=Carried(1, 0),
        bmv2=Carried(1 << 62, 0),
    )
    return replace(
        unknown,
        **asdict(_carried(unknown, _OVS)),
        native=_carried(unknown, _NATIVE) if facts.compiler() else None,
        bmv2=None if facts.bmv2_lacks() else _carried(unknown, _BMV2),
        bmv2_grpc=facts.bmv2_grpc(),
    )


def _carried(unknown: Capabilities, kind: _Kind) -> Carried:
    state = RunState.create("run", "doctor", Path("/"))
    logs = state.directory / "logs"
    logs.mkdir()
    trial = _Trial(unknown, kind, state, logs)
    with uninterrupted():
        try:
            with interruptible():
                carried = trial.run()
        finally:
            problems = trial.stop()
            if not problems:
                state.remove()
    if problems:
        raise TestbedError("the doctor's network did not go down: " + "; ".join(problems), hint="run `testbed clean`")
    return carried


class _Trial:
    """The fat-tree with its ranks, and the search over the links' rate."""

    def __init__(self, unknown: Capabilities, kind: _Kind, state: RunState, logs: Path) -> None:
        self._unknown = unknown
        self._kind = kind
        self._logs = logs
        self._plan = self._planned(kind.highest_bps)
        self._network = EmulatedNetwork(self._plan, state, logs)
        self._workers: Child | None = None
        self._round = 0

    def run(self) -> Carried:
        """What is carried at the highest rate at which all is on time: found by bisection; else at the lowest."""
        self._network.start()
        conductor = Conductor(self._network.hub, wall_limit_s=_WALL_LIMIT_S)
        self._workers = start_workers(self._network, self._logs)
        conductor.welcome_ranks(len(self._plan.placement), _START_LIMIT_S, self._workers.check)
        idle = Probes()
        probe(self._plan, self._plan.jobs[0], conductor, idle, trains=())
        path_excess_ns = max(0, *(p.measured_ns - p.modelled_ns for p in idle.rtt)) // 2
        self._allreduce(conductor)  # the first also fills the switches' caches
        carried = None
        first, last = 0, self._kind.steps
        while first < last or carried is None:
            step = (first + last) // 2
            at_rate = self._planned(round(self._kind.highest_bps * _STEP**step))
            took_ns = self._median_ns(conductor, at_rate)
            if took_ns > _MOST_LATE * at_rate.prediction.bound_ns and step < self._kind.steps:
                first = step + 1
            else:
                last = step
                hops = at_rate.prediction.packet_hops_per_iteration
                carried = Carried(round(hops * 1e9 / took_ns), path_excess_ns, self._switch_ns())
        return carried

    def _median_ns(self, conductor: Conductor, at_rate: Plan) -> float:
        for link in at_rate.graph.links:
            self._network.set_link(link.index, link.parameters)
        self._network.mark()
        return statistics.median(self._allreduce(conductor) for _ in range(_ROUNDS))

    def _switch_ns(self) -> int:
        in_switches = self._kind.kind != "native" and "netcore" in self._plan.drivers
        transit = self._network.fabric.transit_ns() if in_switches else None
        return transit[1] if transit else 0

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
            "links": [{"rate": f"{rate_bps}bps", "delay": self._kind.delay, "queue": "4MiB"}],
            "switches": {"kind": self._kind.kind},
            "workers": {"count": 8, "placement": "spread"},
            "transport": {"timeout": _TIMEOUT},
            "workload": {"size": self._kind.size},
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
