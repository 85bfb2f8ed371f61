"""The constants that the optical protocol adds to those of aggregation."""

from testbed.codec.words import BITS
from testbed.transport.aggregation.parameters import packet_bytes
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.wire.ethernet import UDP_WIRE_BYTES

_DEADLINE_RTTS = 16
_BLOCK_CHUNKS = 64


def _scaled_block(_: Path, values: Values) -> Value:
    return max(_BLOCK_CHUNKS, whole(values, "slots"))


def _scaled_deadline(path: Path, values: Values) -> Value:
    slots_bits = 8 * whole(values, "slots") * (packet_bytes(values) + UDP_WIRE_BYTES)
    return _DEADLINE_RTTS * path.base_rtt_ns + slots_bits * 10**9 // path.rate_bps


OPTICAL_PARAMETERS = (
    Parameter(
        "bits",
        "optical: of a word, 8 or 16; it has 32 of a packet either way",
        16,
        "bits",
        "OptINC (arXiv 2603.28290): 8 or 16",
        choices=BITS,
    ),
    Parameter(
        "fraction",
        "optical: bits of fraction that a unit below the root gives its means, at most those that its sum has; 0: "
        "units round on each level",
        2,
        "bits",
        "OptINC: the first level of a cascade keeps the remainder",
        most=5,
    ),
    Parameter(
        "block",
        "optical: chunks with one scale",
        _BLOCK_CHUNKS,
        "chunks",
        "our choice: a scale costs a packet without values",
        f"{_BLOCK_CHUNKS}, or the slots if these are more",
        _scaled_block,
        least=1,
    ),
    Parameter(
        "deadline",
        "optical: how long a mean is waited for; its chunk is missing after that, and at once when means of chunks "
        "that are more than half the slots later have come",
        10_000_000,
        "ns",
        "our choice",
        f"{_DEADLINE_RTTS} base RTTs and all slots' packets at the NIC's rate",
        _scaled_deadline,
        least=1,
    ),
    Parameter(
        "patience",
        "optical: how long the first mean of a buffer is waited for, as other workers may begin later",
        1_000_000_000,
        "ns",
        "our choice",
        least=1,
    ),
)
