"""How the two halves of a queue pair find each other, without a handshake: numbers that both ends can work out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.transport.endpoint import Peer

_FIRST_QUEUE_PAIR = 0x100  # our choice; 0 and 1 are management's (IBTA)


@dataclass(frozen=True, slots=True)
class Address:
    """One half of a queue pair: its number, that of the other half, and the UDP source port of all it sends."""

    peer: int
    local_qp: int
    remote_qp: int
    source_port: int
    first_psn: int  # of what this half sends
    peer_first_psn: int


def address(rank: int, peer: int, peers: Sequence[Peer], seed: int) -> Address:
    """This rank's half of the queue pair to `peer`. `Peer.queue_pair` is the first number of that rank's queue pairs.

    The number of a half is its rank's first plus the other rank. The port is 0xC000 | a 14-bit hash of both numbers and
    the seed (the convention of RoCE for ECMP), so that another seed draws other paths.
    """
    first = {entry.rank: entry.queue_pair for entry in peers}
    local, remote = (first[rank] + peer) & 0xFFFFFF, (first[peer] + rank) & 0xFFFFFF
    return Address(
        peer=peer,
        local_qp=local,
        remote_qp=remote,
        source_port=_source_port(seed, local, remote),
        first_psn=_hash("psn", local, remote) & 0xFFFFFF,
        peer_first_psn=_hash("psn", remote, local) & 0xFFFFFF,
    )


def source_port(rank: int, peer: int, ranks: int, seed: int) -> int:
    """The UDP source port of what `rank` sends to `peer`, with the numbers of `queue_pairs`."""
    first = [(_FIRST_QUEUE_PAIR + each * ranks) for each in (rank, peer)]
    return _source_port(seed, first[0] + peer & 0xFFFFFF, first[1] + rank & 0xFFFFFF)


def queue_pairs(ranks: int) -> tuple[Peer, ...]:
    """Numbers for all ranks of a job that do not overlap."""
    return tuple(Peer(rank, _FIRST_QUEUE_PAIR + rank * ranks) for rank in range(ranks))


def _source_port(seed: int, local: int, remote: int) -> int:
    return 0xC000 | _hash("port", seed, local, remote) & 0x3FFF


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest(), "big")
