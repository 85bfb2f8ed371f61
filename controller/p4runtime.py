"""The P4Runtime client that installs the plan's routes on switches, as `ecmp.py` does over OpenFlow.

`python p4runtime.py --plan plan.json --control SOCKET --port 9559`, a process of its own. For each switch it is a
client with the election id 1, so that any other client may take over. While it is primary it fills the tables of
p4/include/routing.p4 (`routes`, `members`, and `salts` where the program hashes), each change as one atomic batch, and
again when the switch tells that a cable was cut or mended. What it does not do: compute a route.

Native switches are all at that port, run their programs already, and tell of cables. With `--switches FILE` they are
bmv2's: each at an address of its own, given its program first; the run tells of cables, changes come one by one since
that is what bmv2 takes, and what entries counted is read back. FILE: {name: {"address", "p4info", "config"}}.
"""

import argparse
import asyncio
import ipaddress
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import struct_pb2
from routes import Routes

from testbed.run.channel import Channel, ChannelClosed, ChannelTimeout

ELECTION_ID = 1
ROUTES, MEMBERS, SALTS = "routes", "members", "salts"
_HOUR_S = 3600.0
_CALL_S = 30.0
_RETRY_S = 0.25
_log = logging.getLogger("p4runtime")


@dataclass(frozen=True)
class Target:
    """Where a switch is. `p4info` and `config`: the program that it is given; None: it has one."""

    address: str
    p4info: Path | None = None
    config: Path | None = None


Key = tuple[str, tuple[int, ...]]  # a table, and what its fields are; of a prefix: address, length
Call = tuple[str, tuple[int, ...]]  # an action, and its arguments


class Program:
    """The tables and actions that are filled, by the last part of their names, as a switch's P4Info has them."""

    def __init__(self, info: p4i.P4Info) -> None:
        self.tables = {_short(table.preamble.name): table for table in info.tables}
        self._actions = {action.preamble.id: action for action in info.actions}
        missing = {ROUTES, MEMBERS} - self.tables.keys()
        if missing:
            raise ValueError(f"the program has no table {', '.join(sorted(missing))}: include routing.p4")

    def update(self, kind: int, key: Key, call: Call | None) -> p4r.Update:
        """`call` None: of an entry that is deleted."""
        name, values = key
        table = self.tables[name]
        entry = p4r.TableEntry(table_id=table.preamble.id)
        if name == ROUTES:
            address, length = values
            if length:
                entry.match.add(field_id=table.match_fields[0].id, lpm={"value": _bytes(address), "prefix_len": length})
        else:
            for field, value in zip(table.match_fields, values, strict=True):
                entry.match.add(field_id=field.id, exact={"value": _bytes(value)})
        if call is not None:
            entry.action.action.CopyFrom(self._call(table, call))
        return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))

    def salt(self, salt: int) -> list[p4r.Update]:
        """What salts the hash of a program that has one."""
        if SALTS not in self.tables:
            return []
        table = self.tables[SALTS]
        entry = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
        entry.action.action.CopyFrom(self._call(table, ("salted", (salt,))))
        return [p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=entry))]

    def drops(self, action: p4r.Action) -> bool:
        """Whether an action is the one of routes that drop."""
        return _short(self._actions[action.action_id].preamble.name) == "drop"

    def _call(self, table: p4i.Table, call: Call) -> p4r.Action:
        name, arguments = call
        own = next(
            self._actions[ref.id] for ref in table.action_refs if _short(self._actions[ref.id].preamble.name) == name
        )
        action = p4r.Action(action_id=own.preamble.id)
        for parameter, value in zip(own.params, arguments, strict=True):
            action.params.add(param_id=parameter.id, value=_bytes(value))
        return action


