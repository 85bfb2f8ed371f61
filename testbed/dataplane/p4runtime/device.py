"""A switch as P4Runtime clients see it: who of them is primary, its pipelines, and what it has to tell. No gRPC here.

`now_ns` is real time; the switch's own times are model time, which is slower by `dilation`.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, Protocol

from finsy.proto import p4i, p4r
from google.protobuf import any_pb2, struct_pb2
from grpc import StatusCode

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.control import Control
from testbed.dataplane.native.loader import ProgramTable, load_program
from testbed.dataplane.p4runtime.arbitration import Arbitration, election_of
from testbed.dataplane.p4runtime.packets import packet_in, packet_out
from testbed.dataplane.p4runtime.pipeline import Pipeline, Verified, asks_switch
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing
from testbed.dataplane.p4runtime.replication import Replicator
from testbed.dataplane.p4runtime.schema import Schema
from testbed.dataplane.p4runtime.tables import HeldEntry
from testbed.dataplane.p4runtime.undo import Undo
from testbed.errors import UsageError
from testbed.netcore import CPU_PORT

_log = logging.getLogger(__name__)
_AT_ONCE = 256  # updates or entities for which packets are held up together, where they need not be one change
_HELD_S = 1.5  # most for one change; to take it back takes as long, and a fabric is held for 5 s at most
_ATOMIC = (p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC)
_SCAN_NS = 10_000_000, 1_000_000_000  # least and most between two looks at the counts of entries that age
_SCANS = 10  # in the shortest timeout


Held = Callable[[], AbstractContextManager[Any]]  # inside no packet moves


class Client(Protocol):
    """The client's end of a stream; it may lose what it is told, but no `arbitration`."""

    def tell(self, message: p4r.StreamMessageResponse) -> None: ...


class Switch(Replicator, Protocol):
    """`testbed.dataplane.native.configurable.ConfigurableSwitch`, as far as it is used here. Called while held."""

    @property
    def control(self) -> Control: ...

    def load(self, program: Program, functions: ProgramTable, *, seed: int) -> Control:
        """Another instance, not in force yet, in place of an earlier one of that kind."""

    def swap(self) -> None:
        """Have the loaded instance in force."""

    def digests(self) -> Sequence[tuple[int, bytes]]:
        """Since the last call: number of the field list, and the fields."""

    def take_in(self, port: int, frame: bytes) -> None:
        """Treat a frame as if it came in by a port."""


class Datapath(Protocol):
    """All switches' packets. Called from the server's thread."""

    def held(self) -> AbstractContextManager[Any]:
        """No packet moves inside."""

    def punted(self) -> Sequence[tuple[int, int, bytes]]:
        """What programs sent to the CPU port since the last call: number of the device, port it came in by, frame."""


