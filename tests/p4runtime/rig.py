"""A native switch that is served over P4Runtime in this process: under a virtual clock, or with a loop that runs."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from finsy.proto import p4i, p4r

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import Compiled, compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.loader import load_program
from testbed.dataplane.p4runtime.device import Device
from testbed.dataplane.p4runtime.server import P4RuntimeServer
from testbed.netcore import Fabric

EVERYTHING = Path(__file__).with_name("everything.p4")
PORTS = (1, 2, 3, 4)
DEVICE = 7
_RATE_BPS = 10**15


@cache
def compiled(path: Path) -> Compiled:
    return compile_p4(path)


def config_of(path: Path) -> p4r.ForwardingPipelineConfig:
    """As a client would set it."""
    made = compiled(path)
    info = p4i.P4Info.FromString(made.p4info.binary)
    return p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=json.dumps(made.json).encode())


def ids(path: Path) -> dict[str, int]:
    """The id of everything in a program, by its alias; packet metadata apart."""
    info = p4i.P4Info.FromString(compiled(path).p4info.binary)
    kinds = [value for field, value in info.ListFields() if field.name not in ("pkg_info", "type_info")]
    return {each.preamble.alias: each.preamble.id for kind in kinds for each in kind}


class Rig:
    """`address` of its server. A datapath (`held`, `punted`) of one switch with four ports."""

    def __init__(self, program: Path = EVERYTHING, *, virtual: bool = True, set_up: bool = True) -> None:
        self.fabric = Fabric(1, virtual=virtual)
        self._alone = threading.RLock()
        document = compiled(program).json
        own = program_of(document, program.stem)
        self._library, functions = load_program(build_program(own))
        self.switch = ConfigurableSwitch(self.fabric, own, functions, seed=1)
        self._port_of: dict[int, int] = {}
        for port in PORTS if virtual else ():
            host, at = self.fabric.add_memory_port(), self.fabric.add_switch_port(self.switch.number, port)
            self.fabric.set_link(
                self.fabric.add_link(at, host, port), rate_bps=_RATE_BPS, delay_ns=0, queue_bytes=1 << 20
            )
            self._port_of[host] = port
        self.device = Device(DEVICE, self.switch, PORTS, config_of(program) if set_up else None, seed=1)
        self.server = P4RuntimeServer([self.device], self, "127.0.0.1:0")
        self._loop = None if virtual else threading.Thread(target=self.fabric.run, daemon=True)
        self._now_ns = 0

    def __enter__(self) -> "Rig":
        if self._loop is not None:
            self._loop.start()
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        if self._loop is not None:
            self.fabric.stop()
            self._loop.join(10)

    @property
    def address(self) -> str:
        return self.server.address

    def send(self, frame: bytes, port: int = 1, after_ns: int = 1_000_000) -> list[tuple[int, bytes]]:
        """Port and bytes of what comes out when a frame comes in, by then that much later."""
        with self._alone:
            self.fabric.inject(self.switch.number, port, frame)
            self._now_ns += after_ns
            self.fabric.advance(self._now_ns)
            return [(self._port_of[host], sent) for host, _, sent in self.fabric.taken()]

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._alone:
            self.fabric.hold()
            try:
                yield
            finally:
                self.fabric.release()

    def punted(self) -> Sequence[tuple[int, int, bytes]]:
        with self._alone:
            return [(DEVICE, port, frame) for _, port, frame in self.fabric.punted()]


def frame(
    step: int = 0,
    *,
    destination: int = 0,
    source: int = 0x02_00_00_00_00_01,
    kind: int = 0x88B5,
    value: int = 0,
    rest: bytes = b"rest",
) -> bytes:
    """A frame of everything.p4, its note 0."""
    parts = ((destination, 6), (source, 6), (kind, 2), (step, 1), (value, 2), (0, 1))
    return b"".join(number.to_bytes(size, "big") for number, size in parts) + rest


def value_of(sent: bytes) -> int:
    return int.from_bytes(sent[15:17], "big")


def note_of(sent: bytes) -> int:
    return sent[17]
