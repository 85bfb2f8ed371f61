"""Which switches forward, what each is told, and who tells it the routes."""

from typing import Literal

from testbed.plan.model import Bmv2Switch, Buffer, Capabilities, NativeSwitch, Pfc, Switching, SwitchingKind
from testbed.spec.model import PRIORITIES, BufferSpec, PfcSpec, SchedulerSpec, Spec, SwitchesSpec, SwitchKeys
from testbed.topology.graph import Graph
from testbed.topology.switches import KEYS, MOST_PORTS, default_program, switch_keys
from testbed.transport import reduces

_CONTROLLER = "ecmp"


def switching_of(spec: Spec, graph: Graph, capabilities: Capabilities) -> Switching:
    """Who forwards, on this machine; raises SelectError."""
    swaps = any(fault.kind == "swap-program" for fault in spec.faults)
    sums = any(reduces(job.transport) for job in spec.all_jobs.values())
    kind = _kind(spec.switches, swaps or sums, graph, capabilities)
    named = spec.switches.controller
    controller = named or (None if spec.switches.kind in ("native", "bmv2") else _CONTROLLER)
    if spec.engine == "simulation":  # whose switches are all native, and follow the plan as the controller would
        kind, controller = "native", None
    if kind == "ovs":
        return Switching(kind, controller, {})
    program = default_program(spec)
    keys = switch_keys(graph, spec.switches)
    if kind == "bmv2":
        switches = {name: Bmv2Switch(each.program or program, each.entries) for name, each in keys.items()}
        return Switching(kind, controller, {}, switches)
    return Switching(kind, controller, {name: _native(each, program) for name, each in keys.items()})


def spelled_out(spec: Spec, switching: Switching) -> Spec:
    """The spec with what was chosen where its `switches` leave it open: kind, controller, program."""
    chosen: dict[str, str | None] = {"kind": switching.kind, "controller": switching.controller}
    if switching.kind != "ovs" and spec.switches.program is None:
        chosen["program"] = default_program(spec)
    return spec.model_copy(update={"switches": spec.switches.model_copy(update=chosen)})


def _kind(switches: SwitchesSpec, programs: bool, graph: Graph, capabilities: Capabilities) -> SwitchingKind:
    """`auto`: native where the spec asks for what only these have; else Open vSwitch where the kernel forwards."""
    if switches.kind != "auto":
        return switches.kind
    if programs or switches.overrides or any(getattr(switches, key) is not None for key in KEYS):
        return "native"
    ports = max(len(graph.links_from(name)) for name in graph.switches)
    return "ovs" if capabilities.datapath == "kernel" or not capabilities.native or ports > MOST_PORTS else "native"


def _native(keys: SwitchKeys, program: str) -> NativeSwitch:
    return NativeSwitch(
        program=keys.program or program,
        scheduler=_scheduler(keys.scheduler),
        buffer=_buffer(keys.buffer),
        pfc=_pfc(keys.pfc),
        trim_bytes=keys.trim_bytes or 0,
        entries=keys.entries,
    )


def _scheduler(scheduler: str | SchedulerSpec | None) -> tuple[int, ...] | Literal["strict"]:
    if not isinstance(scheduler, SchedulerSpec):
        return "strict"
    weights = scheduler.weighted
    if isinstance(weights, tuple):
        return weights
    return tuple(weights.get(str(priority), 1) for priority in range(PRIORITIES))


def _buffer(buffer: BufferSpec | None) -> Buffer | None:
    return Buffer(buffer.shared_bytes, buffer.alpha, buffer.headroom_bytes) if buffer else None


def _pfc(pfc: PfcSpec | None) -> Pfc | None:
    if pfc is None:
        return None
    priorities = (pfc.priorities,) if isinstance(pfc.priorities, int) else pfc.priorities
    return Pfc(tuple(sorted(set(priorities))), pfc.xoff_bytes, pfc.xon_bytes)