class Switch:
    """One switch: its stream, and what is installed on it."""

    def __init__(self, app: "App", name: str, dpid: int, target: Target) -> None:
        self.name = name
        self.confirmed = False
        self._app = app
        self._dpid = dpid
        self._target = target
        self._stub = p4r_grpc.P4RuntimeStub(app.channel(target.address))
        self._election = p4r.Uint128(low=ELECTION_ID)
        self._program: Program | None = None
        self._installed: dict[Key, Call] = {}
        self._groups: dict[tuple[int, ...], int] = {}  # ports -> number
        self._changing = asyncio.Lock()  # one change after the other: each is from what the one before left

    async def run(self) -> None:
        """Connect, and again when the connection is lost."""
        while True:
            try:
                await self._converse()
            except grpc.aio.AioRpcError as error:
                self.tell_failure(error)
            except ValueError as error:
                self._app.report("refused", switch=self.name, reason=str(error))
            if self.confirmed:
                self.confirmed = False
                self._app.report("switch-lost", switch=self.name)
            await asyncio.sleep(_RETRY_S)

    def tell_failure(self, error: grpc.aio.AioRpcError) -> None:
        """Log it, and unless the switch is merely not there, have the run know."""
        _log.warning("%s: %s: %s", self.name, error.code().name, error.details())
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            self._app.report("refused", switch=self.name, reason=f"{error.code().name}: {error.details()}")

    async def _converse(self) -> None:
        stream = self._stub.StreamChannel(wait_for_ready=True)
        arbitration = p4r.MasterArbitrationUpdate(device_id=self._dpid, election_id=self._election)
        await stream.write(p4r.StreamMessageRequest(arbitration=arbitration))
        async for message in stream:
            match message.WhichOneof("update"):
                case "arbitration":
                    await self._arbitrated(message.arbitration.status.code)
                case "other":
                    said = struct_pb2.Struct()
                    if message.other.Unpack(said):
                        await self._app.port_changed(self.name, int(said["port"]), bool(said["up"]))

    async def _arbitrated(self, code: int) -> None:
        """This client is primary now, or another one is."""
        if code != grpc.StatusCode.OK.value[0]:
            _log.info("%s: another client drives it", self.name)
            self._program, self.confirmed = None, False
            return
        async with self._changing:
            await self._begin()

    async def _begin(self) -> None:
        """Have on the switch what should be there, whatever it has."""
        self._program = Program(await self._given() or await self._found())
        self._installed, self._groups = {}, {}
        await self._write([*await self._left_over(), *self._program.salt(self._app.routes.salts[self.name])])
        await self._install()

    async def _found(self) -> p4i.P4Info:
        """What the switch runs."""
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self._dpid, response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        )
        response = await self._stub.GetForwardingPipelineConfig(request, timeout=_CALL_S)
        return response.config.p4info

    async def _given(self) -> p4i.P4Info | None:
        """What the switch is to run, once it does; None: its program is not ours to set."""
        if self._target.p4info is None or self._target.config is None:
            return None
        config = p4r.ForwardingPipelineConfig(p4_device_config=self._target.config.read_bytes())
        config.p4info.ParseFromString(self._target.p4info.read_bytes())
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._dpid,
            election_id=self._election,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=config,
        )
        await self._stub.SetForwardingPipelineConfig(request, timeout=_CALL_S)
        return config.p4info

    async def counters(self) -> list[dict[str, Any]]:
        """What each route counted."""
        if self._program is None:
            return []
        table = self._program.tables[ROUTES]
        entry = p4r.TableEntry(table_id=table.preamble.id, counter_data=p4r.CounterData())
        request = p4r.ReadRequest(device_id=self._dpid, entities=[p4r.Entity(table_entry=entry)])
        rows = []
        async for response in self._stub.Read(request, timeout=_CALL_S):
            for found in (entity.table_entry for entity in response.entities):
                lpm = found.match[0].lpm if found.match else None
                address = int.from_bytes(lpm.value, "big") if lpm else 0
                prefix = f"{ipaddress.IPv4Address(address)}/{lpm.prefix_len if lpm else 0}"
                count = found.counter_data
                dropped = count.packet_count if self._program.drops(found.action.action) else 0
                rows.append(
                    {
                        "switch": self.name,
                        "kind": "flow",
                        "name": prefix,
                        "packets": count.packet_count,
                        "bytes": count.byte_count,
                        "dropped": dropped,
                    }
                )
        return rows

    async def _left_over(self) -> list[p4r.Update]:
        """What takes the entries of an earlier client away."""
        assert self._program is not None
        tables = [self._program.tables[name].preamble.id for name in (ROUTES, MEMBERS)]
        asked = [p4r.Entity(table_entry=p4r.TableEntry(table_id=table)) for table in tables]
        responses = self._stub.Read(p4r.ReadRequest(device_id=self._dpid, entities=asked), timeout=_CALL_S)
        return [
            p4r.Update(type=p4r.Update.DELETE, entity=entity)
            async for response in responses
            for entity in response.entities
        ]

    async def install(self) -> None:
        """Bring the switch from what it has to what it should have now, all at once; if it refuses, from the start."""
        async with self._changing:
            try:
                await self._install()
            except grpc.aio.AioRpcError as error:
                self.tell_failure(error)
                await self._begin()

    async def _install(self) -> None:
        if self._program is None:
            return
        wanted = dict(self._wanted())
        updates = []
        for key, call in wanted.items():
            if self._installed.get(key) != call:
                kind = p4r.Update.MODIFY if key in self._installed else p4r.Update.INSERT
                updates.append(self._program.update(kind, key, call))
        for key in self._installed.keys() - wanted.keys():
            updates.append(self._program.update(p4r.Update.DELETE, key, None))
        await self._write(updates)
        self._installed = wanted
        self.confirmed = True
        self._app.tell_if_installed()

    def _wanted(self) -> Iterator[tuple[Key, Call]]:
        entries = self._app.routes.entries(self.name, self._app.down).values()
        used = {entry.ports for entry in entries if len(entry.ports) > 1}
        self._groups = {ports: number for ports, number in self._groups.items() if ports in used}
        for ports in sorted(used - self._groups.keys()):
            taken = set(self._groups.values())
            self._groups[ports] = next(number for number in count(1) if number not in taken)
        for ports, number in self._groups.items():
            for member, port in enumerate(ports):
                yield (MEMBERS, (number, member)), ("to_port", (port,))
        for entry in entries:
            network = ipaddress.IPv4Network(entry.prefix)
            key = ROUTES, (int(network.network_address), network.prefixlen)
            if not entry.ports:
                yield key, ("drop", ())
            elif len(entry.ports) == 1:
                yield key, ("to_port", entry.ports)
            else:
                yield key, ("to_group", (self._groups[entry.ports], len(entry.ports)))

    async def _write(self, updates: list[p4r.Update]) -> None:
        if updates:
            atomicity = (
                p4r.WriteRequest.DATAPLANE_ATOMIC if self._target.config is None else p4r.WriteRequest.CONTINUE_ON_ERROR
            )
            request = p4r.WriteRequest(
                device_id=self._dpid, election_id=self._election, updates=updates, atomicity=atomicity
            )
            await self._stub.Write(request, timeout=_CALL_S)


