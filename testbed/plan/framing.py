"""How a transport cuts a message into wire packets: how many, how long, and how many acknowledgements come back.

Bytes are as a link's rate counts them: whole frames with FCS, preamble and gap. `Framing` is arithmetic only; the
constants come from the transport's own table.
"""

from dataclasses import dataclass

from testbed.spec.model import TransportSpec
from testbed.transport import find, reduces, settle
from testbed.transport.aggregation import packet_bytes
from testbed.transport.endpoint import Path
from testbed.wire.aggregation import VALUE_BYTES
from testbed.wire.ethernet import ETHERNET_BYTES, TCP_HEADERS_BYTES, UDP_WIRE_BYTES, WIRE_BYTES
from testbed.wire.roce import IMMEDIATE_BYTES, RETH_BYTES

TCP_ACK_EVERY = 2  # RFC 9293, 3.8.6.3: at least every second full segment


@dataclass(frozen=True, slots=True)
class Framing:
    """`header_bytes` is added to every packet; `first_bytes`, `last_bytes` to a message's first and last one."""

    payload_bytes: int
    header_bytes: int
    first_bytes: int
    last_bytes: int
    ack_bytes: int
    ack_every: int

    @property
    def full_bytes(self) -> int:
        """A full packet on the wire."""
        return self.payload_bytes + self.header_bytes

    def packets(self, size_bytes: int) -> int:
        """Data packets of a message."""
        return max(1, -(-size_bytes // self.payload_bytes))

    def acknowledgements(self, size_bytes: int) -> int:
        """Acknowledgements of a message; its last packet always asks for one."""
        return -(-self.packets(size_bytes) // self.ack_every)

    def wire_bytes(self, size_bytes: int) -> int:
        """A message's data packets on the wire."""
        return size_bytes + self.packets(size_bytes) * self.header_bytes + self.first_bytes + self.last_bytes

    def first_packet_bytes(self, size_bytes: int) -> int:
        """The first of them."""
        return self.full_bytes + self.first_bytes if self.packets(size_bytes) > 1 else self.wire_bytes(size_bytes)

    def last_packet_bytes(self, size_bytes: int) -> int:
        """The last of them."""
        before = (self.packets(size_bytes) - 1) * self.full_bytes
        return self.wire_bytes(size_bytes) - before - (self.first_bytes if before else 0)


def framing(transport: TransportSpec, path: Path) -> Framing:
    """The framing of the spec's transport on `path`; raises ParameterError. Of an aggregation's packet the sum is the
    acknowledgement, which is as long.
    """
    if transport.kind == "tcp":
        payload = path.mtu_bytes - (TCP_HEADERS_BYTES - ETHERNET_BYTES)
        header = TCP_HEADERS_BYTES + WIRE_BYTES
        return Framing(payload, header, 0, 0, header, TCP_ACK_EVERY)
    values = settle(transport, path).values
    if reduces(transport):
        payload = VALUE_BYTES * int(values["values"])
        header = UDP_WIRE_BYTES + packet_bytes(values) - payload
        return Framing(payload, header, 0, 0, ack_bytes=payload + header, ack_every=1)
    packets = find(transport.kind).framing
    around = UDP_WIRE_BYTES + packets.trailer_bytes
    header = around + packets.data_bytes
    write = values.get("verb") == "write"
    return Framing(
        payload_bytes=int(values.get("mtu", path.mtu_bytes - header)),
        header_bytes=header,
        first_bytes=RETH_BYTES if write else 0,
        last_bytes=IMMEDIATE_BYTES if write else 0,
        ack_bytes=around + packets.answer_bytes,
        ack_every=int(values.get("ack_every", 1)),
    )
