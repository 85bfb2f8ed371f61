"""What a switch tells its controller about itself: features, ports, statistics, and what happens; as bytes."""

from collections.abc import Iterable
from struct import Struct

from testbed import __version__
from testbed.openflow.device import AgentSwitch, Port, PortCounters
from testbed.openflow.match import encode_fields, oxm, oxm_id
from testbed.openflow.numbers import (
    LONGEST_MESSAGE,
    MORE,
    NO_BUFFER,
    UNKNOWN_COUNT,
    Action,
    Capability,
    GroupType,
    Instruction,
    Kind,
    Multipart,
    Oxm,
    PacketInReason,
    PortReason,
    PortState,
    RemovedReason,
    TableProperty,
)
from testbed.openflow.tables import MOST_FLOWS, MOST_GROUPS, Flow, Group
from testbed.openflow.wire import HEADER, encode, in_parts, pad

MANUFACTURER = "Testbed"
HARDWARE = "native switch"
TABLE_NAME = "routes"
NO_COOKIE = 0xFFFFFFFFFFFFFFFF  # of a packet-in that no flow asked for
_NS = 1_000_000_000
_OTHER_RATE = 1 << 10  # OFPPF_OTHER: what `curr_speed` says
_MOST_KBPS = 0xFFFFFFFF
_FEATURES = Struct("!QIBB2xII")
_PORT = Struct("!I4x6s2x16sIIIIIIII")
_PORT_STATS = Struct("!I4x12QII")
_DESCRIPTION = Struct("!256s256s256s32s256s")
_MULTIPART = Struct("!HH4x")
_FLOW = Struct("!HBxIIHHHH4xQQQ")
_AGGREGATE = Struct("!QQI4x")
_TABLE = Struct("!B3xIQQ")
_GROUP = Struct("!H2xII4xQQII")
_BUCKET = Struct("!QQ")
_GROUP_DESCRIPTION = Struct("!HBxI")
_GROUP_FEATURES = Struct("!II4I4I")
_SELECT_WEIGHT = 1  # OFPGFC
_TABLE_FEATURES = Struct("!HB5x32sQQII")
_HEAD = Struct("!HH")
_PACKET_IN = Struct("!IHBBQ")
_FLOW_REMOVED = Struct("!QHBBIIHHQQ")
_PORT_STATUS = Struct("!B7x")


def features(xid: int, switch: AgentSwitch) -> bytes:
    can = Capability.FLOW_STATS | Capability.TABLE_STATS | Capability.PORT_STATS | Capability.GROUP_STATS
    return encode(Kind.FEATURES_REPLY, xid, _FEATURES.pack(switch.dpid, 0, 1, 0, can, 0))


def multipart(xid: int, of: Multipart, pieces: Iterable[bytes]) -> bytes:
    """As many messages as it takes, each but the last saying that more will come."""
    *others, last = in_parts(list(pieces), HEADER.size + _MULTIPART.size)
    return b"".join(
        encode(Kind.MULTIPART_REPLY, xid, _MULTIPART.pack(of, more), body)
        for body, more in [*((other, MORE) for other in others), (last, 0)]
    )


def description(switch: AgentSwitch) -> bytes:
    """Controllers tell native switches from Open vSwitch by the first two texts."""
    texts = MANUFACTURER, HARDWARE, f"Testbed {__version__}, program {switch.program}", str(switch.dpid), switch.name
    return _DESCRIPTION.pack(*(text.encode()[:31] if i == 3 else text.encode()[:255] for i, text in enumerate(texts)))