class App:
    """All switches of a plan."""

    def __init__(self, routes: Routes, targets: Mapping[str, Target], report: Callable[..., None]) -> None:
        self.routes = routes
        self.report = report
        self.down: set[int] = set()  # cables: those with a dark end, as the two ends tell of it one after the other
        self._dark: set[tuple[str, int]] = set()
        self._targets = targets
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._switches: list[Switch] = []
        self.loop = asyncio.new_event_loop()

    def channel(self, address: str) -> grpc.aio.Channel:
        """The one connection to an address."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_metadata_size", 1 << 20)]
        if address not in self._channels:
            self._channels[address] = grpc.aio.insecure_channel(address, options=options)
        return self._channels[address]

    def run(self) -> None:
        """Drive all switches, in this thread, until the process ends."""
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._drive())

    async def _drive(self) -> None:
        self._switches = [Switch(self, name, dpid, self._targets[name]) for dpid, name in self.routes.names.items()]
        await asyncio.gather(*(switch.run() for switch in self._switches))

    async def counters(self) -> list[dict[str, Any]]:
        """What the routes of switches counted that the run does not count itself."""
        asked = [switch.counters() for switch in self._switches if self._targets[switch.name].config]
        return [row for rows in await asyncio.gather(*asked) for row in rows]

    async def cable_changed(self, cable: int, up: bool) -> None:
        """Of a cable whose ends do not tell."""
        for name, port in self.routes.ends(cable):
            await self.port_changed(name, port, up)

    def tell_if_installed(self) -> None:
        if all(switch.confirmed for switch in self._switches):
            self.report("installed", switches=len(self._switches), down=sorted(self.down))

    async def port_changed(self, name: str, port: int, up: bool) -> None:
        """A cable was cut or mended at a port; what that changes is installed everywhere."""
        if self.routes.cable(name, port) is None:
            return
        (self._dark.discard if up else self._dark.add)((name, port))
        down = {self.routes.cable(*end) for end in self._dark}
        if down != self.down:
            self.down = down
            self.report("links", down=sorted(down), foreseen=self.routes.foresaw(down))
            for switch in self._switches:
                switch.confirmed = False
            done = await asyncio.gather(*(switch.install() for switch in self._switches), return_exceptions=True)
            for switch, failure in zip(self._switches, done, strict=True):
                if isinstance(failure, grpc.aio.AioRpcError):  # of that switch, and not of the one that told
                    switch.tell_failure(failure)
                elif isinstance(failure, BaseException):
                    raise failure


def main() -> None:
    """Run until the run goes away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--port", type=int, default=9559)
    parser.add_argument("--switches", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    channel = Channel.connect(options.control, "controller", name="controller")
    lock = threading.Lock()

    def send(message: Mapping[str, Any]) -> None:
        with lock:
            channel.send(dict(message))

    def report(what: str, **fields: Any) -> None:
        send({"event": what, **fields})

    routes = Routes.read(options.plan)
    targets = {name: Target(f"127.0.0.1:{options.port}") for name in routes.names.values()}
    if options.switches is not None:
        for name, told in json.loads(options.switches.read_text()).items():
            targets[name] = Target(told["address"], Path(told["p4info"]), Path(told["config"]))
    app = App(routes, targets, report)
    report("listening", package="P4Runtime", port=options.port)
    threading.Thread(target=app.run, daemon=True).start()
    try:
        _serve(app, channel, send)
    except ChannelClosed:
        _log.info("the run is gone: ending")
    os._exit(0)


def _serve(app: App, channel: Channel, send: Callable[[Mapping[str, Any]], None]) -> None:
    while True:
        try:
            request = channel.receive(_HOUR_S)
        except ChannelTimeout:
            continue
        match request.get("op"):
            case "counters":
                send({"id": request["id"], **_outcome(app, app.counters(), "rows")})
            case "cable":
                change = app.cable_changed(request["cable"], request["up"])
                send({"id": request["id"], **_outcome(app, change, "done")})
            case "quit":
                send({"id": request["id"]})
                return
            case other:
                send({"id": request.get("id"), "error": f"unknown request {other!r}"})


def _outcome(app: App, work: Coroutine[Any, Any, Any], key: str) -> dict[str, Any]:
    """What work of the other thread comes to, or why it does not."""
    try:
        return {key: asyncio.run_coroutine_threadsafe(work, app.loop).result(_CALL_S)}
    except Exception as error:  # whatever it is, the run is to hear of it
        return {"error": f"{type(error).__name__}: {error}"}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


if __name__ == "__main__":
    main()
