"""The run's handle on the fabric process: its requests as methods, its answers as dataclasses.

Times and rates in requests are model time, those in answers are real time.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.dataplane.forwarding import Traffic
from testbed.errors import RunFailed
from testbed.fabric.counters import Counted, Counts, LinkCounters, Pause, Swapped, SwitchCounters
from testbed.fabric.model import SwitchConfig
from testbed.routing.model import Entry
from testbed.run.channel import Channel, Message
from testbed.topology.graph import LinkParameters


@dataclass(frozen=True, slots=True)
class FabricClient:
    """Requests to a fabric process over its channel. Every method raises RunFailed if it is gone or refuses."""

    channel: Channel
    timeout_s: float = field(default=10.0)

    def ready(self, timeout_s: float = 30.0) -> bool:
        """Wait until all TAPs exist; returns whether super-packets cross the kernel at hosts."""
        message = self.channel.receive(timeout_s)
        if message.get("event") != "ready":
            raise RunFailed(f"the fabric could not be set up: {message.get('reason', message)}")
        return bool(message["segmentation"])

    def counters(self, job: int | None = None, *, mark: bool = False) -> tuple[LinkCounters, ...]:
        """All links, in the order of the configuration; `job`: of that one's packets, else of all jobs'.

        With `mark` as if `mark` followed at the same instant.
        """
        return tuple(_link_counters(entry) for entry in self._ask("counters", job=job, mark=mark)["links"])

    def mark(self) -> None:
        """Forget highest queues, measured rates and lateness."""
        self._ask("mark")

    def transit_ns(self) -> tuple[int, int] | None:
        """How long packets were inside switches since the last `mark`, in real time: (p50, p99)."""
        percentiles = self._ask("transit")["transit"]
        return None if percentiles is None else (percentiles[0], percentiles[1])

    def in_flight(self, job: int | None = None) -> tuple[int, int]:
        """Packets inside the fabric now: (all, the job's, or all jobs')."""
        answer = self._ask("in-flight", job=job)
        return answer["all"], answer["job"]

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        """Change a directed link; packets inside keep going."""
        self._ask("set-link", link=index, parameters=asdict(parameters))

    def link_down(self, cable: int) -> None:
        """Cut a cable: what is inside or comes is lost and counted, and switches see their port's link go down."""
        self._ask("link-down", cable=cable)

    def link_up(self, cable: int) -> None:
        self._ask("link-up", cable=cable)

    def switches(self, job: int | None = None) -> tuple[SwitchCounters, ...]:
        """The native switches' counters, in the order of the configuration; `job` as for `counters`."""
        return tuple(
            SwitchCounters(
                entry["name"],
                entry["packets"],
                {prefix: Traffic(**each) for prefix, each in entry["routes"].items()},
                tuple(Counted(*each) for each in entry["counted"]),
            )
            for entry in self._ask("switches", job=job)["switches"]
        )

    def swap(self, new: SwitchConfig, *, keep_registers: bool) -> Swapped:
        """Exchange the program of the switch that `new` names, while packets move."""
        answer = self._ask("swap", new=asdict(new), keep_registers=keep_registers)["swapped"]
        return Swapped(answer["switch"], answer["blackout_ns"], tuple(answer["kept"]), tuple(answer["reset"]))

    def pauses(self) -> tuple[Pause, ...]:
        """What PFC keeps from being served now."""
        return tuple(Pause(*each) for each in self._ask("pauses")["pauses"])

    def waiting(self) -> tuple[str, ...]:
        """In words, which slots of sums lack whose contributions."""
        return tuple(self._ask("waiting")["waiting"])

    def entries(self) -> dict[str, frozenset[Entry]]:
        """Native switch -> what it forwards by now."""
        return {
            name: frozenset(Entry(e["prefix"], e["kind"], tuple(e["ports"])) for e in entries)
            for name, entries in self._ask("entries")["entries"].items()
        }

    def capture_start(self, node: str, port: int, path: str, snap_bytes: int) -> None:
        """Write what crosses a port, both ways, into a new pcapng file."""
        self._ask("capture-start", node=node, port=port, path=path, snap_bytes=snap_bytes)

    def capture_stop(self) -> None:
        """End all captures; their files are complete then, or RunFailed says why one is not."""
        self._ask("capture-stop")

    def quit(self) -> None:
        """End the process once its captures are complete, or RunFailed says why one is not; its TAPs vanish."""
        self._ask("quit")

    def _ask(self, op: str, **fields: Any) -> Message:
        return self.channel.request({"op": op, **fields}, self.timeout_s)


def _link_counters(entry: dict[str, Any]) -> LinkCounters:
    return LinkCounters(**{**entry, "all": Counts(**entry["all"]), "job": Counts(**entry["job"])})