def port(of: Port, *, up: bool) -> bytes:
    mac, name = bytes.fromhex(of.mac.replace(":", "")), of.name.encode()[:15]
    state = PortState.LIVE if up else PortState.LINK_DOWN
    kbps = min(of.rate_bps // 1000, _MOST_KBPS)
    return _PORT.pack(of.number, mac, name, 0, state, _OTHER_RATE, 0, 0, 0, kbps, kbps)


def port_statistics(number: int, counters: PortCounters, age_ns: int) -> bytes:
    return _PORT_STATS.pack(
        number,
        counters.received_packets,
        counters.sent_packets,
        counters.received_bytes,
        counters.sent_bytes,
        counters.received_dropped,
        counters.sent_dropped,
        *(UNKNOWN_COUNT,) * 6,  # errors and collisions
        *divmod(age_ns, _NS),
    )


def flow_statistics(flow: Flow, now_ns: int) -> bytes:
    match = flow.match.encode()
    length = _FLOW.size + len(match) + len(flow.instructions)
    age = divmod(now_ns - flow.since_ns, _NS)
    counts = flow.cookie, flow.counts.packets, flow.counts.bytes
    return _FLOW.pack(length, 0, *age, flow.priority, 0, 0, flow.flags, *counts) + match + flow.instructions


def aggregate(flows: Iterable[Flow]) -> bytes:
    chosen = list(flows)
    return _AGGREGATE.pack(sum(f.counts.packets for f in chosen), sum(f.counts.bytes for f in chosen), len(chosen))


def table_statistics(flows: int, matched: int) -> bytes:
    return _TABLE.pack(0, flows, UNKNOWN_COUNT, matched)


def group_statistics(number: int, group: Group, flows: int, now_ns: int) -> bytes:
    """A bucket's packets are counted at its port only."""
    length = _GROUP.size + _BUCKET.size * group.buckets
    age = divmod(now_ns - group.since_ns, _NS)
    unknown = _BUCKET.pack(UNKNOWN_COUNT, UNKNOWN_COUNT) * group.buckets
    return _GROUP.pack(length, number, flows, group.counts.packets, group.counts.bytes, *age) + unknown


def group_description(number: int, group: Group) -> bytes:
    return _GROUP_DESCRIPTION.pack(_GROUP_DESCRIPTION.size + len(group.wire), group.type, number) + group.wire


def group_features() -> bytes:
    types = 1 << GroupType.ALL | 1 << GroupType.SELECT | 1 << GroupType.INDIRECT
    most = [MOST_GROUPS if types >> of_type & 1 else 0 for of_type in GroupType]
    actions = [1 << Action.OUTPUT | 1 << Action.DEC_NW_TTL if types >> of_type & 1 else 0 for of_type in GroupType]
    return _GROUP_FEATURES.pack(types, _SELECT_WEIGHT, *most, *actions)


def table_features() -> bytes:
    """The one table. Of packets without a flow only what drops them or sends them to the controller can be said."""
    instructions = [
        _HEAD.pack(kind, 4)
        for kind in (Instruction.WRITE_ACTIONS, Instruction.APPLY_ACTIONS, Instruction.CLEAR_ACTIONS)
    ]
    actions = [_HEAD.pack(kind, 4) for kind in (Action.OUTPUT, Action.GROUP, Action.DEC_NW_TTL)]
    properties: list[tuple[int, list[bytes]]] = [
        (TableProperty.MATCH, [oxm_id(Oxm.ETH_TYPE, 2), oxm_id(Oxm.IPV4_DST, 4, masked=True)]),
        (TableProperty.WILDCARDS, [oxm_id(Oxm.ETH_TYPE, 2), oxm_id(Oxm.IPV4_DST, 4)]),  # what may be left out
    ]
    for miss in (0, 1):
        properties += [
            (TableProperty.INSTRUCTIONS + miss, instructions),
            (TableProperty.NEXT_TABLES + miss, []),
            (TableProperty.WRITE_ACTIONS + miss, actions[:1] if miss else actions),
            (TableProperty.APPLY_ACTIONS + miss, actions[:1] if miss else actions),
            (TableProperty.WRITE_SETFIELD + miss, []),
            (TableProperty.APPLY_SETFIELD + miss, []),
        ]
    body = b"".join(pad(_HEAD.pack(kind, 4 + len(b"".join(of))) + b"".join(of)) for kind, of in sorted(properties))
    return _TABLE_FEATURES.pack(_TABLE_FEATURES.size + len(body), 0, TABLE_NAME.encode(), 0, 0, 0, MOST_FLOWS) + body


def packet_in(in_port: int, reason: PacketInReason, cookie: int, frame: bytes) -> bytes:
    """With the whole frame, as none is kept, whatever a `max_len` says; or as much of it as a message has room for."""
    head = _PACKET_IN.pack(NO_BUFFER, min(len(frame), 0xFFFF), reason, 0, cookie)
    head += encode_fields(oxm(Oxm.IN_PORT, in_port, 4)) + bytes(2)
    return encode(Kind.PACKET_IN, 0, head, frame[: LONGEST_MESSAGE - HEADER.size - len(head)])


def flow_removed(flow: Flow, reason: RemovedReason, now_ns: int) -> bytes:
    age = divmod(now_ns - flow.since_ns, _NS)
    counts = flow.counts.packets, flow.counts.bytes
    head = _FLOW_REMOVED.pack(flow.cookie, flow.priority, reason, 0, *age, 0, 0, *counts)
    return encode(Kind.FLOW_REMOVED, 0, head, flow.match.encode())


def port_status(of: Port, *, up: bool) -> bytes:
    return encode(Kind.PORT_STATUS, 0, _PORT_STATUS.pack(PortReason.MODIFY), port(of, up=up))
