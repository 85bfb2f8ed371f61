"""Native switches in memory, and os-ken's own reading and writing of OpenFlow for the other end of the line."""

import contextlib
import ipaddress
import json
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.forwarding import Forwarding
from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.netcore import CPU_PORT
from testbed.openflow.agent import Agent
from testbed.openflow.device import AgentSwitch, Port, PortCounters
from testbed.openflow.session import Session
from testbed.resources import shared_folder

SECOND_NS = 1_000_000_000
FLOWS = range(49_152, 49_152 + 64)  # UDP source ports


@cache
def program(name: str) -> Program:
    return program_of(json.loads(json.dumps(compile_p4(shared_folder("p4") / f"{name}.p4").json)), name)


@cache
def frame(target: str, source_port: int = FLOWS[0]) -> bytes:
    return bytes(Ether() / IP(src="10.9.0.1", dst=target) / UDP(sport=source_port, dport=4791))


class Ledger:
    """A control that writes down what stands in the tables, by handle."""

    def __init__(self, control: Any) -> None:
        self._control = control
        self.tables: dict[str, dict[int, tuple[tuple[FieldMatch | None, ...], ActionCall]]] = {}
        self.defaults: dict[str, ActionCall | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    def insert(self, name: str, fields: Sequence[FieldMatch | None], call: ActionCall, priority: int = 0) -> int:
        handle: int = self._control.insert(name, fields, call, priority)
        self.tables.setdefault(name, {})[handle] = tuple(fields), call
        return handle

    def modify(self, name: str, handle: int, call: ActionCall) -> None:
        self._control.modify(name, handle, call)
        self.tables[name][handle] = self.tables[name][handle][0], call

    def remove(self, name: str, handle: int) -> None:
        self._control.remove(name, handle)
        del self.tables[name][handle]

    def set_default(self, name: str, call: ActionCall | None) -> None:
        self._control.set_default(name, call)
        self.defaults[name] = call

    @property
    def routes(self) -> dict[str, tuple[int, ...]]:
        """prefix -> the ports that its route leads to; () drops."""
        members: dict[int, dict[int, int]] = {}
        for (group, number), call in self.tables.get("members", {}).values():
            assert group is not None
            assert number is not None
            members.setdefault(group.value, {})[number.value] = (call.arguments or {})["port"]
        found = {}
        for (key,), call in self.tables.get("routes", {}).values():
            assert key is not None
            arguments = call.arguments or {}
            ports: tuple[int, ...] = ()
            if call.action == "to_port":
                ports = (arguments["port"],)
            elif call.action == "to_group":
                of = members[arguments["number"]]
                assert sorted(of) == list(range(arguments["members"]))
                ports = tuple(of[i] for i in sorted(of))
            found[f"{ipaddress.IPv4Address(key.value)}/{key.prefix}"] = ports
        return found


class Memory:
    """All switches of a test, and the packets that a test puts through them. Satisfies `Datapath`."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.switches: dict[str, AgentSwitch] = {}
        self.sent: list[tuple[str, int, bytes]] = []  # by packet-out, past the program
        self.holds = 0
        self._lock = threading.RLock()
        self._punted: list[tuple[str, int, bytes]] = []
        self._received: Counter[tuple[str, int]] = Counter()
        self._sent: Counter[tuple[str, int]] = Counter()

    def add(
        self, name: str, dpid: int, ports: Sequence[int], of: Literal["l3_ecmp", "spray"] = "l3_ecmp", salt: int = 7
    ) -> AgentSwitch:
        exchange = self.exchanges[name] = Exchange(program(of), seed=dpid)
        ledger = self.ledgers[name] = Ledger(exchange.control)
        forwarding = Forwarding(ledger, name)  # type: ignore[arg-type]
        forwarding.set_salt(salt)
        described = tuple(
            Port(number, f"{name}-eth{number}", f"02:00:00:00:{dpid:02x}:{number:02x}", 10_000_000_000)
            for number in ports
        )
        kind: Literal["ecmp", "spray"] = "spray" if of == "spray" else "ecmp"
        self.switches[name] = AgentSwitch(name, dpid, of, kind, described, forwarding)
        return self.switches[name]

    def close(self) -> None:
        for exchange in self.exchanges.values():
            exchange.__exit__(None, None, None)

    def forward(self, switch: str, in_port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """A packet through a switch: where it came out."""
        with self._lock:
            self._received[switch, in_port] += 1
            came = self.exchanges[switch].inject(in_port, packet)
            self._punted += [(switch, in_port, out) for port, out in came if port == CPU_PORT]
            left = [(port, out) for port, out in came if port != CPU_PORT]
            self._sent.update((switch, port) for port, _ in left)
            return left

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            self.holds += 1
            yield

    def port_counters(self, switch: str) -> dict[int, PortCounters]:
        size = len(frame("10.0.0.1"))
        return {
            port.number: PortCounters(
                received_packets=(received := self._received[switch, port.number]),
                received_bytes=size * received,
                sent_packets=(sent := self._sent[switch, port.number]),
                sent_bytes=size * sent,
                received_dropped=port.number,
                sent_dropped=10 * port.number,
            )
            for port in self.switches[switch].ports
        }

    def send_out(self, switch: str, port: int, packet: bytes) -> None:
        self.sent.append((switch, port, packet))

    def inject(self, switch: str, port: int, packet: bytes) -> None:
        self.sent += [(switch, out, data) for out, data in self.forward(switch, port, packet)]

    def punt(self, switch: str, in_port: int, packet: bytes) -> None:
        """As a program would that sends packets to the controller by itself."""
        with self._lock:
            self._punted.append((switch, in_port, packet))

    def punted(self) -> list[tuple[str, int, bytes]]:
        with self._lock:
            punted, self._punted = self._punted, []
            return punted


class OsKen:
    """As much of a datapath as os-ken makes messages from, its way to read them, and those that tests send."""

    def __init__(self) -> None:
        from os_ken.ofproto import ofproto_parser, ofproto_v1_3, ofproto_v1_3_parser

        self.ofproto = ofproto_v1_3
        self.ofproto_parser = ofproto_v1_3_parser
        self._read = ofproto_parser.msg
        self._xid = 0

    def write(self, message: Any) -> bytes:
        self._xid += 1
        message.set_xid(self._xid)
        message.serialize()
        return bytes(message.buf)

    def read(self, stream: bytes) -> list[Any]:
        """All messages of a stream; there must be nothing behind them."""
        found = []
        while stream:
            version, kind, length, xid = struct.unpack_from("!BBHI", stream)
            assert 8 <= length <= len(stream), "a message is cut off"
            found.append(self._read(self, version, kind, length, xid, stream[:length]))
            stream = stream[length:]
        return found

    # Messages

    def flow(self, prefix: str | None, *actions: Any, priority: int = 100, **fields: Any) -> Any:
        """A flow mod, ADD unless `command` says else; prefix None: all packets."""
        given = {"command": self.ofproto.OFPFC_ADD, "out_port": self.ofproto.OFPP_ANY, **fields}
        given.setdefault("out_group", self.ofproto.OFPG_ANY)
        instructions = given.pop("instructions", None)
        if instructions is None:
            apply = self.ofproto_parser.OFPInstructionActions(self.ofproto.OFPIT_APPLY_ACTIONS, list(actions))
            instructions = [apply] if actions else []
        match = given.pop("match", None) or self.match(prefix)
        return self.ofproto_parser.OFPFlowMod(self, priority=priority, match=match, instructions=instructions, **given)

    def all_to_the_controller(self) -> bytes:
        """A flow that sends all packets there."""
        return self.write(self.flow(None, self.to(self.ofproto.OFPP_CONTROLLER)))

    def match(self, prefix: str | None) -> Any:
        if prefix is None:
            return self.ofproto_parser.OFPMatch()
        network = ipaddress.IPv4Network(prefix)
        address = str(network.network_address), str(network.netmask)
        return self.ofproto_parser.OFPMatch(eth_type=0x0800, ipv4_dst=address)

    def to(self, port: int) -> Any:
        return self.ofproto_parser.OFPActionOutput(port)

    def to_group(self, group: int) -> Any:
        return self.ofproto_parser.OFPActionGroup(group)

    def group(self, number: int, *ports: int | tuple[int, int], command: str = "ADD", type: str = "SELECT") -> Any:
        """A group mod; a port may come with a weight."""
        pairs = [port if isinstance(port, tuple) else (port, 1) for port in ports]
        buckets = [self.ofproto_parser.OFPBucket(weight=weight, actions=[self.to(port)]) for port, weight in pairs]
        return self.ofproto_parser.OFPGroupMod(
            self, getattr(self.ofproto, f"OFPGC_{command}"), getattr(self.ofproto, f"OFPGT_{type}"), number, buckets
        )

    def barrier(self) -> Any:
        return self.ofproto_parser.OFPBarrierRequest(self)


class Controller(OsKen):
    """The other end of a session that has no socket."""

    def __init__(self, agent: Agent, *, greet: bool = True) -> None:
        super().__init__()
        self.now_ns = 0
        self.session = Session(agent, 0)
        if greet:
            self.session.receive(self.write(self.ofproto_parser.OFPHello(self)), 0)
            (hello,) = self.heard()
            assert hello.version == 4
            assert [e.versions for e in hello.elements] == [[4]]

    def heard(self) -> list[Any]:
        """What the switch said since the last call."""
        stream = bytes(self.session.outgoing)
        self.session.outgoing.clear()
        return self.read(stream)

    def tell(self, *messages: Any) -> list[Any]:
        """Send messages in one piece; what the switch says to them."""
        self.session.receive(b"".join(self.write(message) for message in messages), self.now_ns)
        return self.heard()

    def refused(self, *messages: Any) -> tuple[int, int]:
        """Send messages; type and code of the one error that is the answer, which must quote the last of them."""
        (error,) = self.tell(*messages)
        sent = bytes(messages[-1].buf)
        assert error.xid == messages[-1].xid
        assert error.data == sent[:64]
        return error.type, error.code
