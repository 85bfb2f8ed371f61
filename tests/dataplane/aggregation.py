"""Switches of the aggregating programs for tests: their tables filled for jobs, and frames to and from workers."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.resources import shared_folder
from testbed.wire import aggregation, roce
from testbed.wire.aggregation import Header, Kind

Values = NDArray[np.int32]

AGGREGATOR = 0x0AFF0000  # of job 0, 10.255.0.0; of others, this and their number
WORKER = 0x0A000000  # worker i has address 10.0.0.0 + i + 1
QUEUE_PAIR = 0x100
MULTICAST = 0x40  # the group of job 0's children


@cache
def program(name: str) -> Program:
    return program_of(json.loads(json.dumps(compile_p4(shared_folder("p4") / f"{name}.p4").json)), name)


def mac(address: int) -> int:
    return 0x02_00_00000000 | address


@dataclass(frozen=True, slots=True)
class Job:
    """What a switch is told of a job. A child is a port and an address."""

    children: Sequence[tuple[int, int]]
    number: int = 1
    first_slot: int = 0
    slots: int = 512
    values: int = 32
    index: int | None = None  # at the parent; None: the root
    up_port: int = 0
    shift: int | None = None  # of the unit that averages; None: the program adds up


def configure(switch: Exchange, job: Job) -> None:
    control, group = switch.control, MULTICAST + job.number
    arguments = {
        "number": job.number,
        "children": len(job.children),
        "first_slot": job.first_slot,
        "slots": job.slots,
        "values": job.values,
        "group": group,
    }
    address, does = AGGREGATOR + job.number, "aggregate"
    if job.shift is not None:
        arguments["shift"], does = job.shift, "average"
    call = ActionCall(f"{does}_root", arguments)
    if job.index is not None:
        call = ActionCall(f"{does}_leaf", {**arguments, "index": job.index})
        control.insert("routes", [FieldMatch(address, prefix=32)], ActionCall("to_port", {"port": job.up_port}))
    control.insert("jobs", [FieldMatch(address)], call)
    _add_children(switch, job)


def configure_best_effort(switch: Exchange, job: Job, pool: int, server_port: int, server: int) -> None:
    arguments = {
        "number": job.number,
        "children": len(job.children),
        "slots": job.slots,
        "values": job.values,
        "group": MULTICAST + job.number,
        "aggregators": pool,
        "server": server,
        "server_mac": mac(server),
    }
    switch.control.insert("jobs", [FieldMatch(AGGREGATOR + job.number)], ActionCall("aggregate_besteffort", arguments))
    switch.control.insert("routes", [FieldMatch(server, prefix=32)], ActionCall("to_port", {"port": server_port}))
    _add_children(switch, job)


def _add_children(switch: Exchange, job: Job) -> None:
    control, group, address = switch.control, MULTICAST + job.number, AGGREGATOR + job.number
    switch.set_group(group, [(port, child) for child, (port, _) in enumerate(job.children, 1)])
    for child, (_, at) in enumerate(job.children, 1):
        arguments = {
            "source": mac(address),
            "destination": mac(at),
            "address": at,
            "queue_pair": QUEUE_PAIR + child,
        }
        control.insert("children", [FieldMatch(job.number), FieldMatch(child)], ActionCall("to_child", arguments))


def _ipv4(source: int, target: int, length: int, ttl: int) -> bytes:
    header = struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0x4000, ttl, 17, 0, source, target)
    total: int = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack(">H", 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))) + header[12:]


def frame(header: Header, values: Values, *, source: int, target: int, ttl: int = 64, in_roce: bool = False) -> bytes:
    """A whole Ethernet frame."""
    payload = aggregation.encode(header) + values.astype(">i4").tobytes()
    port = aggregation.UDP_PORT
    if in_roce:
        payload, port = aggregation.bth(QUEUE_PAIR, header.chunk) + payload + bytes(4), roce.UDP_PORT
    udp = struct.pack(">HHHH", port, port, 8 + len(payload), 0)
    ip = _ipv4(source, target, 28 + len(payload), ttl)
    if in_roce:
        crc = roce.icrc(ip + udp, payload[:-4])
        payload = payload[:-4] + struct.pack("<I", crc)
    udp = udp[:6] + struct.pack(">H", 0xFFFF - udp_sum(ip, udp + payload) or 0xFFFF)  # as hosts' kernels do
    return struct.pack(">6s6sH", mac(target).to_bytes(6), mac(source).to_bytes(6), 0x0800) + ip + udp + payload


def udp_sum(ip: bytes, datagram: bytes) -> int:
    """RFC 768 and 1071: of what is intact 0xFFFF."""
    words = np.frombuffer(ip[12:20] + struct.pack(">HH", 17, len(datagram)) + datagram, ">u2")
    total = int(words.sum(dtype=np.int64))
    return (total - 1) % 0xFFFF + 1 if total else 0


def unframed(data: bytes) -> tuple[Header, Values]:
    """Header and values of a frame, whose UDP checksum is right, and its ICRC if it has one."""
    payload = memoryview(data)[42:]
    assert udp_sum(data[14:34], data[34:]) == 0xFFFF
    if int.from_bytes(data[36:38]) == roce.UDP_PORT:
        assert roce.icrc(data[14:42], payload[:-4]).to_bytes(4, "little") == payload[-4:]
        payload = aggregation.without_bth(payload[:-4])
    header, values = aggregation.split(payload)
    return header, np.frombuffer(values, ">i4").astype(np.int32)


def add(job: Job, worker: int, chunk: int, values: Values, *, exponent: int = 0, **framing: bool) -> bytes:
    """What a worker sends: slots by turns, each with versions by turns."""
    header = Header(
        Kind.ADD, job.number, worker, chunk % job.slots, chunk // job.slots % 2, len(values), chunk, exponent
    )
    return frame(header, values, source=job.children[worker][1], target=AGGREGATOR + job.number, **framing)