class Device:
    """One switch. `config` is that of the program which it runs already, if it is known as one; `seed`: of others.

    `fixed`: why its program cannot be exchanged.
    """

    def __init__(
        self,
        number: int,
        switch: Switch,
        ports: Collection[int],
        config: p4r.ForwardingPipelineConfig | None = None,
        *,
        seed: int,
        dilation: int = 1,
        fixed: str = "",
    ) -> None:
        self.number = number
        self.arbitration: Arbitration[Client] = Arbitration(number)
        self._switch = switch
        self._ports = ports
        self._seed = seed
        self._dilation = dilation
        self._fixed = fixed
        self._running: Pipeline | None = None
        self._saved: Pipeline | None = None
        self._down: set[int] = set()
        self._scan_at_ns = 0
        if config is not None:
            schema = Schema(config.p4info, switch.control.program)
            self._running = Pipeline(config, schema, switch.control, switch, ports, in_force=True)

    @classmethod
    def of(
        cls,
        number: int,
        switch: Switch,
        ports: Collection[int],
        document: Mapping[str, Any],
        p4info: bytes | None,
        *,
        seed: int,
        dilation: int = 1,
        fixed: str = "",
    ) -> "Device":
        """A switch that runs the program of a BMv2 JSON document, whose P4Info is known or not.

        Raises UsageError for a P4Info that asks for what this server has not.
        """
        config = None
        if p4info is not None:
            device_config = json.dumps(document).encode()
            config = p4r.ForwardingPipelineConfig(p4info=p4i.P4Info.FromString(p4info), p4_device_config=device_config)
        try:
            return cls(number, switch, ports, config, seed=seed, dilation=dilation, fixed=fixed)
        except Refusal as refusal:
            raise UsageError(f"{switch.control.program.name} over P4Runtime: {refusal.message}") from refusal

    def held(self, table: str) -> list[HeldEntry]:
        """What a table of the program that runs holds. The caller holds the datapath."""
        return self._running.held(table) if self._running is not None else []

    # Clients

    def arbitrate(self, client: Client, message: p4r.MasterArbitrationUpdate) -> None:
        """Raises Refusal, which ends the client's stream."""
        if message.HasField("role") and (message.role.name or message.role.id or message.role.HasField("config")):
            raise Refusal(StatusCode.UNIMPLEMENTED, "roles: not supported by this switch; leave the role unset")
        was = self.arbitration.primary
        told = self.arbitration.update(client, election_of(message))
        if self.arbitration.primary is not was:
            self._forget_learned()
        self._tell_all(told)
        for port in sorted(self._down):
            client.tell(_port_message(port, up=False))

    def leave(self, client: Client) -> None:
        was = self.arbitration.primary
        self._tell_all(self.arbitration.leave(client))
        if self.arbitration.primary is not was:
            self._forget_learned()

    def require_primary(self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest) -> None:
        """Raises Refusal: NOT_FOUND for a role, PERMISSION_DENIED."""
        if request.role or request.role_id:
            raise missing(f"device {self.number} has no role but the default one")
        if not self.arbitration.is_primary(election_of(request)):
            raise Refusal(StatusCode.PERMISSION_DENIED, f"this client is not primary for device {self.number}")

    def _forget_learned(self) -> None:
        if self._running is not None:
            self._running.digests.forget()

    @staticmethod
    def _tell_all(told: Sequence[tuple[Client, p4r.MasterArbitrationUpdate]]) -> None:
        for client, message in told:
            client.tell(p4r.StreamMessageResponse(arbitration=message))

    # Requests

    @property
    def _target(self) -> Pipeline:
        """What requests are about: what was saved, or else what runs."""
        pipeline = self._saved or self._running
        if pipeline is None:
            message = f"no forwarding pipeline config has been set for device {self.number}"
            raise Refusal(StatusCode.FAILED_PRECONDITION, message)
        return pipeline

    def write(self, request: p4r.WriteRequest, held: Held, now_ns: int) -> list[Refusal | None]:
        """What became of each update. Raises Refusal before any is attempted.

        A batch that may be taken back is one change to packets; another one is so only as far as it is not long.
        """
        if request.atomicity not in (p4r.WriteRequest.CONTINUE_ON_ERROR, *_ATOMIC):
            raise invalid(f"there is no atomicity {request.atomicity}")
        self.require_primary(request)
        pipeline, now_ns = self._target, now_ns // self._dilation
        self._scan_at_ns = 0  # there may be a shorter timeout now
        learned, atomic = bool(pipeline.digests), request.atomicity in _ATOMIC
        outcomes: list[Refusal | None] = []
        undos: list[Undo] = []
        at_once = len(request.updates) if atomic else _AT_ONCE
        while len(outcomes) < len(request.updates):
            with held():
                limit_s = time.monotonic() + _HELD_S
                for update in request.updates[len(outcomes) : len(outcomes) + at_once]:
                    late = atomic and time.monotonic() > limit_s
                    outcomes.append(_too_long() if late else self._apply(pipeline, update, undos, now_ns))
                    if atomic and outcomes[-1] is not None:
                        return self._rolled_back(undos, outcomes, len(request.updates))
                undos = []
        if pipeline is self._running and pipeline.digests and not learned:
            self._switch.digests()  # of the time when none was asked for
        return outcomes

    def _apply(self, pipeline: Pipeline, update: p4r.Update, undos: list[Undo], now_ns: int) -> Refusal | None:
        try:
            undos.append(pipeline.apply(update, now_ns))
        except Refusal as refusal:
            return refusal
        except Exception:
            _log.exception("device %d: an update could not be carried out: %s", self.number, update)
            return Refusal(StatusCode.INTERNAL, "an error of this switch's own")
        return None

    @staticmethod
    def _rolled_back(undos: list[Undo], outcomes: list[Refusal | None], count: int) -> list[Refusal | None]:
        failed = len(outcomes) - 1
        for undo in reversed(undos):
            undo()
        back = Refusal(StatusCode.ABORTED, f"taken back, as update {failed} failed")
        left = Refusal(StatusCode.ABORTED, f"not attempted, as update {failed} failed")
        return [*[back] * failed, outcomes[failed], *[left] * (count - failed - 1)]

    def read(
        self, request: p4r.ReadRequest, held: Held, now_ns: int
    ) -> tuple[list[p4r.ReadResponse], list[Refusal | None]]:
        """All responses, and what became of each request. Raises Refusal before any is answered."""
        if request.role:
            raise missing(f"device {self.number} has no role but the default one")
        pipeline, now_ns = self._target, now_ns // self._dilation
        responses: list[p4r.ReadResponse] = []
        outcomes: list[Refusal | None] = []
        for asked in request.entities:
            outcome: Refusal | None = None
            found = pipeline.read(asked, now_ns)
            try:
                while True:
                    with held() if asks_switch(asked) else nullcontext():
                        entities = list(islice(found, _AT_ONCE))
                    if not entities:
                        break
                    responses.append(p4r.ReadResponse(entities=entities))
            except Refusal as refusal:
                outcome = refusal
            except Exception:
                _log.exception("device %d: a request could not be answered: %s", self.number, asked)
                outcome = Refusal(StatusCode.INTERNAL, "an error of this switch's own")
            outcomes.append(outcome)
        return responses, outcomes

    # Pipelines; the caller holds the datapath

    def save(self, verified: Verified) -> None:
        """Have a pipeline take the requests from now on, and packets once it is committed. Raises Refusal."""
        if self._fixed:
            raise Refusal(StatusCode.FAILED_PRECONDITION, f"the program stays: {self._fixed}")
        _, functions = load_program(verified.object)
        control = self._switch.load(verified.schema.program, functions, seed=self._seed)
        self._saved = Pipeline(verified.config, verified.schema, control, self._switch, self._ports, in_force=False)

    def commit(self) -> None:
        """Raises Refusal (NOT_FOUND) if nothing was saved."""
        if self._saved is None:
            raise missing("no config was saved to be committed")
        if self._running is not None:
            self._running.replication.retire()
        self._switch.swap()
        self._switch.digests()  # of the program before
        self._running, self._saved = self._saved, None
        self._running.replication.enforce()

    def reconcile(self, verified: Verified, now_ns: int) -> None:
        """Have another pipeline with the state of the one that runs. Raises Refusal where it has no place for it."""
        running, limit_s = self._running, time.monotonic() + _HELD_S
        self.save(verified)
        assert self._saved is not None
        for update in running.state() if running is not None else ():
            if time.monotonic() > limit_s:
                self._saved = None
                raise _too_long()
            try:
                self._saved.apply(update, now_ns // self._dilation)
            except Refusal as refusal:
                self._saved = None
                raise invalid(f"the forwarding state does not fit: {refusal.message}") from refusal
        self.commit()

    def config(self, wanted: int) -> p4r.ForwardingPipelineConfig | None:
        """What runs, or was saved, with the parts that are wanted; None: nothing is known."""
        kinds = p4r.GetForwardingPipelineConfigRequest
        pipeline = self._saved or self._running
        if pipeline is None:
            return None
        config = p4r.ForwardingPipelineConfig()
        if pipeline.config.HasField("cookie"):
            config.cookie.CopyFrom(pipeline.config.cookie)
        if wanted in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
            config.p4info.CopyFrom(pipeline.config.p4info)
        if wanted in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
            config.p4_device_config = pipeline.config.p4_device_config
        return config

    # The stream

    def stream(self, client: Client, message: p4r.StreamMessageRequest) -> None:
        """A message that is no arbitration."""
        kind = message.WhichOneof("update")
        error = p4r.StreamError()
        try:
            if client is not self.arbitration.primary:
                raise Refusal(StatusCode.PERMISSION_DENIED, f"this client is not primary for device {self.number}")
            if self._running is None:
                raise Refusal(StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config has been set")
            match kind:
                case "packet":
                    self._packet_out(packet_out(self._running.schema.packet_out, message.packet))
                case "digest_ack":
                    self._running.digests.acknowledge(message.digest_ack)
                case _:
                    raise Refusal(StatusCode.UNIMPLEMENTED, "messages of a kind that this switch does not know")
        except Refusal as refusal:
            error.canonical_code, error.message = refusal.number, refusal.message
            match kind:
                case "packet":
                    error.packet_out.packet_out.CopyFrom(message.packet)
                case "digest_ack":
                    error.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
                case _:
                    error.other.SetInParent()
            client.tell(p4r.StreamMessageResponse(error=error))

    def _packet_out(self, frame: bytes) -> None:
        try:
            self._switch.take_in(CPU_PORT, frame)
        except (ValueError, MemoryError) as error:
            raise invalid(f"a packet-out: {error}") from error

    def packet_in(self, frame: bytes) -> None:
        """What the program sent to the CPU port; it is forgotten where nobody is primary."""
        primary = self.arbitration.primary
        if primary is None:
            return
        message = packet_in(self._running.schema.packet_in if self._running is not None else (), frame)
        if message is not None:
            primary.tell(p4r.StreamMessageResponse(packet=message))

    def port_changed(self, port: int, *, up: bool) -> None:
        """Tell all clients that a cable was cut or mended at a port: P4Runtime has no message of its own for that."""
        (self._down.discard if up else self._down.add)(port)
        for client in self.arbitration.clients:
            client.tell(_port_message(port, up=up))

    def tick(self, held: Held, now_ns: int, epoch_ns: int) -> None:
        """Tell the primary client of digests and of idle entries."""
        primary, running = self.arbitration.primary, self._running
        if running is None or primary is None:
            return
        model_ns = now_ns // self._dilation
        if running.digests:
            for field_list, message in self._switch.digests():
                running.digests.learn(field_list, message, model_ns)
            for told in running.digests.due(model_ns, epoch_ns):
                primary.tell(p4r.StreamMessageResponse(digest=told))
        if now_ns >= self._scan_at_ns and (shortest_ns := running.shortest_timeout_ns) is not None:
            least_ns, most_ns = _SCAN_NS
            self._scan_at_ns = now_ns + min(max(shortest_ns * self._dilation // _SCANS, least_ns), most_ns)
            with held():
                idle = running.idle(model_ns, epoch_ns)
            if idle is not None:
                primary.tell(p4r.StreamMessageResponse(idle_timeout_notification=idle))


def _too_long() -> Refusal:
    message = f"packets would be held up for more than {_HELD_S:g} s: ask for less at once"
    return Refusal(StatusCode.RESOURCE_EXHAUSTED, message)


def _port_message(port: int, *, up: bool) -> p4r.StreamMessageResponse:
    """`other` with a google.protobuf.Struct {"port": N, "up": whether}: our reading of "architecture-specific"."""
    said, packed = struct_pb2.Struct(), any_pb2.Any()
    said.update({"port": port, "up": up})
    packed.Pack(said)
    return p4r.StreamMessageResponse(other=packed)
