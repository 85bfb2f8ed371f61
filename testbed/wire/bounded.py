"""What the packets of a transport with bounded loss say, whatever they look like (`dlcp`, `dblp`).

A message is told by its `tag`. Each is what one packet says.
"""

from typing import NamedTuple

SEQUENCES = 1 << 31


class Data(NamedTuple):
    """A chunk of a message. sequence: counts the packets that its sender gives the peer, modulo `SEQUENCES`; asks: it
    wants to hear how it fared. A format that has no room for these says 0 and False."""

    tag: int
    chunk: int
    sequence: int = 0
    asks: bool = False


class Probe(NamedTuple):
    """All of the message was sent: what came of it? number: which PROBE of it this is; None: the format has no room."""

    tag: int
    number: int | None = None


class Stop(NamedTuple):
    """Enough of the message is there."""

    tag: int


class Holes(NamedTuple):
    """The bitmap of the message from chunk `first` on, which is the payload; number: of the PROBE that it answers."""

    tag: int
    first: int
    number: int | None = None


class Feedback(NamedTuple):
    """How packets fared: the latest that came is `sequence`, and those since the last feedback came marked or not."""

    sequence: int
    marked: bool


class Notice(NamedTuple):
    """A congestion notification: packets come marked."""


Heard = Data | Probe | Stop | Holes | Feedback | Notice
