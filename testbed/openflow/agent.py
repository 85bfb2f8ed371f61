"""One switch as a controller sees it: carries requests out, whoever brings them. Knows no connection and no clock."""

import logging
import zlib
from collections.abc import Callable, Iterable
from struct import Struct

from testbed.dataplane.native.control import ControlError
from testbed.netcore import CPU_PORT
from testbed.openflow import replies
from testbed.openflow.actions import Target
from testbed.openflow.device import AgentSwitch, Datapath, PortCounters
from testbed.openflow.numbers import (
    GROUP_ALL,
    BadAction,
    BadRequest,
    FlowFlag,
    FlowModFailed,
    GroupModFailed,
    Kind,
    Multipart,
    PacketInReason,
    PortModFailed,
    RemovedReason,
    ReservedPort,
    SwitchConfigFailed,
    TableFeaturesFailed,
    TableModFailed,
)
from testbed.openflow.requests import (
    decode_flow_mod,
    decode_group_mod,
    decode_packet_out,
    decode_selection,
)
from testbed.openflow.tables import Flow, Tables
from testbed.openflow.wire import Message, Refusal, encode, encode_error, unpack

_log = logging.getLogger(__name__)
_MULTIPART = Struct("!HH4x")
_NUMBER = Struct("!I4x")  # of a port or a group
_CONFIG = Struct("!HH")
_SHORTEST_FRAME = 14


