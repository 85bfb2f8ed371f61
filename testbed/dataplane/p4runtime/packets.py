"""Packets to and from a controller: metadata of messages, and the header before a packet at the CPU port.

The fields of a struct with @controller_header lie there one behind the other, in the order of P4Info.
"""

from collections.abc import Sequence

from finsy.proto import p4r

from testbed.dataplane.p4runtime.refusal import invalid
from testbed.dataplane.p4runtime.schema import Field
from testbed.dataplane.p4runtime.values import number, shortest


def packet_in(fields: Sequence[Field], frame: bytes) -> p4r.PacketIn | None:
    """What the program sent to the CPU port; None if it is shorter than the header."""
    bits = sum(each.bits for each in fields)
    size = (bits + 7) // 8
    if len(frame) < size:
        return None
    left, header = 8 * size, int.from_bytes(frame[:size], "big")
    message = p4r.PacketIn(payload=frame[size:])
    for each in fields:
        left -= each.bits
        message.metadata.add(metadata_id=each.id, value=shortest(header >> left & (1 << each.bits) - 1))
    return message


def packet_out(fields: Sequence[Field], message: p4r.PacketOut) -> bytes:
    """The frame as it comes in by the CPU port. Raises Refusal."""
    values = {each.metadata_id: each.value for each in message.metadata}
    if len(values) != len(message.metadata) or values.keys() != {each.id for each in fields}:
        raise invalid(f"a packet-out has the metadata {[each.id for each in fields]}, each once")
    if not message.payload:
        raise invalid("a packet-out without a payload")
    bits = header = 0
    for each in fields:
        header = header << each.bits | number(values[each.id], each.bits, f"packet_out: {each.name}")
        bits += each.bits
    size = (bits + 7) // 8
    return (header << 8 * size - bits).to_bytes(size, "big") + message.payload
