"""Which of a device's clients is primary: the one whose election id is the highest that ever came.

P4Runtime specification, section "Client Arbitration and Controller Replication". There is one role, the default one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from finsy.proto import p4r, rpc_status
from grpc import StatusCode

from testbed.dataplane.p4runtime.refusal import Refusal, invalid

MOST_CLIENTS = 16  # of a device, live ones
S = TypeVar("S")


def election_of(
    message: p4r.MasterArbitrationUpdate | p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest,
) -> int | None:
    """None: unset, which is lower than any."""
    if not message.HasField("election_id"):
        return None
    return message.election_id.high << 64 | message.election_id.low


@dataclass(slots=True)
class Arbitration(Generic[S]):
    """The clients of one device, which is known by `device`."""

    device: int
    highest: int | None = None
    _elections: dict[S, int | None] = field(default_factory=dict)

    @property
    def primary(self) -> S | None:
        if self.highest is None:
            return None
        return next((client for client, election in self._elections.items() if election == self.highest), None)

    @property
    def clients(self) -> list[S]:
        return list(self._elections)

    def is_primary(self, election: int | None) -> bool:
        """Whether a request with this election id is the primary's."""
        return election is not None and election == self.highest and self.primary is not None

    def update(self, client: S, election: int | None) -> list[tuple[S, p4r.MasterArbitrationUpdate]]:
        """A client says its election id; who is to be told of it. Raises Refusal, which ends the client's stream."""
        others = {each: own for each, own in self._elections.items() if each != client}
        if election is not None and election in others.values():
            raise invalid(f"election id {election} is used by another client")
        if client not in self._elections and len(self._elections) >= MOST_CLIENTS:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"device {self.device} has {MOST_CLIENTS} clients already")
        was = self.primary
        self._elections[client] = election
        if election is not None and (self.highest is None or election >= self.highest):
            self.highest = election
            return [*self._told(others), *self._told([client])]
        return self._told(self._elections if was == client else [client])

    def leave(self, client: S) -> list[tuple[S, p4r.MasterArbitrationUpdate]]:
        """A client is gone; who is to be told."""
        was = self.primary
        known = self._elections.pop(client, client) is not client
        return self._told(self._elections) if known and was == client else []

    def _told(self, clients: Iterable[S]) -> list[tuple[S, p4r.MasterArbitrationUpdate]]:
        return [(client, self._message(client)) for client in clients]

    def _message(self, client: S) -> p4r.MasterArbitrationUpdate:
        primary = self.primary
        if primary == client:
            status = rpc_status.Status(code=StatusCode.OK.value[0], message="this client is primary")
        elif primary is not None:
            status = rpc_status.Status(code=StatusCode.ALREADY_EXISTS.value[0], message="another client is primary")
        else:
            status = rpc_status.Status(code=StatusCode.NOT_FOUND.value[0], message="no client is primary")
        message = p4r.MasterArbitrationUpdate(device_id=self.device, status=status)
        if self.highest is not None:
            message.election_id.high, message.election_id.low = self.highest >> 64, self.highest & (1 << 64) - 1
        return message