class Agent:
    """A switch and its tables. Replies, and what happens unasked, go to `send`, which may be changed at any time."""

    def __init__(self, switch: AgentSwitch, datapath: Datapath, now_ns: int) -> None:
        self.switch = switch
        self.tables = Tables(switch)
        self.send: Callable[[bytes], None] = _nowhere
        self.generation: int | None = None  # of the controllers' roles
        self._datapath = datapath
        self._since_ns = now_ns
        self._up = {port.number: port.up for port in switch.ports}
        self._config = (0, 128)  # OFPCML's default of miss_send_len; whole frames are sent, as none is kept
        self._removed: list[tuple[Flow, RemovedReason]] = []
        self._uncommitted: list[Message] = []  # the changes

    def handle(self, message: Message, now_ns: int) -> None:
        """Carry out a request that a session has not answered itself. Raises Refusal, and nothing is done then."""
        match message.kind:
            case Kind.FLOW_MOD:
                self._change_flows(message, now_ns)
                return
            case Kind.GROUP_MOD:
                self._change_groups(message, now_ns)
                return
        self.commit(now_ns)
        match message.kind:
            case Kind.BARRIER_REQUEST:
                self.send(encode(Kind.BARRIER_REPLY, message.xid))
            case Kind.FEATURES_REQUEST:
                self.send(replies.features(message.xid, self.switch))
            case Kind.GET_CONFIG_REQUEST:
                self.send(encode(Kind.GET_CONFIG_REPLY, message.xid, _CONFIG.pack(*self._config)))
            case Kind.SET_CONFIG:
                flags, miss = unpack(_CONFIG, message.body, 0, BadRequest.BAD_LEN)
                if flags:
                    raise Refusal(SwitchConfigFailed.BAD_FLAGS)
                self._config = flags, miss
            case Kind.MULTIPART_REQUEST:
                self._tell(message, now_ns)
            case Kind.PACKET_OUT:
                self._send_out(message)
            case Kind.PORT_MOD:
                raise Refusal(PortModFailed.EPERM)
            case Kind.TABLE_MOD:
                raise Refusal(TableModFailed.EPERM)
            case Kind.EXPERIMENTER:
                raise Refusal(BadRequest.BAD_EXPERIMENTER)
            case _:
                raise Refusal(BadRequest.BAD_TYPE)

    def commit(self, now_ns: int) -> None:
        """Bring changes into force, and tell of the flows that have gone; or refuse all that came since the last time.

        Any other error than of a full table leaves the changes for the next time.
        """
        try:
            if self.tables.changed:
                self.tables.commit(self._datapath.held)
        except ControlError as error:
            _log.error("%s: %s", self.switch.name, error)
            for message in self._uncommitted:
                full = FlowModFailed.TABLE_FULL if message.kind == Kind.FLOW_MOD else GroupModFailed.OUT_OF_BUCKETS
                self.send(encode_error(Refusal(full), message))
            self._removed = []
        removed, self._uncommitted, self._removed = self._removed, [], []
        for flow, reason in removed:
            if flow.flags & FlowFlag.SEND_FLOW_REM:
                self.send(replies.flow_removed(flow, reason, now_ns))

    def port_changed(self, number: int, *, up: bool) -> None:
        """Tell that a port's cable was cut or mended."""
        port = next(port for port in self.switch.ports if port.number == number)
        if self._up[number] != up:
            self._up[number] = up
            self.send(replies.port_status(port, up=up))

    def punted(self, in_port: int, frame: bytes) -> None:
        """Send the controller a frame that the program sent to the CPU port."""
        flow = self.tables.flow_for(int.from_bytes(frame[30:34], "big")) if frame[12:14] == b"\x08\x00" else None
        missed = flow is None or (not flow.match.length and flow.priority == 0)
        reason = PacketInReason.NO_MATCH if missed else PacketInReason.ACTION
        self.send(replies.packet_in(in_port, reason, flow.cookie if flow else replies.NO_COOKIE, frame))

    # Changes

    def _change_flows(self, message: Message, now_ns: int) -> None:
        gone = self.tables.change_flows(decode_flow_mod(message.body), now_ns)
        self._removed += [(flow, RemovedReason.DELETE) for flow in gone]
        self._uncommitted.append(message)

    def _change_groups(self, message: Message, now_ns: int) -> None:
        gone = self.tables.change_groups(decode_group_mod(message.body), now_ns)
        self._removed += [(flow, RemovedReason.GROUP_DELETE) for flow in gone]
        self._uncommitted.append(message)

    # Statistics

    def _tell(self, message: Message, now_ns: int) -> None:
        of, flags = unpack(_MULTIPART, message.body, 0, BadRequest.BAD_LEN)
        body = message.body[_MULTIPART.size :]
        if flags:
            raise Refusal(BadRequest.MULTIPART_BUFFER_OVERFLOW)  # no request here takes more than one message
        if of not in set(Multipart):
            raise Refusal(BadRequest.BAD_MULTIPART)
        self.send(replies.multipart(message.xid, Multipart(of), self._pieces(Multipart(of), body, now_ns)))

    def _pieces(self, of: Multipart, body: bytes, now_ns: int) -> Iterable[bytes]:
        match of:
            case Multipart.DESC:
                return [replies.description(self.switch)]
            case Multipart.FLOW | Multipart.AGGREGATE:
                selection = decode_selection(body)
                self._count()
                flows = self.tables.selected(selection) if selection is not None else []
                if of == Multipart.AGGREGATE:
                    return [replies.aggregate(flows)]
                return [replies.flow_statistics(flow, now_ns) for flow in flows]
            case Multipart.TABLE:
                self._count()
                return [replies.table_statistics(len(self.tables.flows), self.tables.matched)]
            case Multipart.PORT_STATS:
                return self._port_statistics(body, now_ns)
            case Multipart.PORT_DESC:
                return [replies.port(port, up=self._up[port.number]) for port in self.switch.ports]
            case Multipart.GROUP:
                return self._group_statistics(body, now_ns)
            case Multipart.GROUP_DESC:
                return [replies.group_description(*each) for each in self.tables.groups.items()]
            case Multipart.GROUP_FEATURES:
                return [replies.group_features()]
            case Multipart.TABLE_FEATURES:
                if body:
                    raise Refusal(TableFeaturesFailed.EPERM)
                return [replies.table_features()]

    def _count(self) -> None:
        with self._datapath.held():
            self.tables.count()

    def _port_statistics(self, body: bytes, now_ns: int) -> list[bytes]:
        (asked,) = unpack(_NUMBER, body, 0, BadRequest.BAD_LEN)
        if asked != ReservedPort.ANY and asked not in self._up:
            raise Refusal(BadRequest.BAD_PORT)
        with self._datapath.held():
            counters = self._datapath.port_counters(self.switch.name)
        return [
            replies.port_statistics(number, counters.get(number, PortCounters()), now_ns - self._since_ns)
            for number in self._up
            if asked in (ReservedPort.ANY, number)
        ]

    def _group_statistics(self, body: bytes, now_ns: int) -> list[bytes]:
        (asked,) = unpack(_NUMBER, body, 0, BadRequest.BAD_LEN)
        self._count()
        users = [flow.target.group for flow in self.tables.flows.values()]
        return [
            replies.group_statistics(number, group, users.count(number), now_ns)
            for number, group in self.tables.groups.items()
            if asked in (GROUP_ALL, number)
        ]

    # Packets

    def _send_out(self, message: Message) -> None:
        request = decode_packet_out(message.body)
        in_port, frame = request.in_port, request.frame
        if in_port not in self._up and in_port != ReservedPort.CONTROLLER:
            raise Refusal(BadRequest.BAD_PORT)
        if len(frame) < _SHORTEST_FRAME:
            raise Refusal(BadRequest.BAD_PACKET)
        for port in [port for target in request.targets for port in self._ways(target, in_port, frame)]:
            if port == ReservedPort.TABLE:
                entry = CPU_PORT if in_port == ReservedPort.CONTROLLER else in_port
                self._datapath.inject(self.switch.name, entry, frame)
            elif port == ReservedPort.CONTROLLER:
                self.send(replies.packet_in(in_port, PacketInReason.ACTION, replies.NO_COOKIE, frame))
            else:
                self._datapath.send_out(self.switch.name, port, frame)

    def _ways(self, target: Target, in_port: int, frame: bytes) -> list[int]:
        """The ports a target of a packet-out comes to; a packet leaves by the one it came in by only if asked to."""
        port = target.port
        if target.group is not None:
            group = self.tables.groups.get(target.group)
            if group is None:
                raise Refusal(BadAction.BAD_OUT_GROUP)
            if not group.ports:
                return []
            port = group.ports[zlib.crc32(frame) % len(group.ports)]
        if port in (ReservedPort.ALL, ReservedPort.FLOOD):
            return [number for number in self._up if number != in_port]
        if port == ReservedPort.IN_PORT and in_port in self._up:
            return [in_port]
        if port is not None and (port in self._up or port in (ReservedPort.TABLE, ReservedPort.CONTROLLER)):
            return [port] if port != in_port else []
        raise Refusal(BadAction.BAD_OUT_PORT)


def _nowhere(_message: bytes) -> None:
    """Where messages go while there is no controller."""
