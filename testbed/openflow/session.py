"""One connection to a controller, without the socket: hello, echo, roles, and a message at a time to the agent.

`receive` takes in what came, `outgoing` is what shall go out; time is handed in. `Hangup` says that the connection is
of no more use, once what is in `outgoing` has been sent as far as it goes.
"""

import logging
from struct import Struct

from testbed.openflow.agent import Agent
from testbed.openflow.numbers import VERSION, BadRequest, HelloFailed, Kind, Role, RoleRequestFailed
from testbed.openflow.wire import (
    Inbox,
    Message,
    Refusal,
    encode,
    encode_error,
    encode_hello,
    speaks_our_version,
    unpack,
)

PROBE_NS = 30_000_000_000  # as long as the run's Open vSwitches wait: a busy machine keeps a controller from answering
MOST_WAITING_BYTES = 1 << 20  # more than this, and frames for the controller are dropped
_log = logging.getLogger(__name__)
_ROLE = Struct("!I4xQ")
_EMPTY = {Kind.FEATURES_REQUEST, Kind.GET_CONFIG_REQUEST, Kind.BARRIER_REQUEST}
_CHANGES = {Kind.FLOW_MOD, Kind.GROUP_MOD, Kind.PACKET_OUT, Kind.PORT_MOD, Kind.TABLE_MOD}
_UNASKED_FOR_MASTERS = {Kind.PACKET_IN, Kind.FLOW_REMOVED}


class Hangup(Exception):
    """The connection must end; says why."""


class Session:
    """From the moment that the connection stands."""

    def __init__(self, agent: Agent, now_ns: int) -> None:
        self.outgoing = bytearray(encode_hello(0))
        self.greeted = False  # the controller's hello has come, and fits
        self._agent = agent
        self._inbox = Inbox()
        self._role = Role.EQUAL
        self._heard_ns = now_ns
        self._probed = False
        agent.send = self._send

    @property
    def backlog(self) -> bool:
        """Whether the controller takes so little that nothing more should be read from it."""
        return len(self.outgoing) > MOST_WAITING_BYTES

    @property
    def due_ns(self) -> int:
        """When `tick` has something to do."""
        return self._heard_ns + PROBE_NS * (2 if self._probed else 1)

    def receive(self, data: bytes, now_ns: int) -> None:
        """Take in bytes and carry out what they ask. Raises Hangup."""
        self._heard_ns, self._probed = now_ns, False
        self._inbox.add(data)
        if not self.greeted and self._inbox.coming not in (None, Kind.HELLO):
            raise Hangup("the controller does not begin with a hello")
        try:
            while (message := self._inbox.take()) is not None:
                self._take(message, now_ns)
        except Refusal as error:
            self.outgoing += encode_error(error, Message(VERSION, Kind.ERROR, 0, b""))
            raise Hangup("a message with a length that none has") from error
        finally:
            self._agent.commit(now_ns)

    def tick(self, now_ns: int) -> None:
        """Ask whether the controller is there if it has been silent; raises Hangup if it does not answer either."""
        if now_ns < self.due_ns:
            return
        if self._probed or not self.greeted:
            raise Hangup("the controller is silent")
        self._probed = True
        self.outgoing += encode(Kind.ECHO_REQUEST, 0)

    def _send(self, message: bytes) -> None:
        """What the agent says. A slave hears nothing unasked but of ports; packets are dropped where too many wait."""
        kind = message[1]
        if not self.greeted or (kind in _UNASKED_FOR_MASTERS and self._role == Role.SLAVE):
            return
        if kind != Kind.PACKET_IN or not self.backlog:
            self.outgoing += message

    def _take(self, message: Message, now_ns: int) -> None:
        if not self.greeted:
            self._greet(message)
            return
        try:
            self._answer(message, now_ns)
        except Refusal as error:
            _log.info("%s: refused a message of type %d: %s", self._agent.switch.name, message.kind, error)
            self.outgoing += encode_error(error, message)

    def _greet(self, message: Message) -> None:
        if not speaks_our_version(message):
            refusal = Refusal(HelloFailed.INCOMPATIBLE, "this switch speaks OpenFlow 1.3 only")
            self.outgoing += encode_error(refusal, message)
            raise Hangup("the controller does not speak OpenFlow 1.3")
        self.greeted = True

    def _answer(self, message: Message, now_ns: int) -> None:
        if message.kind in (Kind.HELLO, Kind.ERROR, Kind.ECHO_REPLY):
            return
        if message.version != VERSION:
            raise Refusal(BadRequest.BAD_VERSION)
        if message.kind in _EMPTY and message.body:
            raise Refusal(BadRequest.BAD_LEN)
        if message.kind in _CHANGES and self._role == Role.SLAVE:
            raise Refusal(BadRequest.IS_SLAVE)
        if message.kind == Kind.ECHO_REQUEST:
            self.outgoing += encode(Kind.ECHO_REPLY, message.xid, message.body)
        elif message.kind == Kind.ROLE_REQUEST:
            self._change_role(message)
        else:
            self._agent.handle(message, now_ns)

    def _change_role(self, message: Message) -> None:
        role, generation = unpack(_ROLE, message.body, 0, BadRequest.BAD_LEN)
        if role not in set(Role):
            raise Refusal(RoleRequestFailed.BAD_ROLE)
        if role in (Role.MASTER, Role.SLAVE):
            known = self._agent.generation
            # Signed distance in 64 bits, as the specification has it: numbers may wrap.
            if known is not None and (generation - known) & 1 << 63:
                raise Refusal(RoleRequestFailed.STALE)
            self._agent.generation = generation
        if role != Role.NOCHANGE:
            self._role = Role(role)
        known = self._agent.generation
        told = known if known is not None else 0xFFFFFFFFFFFFFFFF
        self.outgoing += encode(Kind.ROLE_REPLY, message.xid, _ROLE.pack(self._role, told))
