"""A P4Runtime client that says what it is told to, right or wrong."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_status
from grpc import StatusCode

from tests.p4runtime.rig import DEVICE

LIMIT_S = 30.0
DETAILS = "grpc-status-details-bin"


class Client:
    """One channel and, once `arbitrate` was called, one stream. A context manager."""

    def __init__(self, address: str, election: int | None = None) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_metadata_size", 1 << 20)])
        self.stub = p4r_grpc.P4RuntimeStub(self._channel)
        self.election = election
        self._outgoing: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self.heard: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self.ended: StatusCode | None = None
        self._stream: Any = None
        self._listener: threading.Thread | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._channel.close()
        if self._listener is not None:
            self._listener.join(LIMIT_S)

    # The stream

    def say(self, message: p4r.StreamMessageRequest) -> None:
        if self._stream is None:
            self._stream = self.stub.StreamChannel(iter(self._outgoing.get, None))
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()
        self._outgoing.put(message)

    def _listen(self) -> None:
        try:
            for message in self._stream:
                self.heard.put(message)
        except grpc.RpcError as error:
            self.ended = error.code()

    def arbitrate(self, device: int = DEVICE, **fields: Any) -> None:
        said = p4r.MasterArbitrationUpdate(device_id=device, **fields)
        if self.election is not None:
            said.election_id.CopyFrom(uint128(self.election))
        self.say(p4r.StreamMessageRequest(arbitration=said))

    def next(self) -> p4r.StreamMessageResponse:
        return self.heard.get(timeout=LIMIT_S)

    def status(self) -> tuple[StatusCode, int]:
        """Of the next arbitration that is told: its code, and the highest election id."""
        told = self.next().arbitration
        code = next(code for code in StatusCode if code.value[0] == told.status.code)
        return code, told.election_id.high << 64 | told.election_id.low

    def becomes_primary(self) -> "Client":
        self.arbitrate()
        assert self.status() == (StatusCode.OK, self.election)
        return self

    def ends(self) -> StatusCode | None:
        """How the stream ended."""
        assert self._listener is not None
        self._listener.join(LIMIT_S)
        return self.ended

    # Calls

    def write(self, *updates: p4r.Update, atomicity: int = 0, device: int = DEVICE, role: str = "") -> None:
        request = p4r.WriteRequest(device_id=device, updates=updates, atomicity=atomicity, role=role)
        if self.election is not None:
            request.election_id.CopyFrom(uint128(self.election))
        self.stub.Write(request, timeout=LIMIT_S)

    def insert(self, *entities: p4r.Entity, **how: Any) -> None:
        self.write(*(p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in entities), **how)

    def modify(self, *entities: p4r.Entity, **how: Any) -> None:
        self.write(*(p4r.Update(type=p4r.Update.MODIFY, entity=entity) for entity in entities), **how)

    def delete(self, *entities: p4r.Entity, **how: Any) -> None:
        self.write(*(p4r.Update(type=p4r.Update.DELETE, entity=entity) for entity in entities), **how)

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        responses = self.stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=entities), timeout=LIMIT_S)
        return [entity for response in responses for entity in response.entities]

    def configure(self, action: int, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(device_id=DEVICE, action=action, config=config)
        if self.election is not None:
            request.election_id.CopyFrom(uint128(self.election))
        self.stub.SetForwardingPipelineConfig(request, timeout=LIMIT_S)


def uint128(number: int) -> p4r.Uint128:
    return p4r.Uint128(high=number >> 64, low=number & (1 << 64) - 1)


def errors_of(error: grpc.RpcError) -> Sequence[p4r.Error]:
    """The errors that a status has, one an update or request."""
    found = [value for key, value in error.trailing_metadata() if key == DETAILS]
    return list(_unpacked(rpc_status.Status.FromString(found[0]))) if found else []


def _unpacked(status: rpc_status.Status) -> Iterator[p4r.Error]:
    for detail in status.details:
        error = p4r.Error()
        assert detail.Unpack(error)
        yield error


def codes_of(error: grpc.RpcError) -> list[str]:
    return [code.name for each in errors_of(error) for code in StatusCode if code.value[0] == each.canonical_code]
