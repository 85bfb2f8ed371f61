"""Which packets are under way, where on which path, and which of them are lost."""

from collections.abc import Callable
from typing import NamedTuple

from testbed.transport.falcon.parameters import Constants
from testbed.transport.falcon.paths import FlowPath


class Flight(NamedTuple):
    """The last transmission of a packet: its place on its path, when it left, how often it was sent again early."""

    path: FlowPath
    place: int
    left_ns: int
    again: int


class Flights:
    """Packets by number, in the order in which they left. Lost ones are no longer under way until they are `taken`."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._flying: dict[int, Flight] = {}
        self._lost: dict[int, Flight] = {}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._flying)

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    @property
    def oldest(self) -> Flight | None:
        """What left before all others."""
        return next(iter(self._flying.values()), None)

    def left(self, sequence: int, path: FlowPath, at_ns: int, again: int) -> None:
        self._flying[sequence] = Flight(path, path.next_place(), at_ns, again)

    def arrived(self, sequence: int) -> bool:
        """A packet is there; whether that is news. Of one that was sent again it is not known which transmission is."""
        flight = self._flying.pop(sequence, None)
        if flight is None:
            flight = self._lost.pop(sequence, None)
            if flight is None:
                return False
        elif not flight.again:
            flight.path.there = max(flight.path.there, flight.place)
        flight.path.delivered += 1
        return True

    def early(self, now: int) -> int | None:
        """Find what is lost by distance and by time (RACK); when there may be more, if nothing is heard until then."""
        distance, most = self._constants.ooo_distance, self._constants.early_retransmits
        due_ns: int | None = None
        for sequence, flight in list(self._flying.items()):
            if flight.place >= flight.path.there or flight.again >= most:
                continue
            at_ns = flight.left_ns + flight.path.rack_ns()
            if flight.place + distance <= flight.path.there or at_ns <= now:
                self._lose(sequence)
            elif due_ns is None or at_ns < due_ns:
                due_ns = at_ns
        return due_ns

    def probe(self) -> None:
        """Take the first packet for lost (TLP)."""
        if self._flying:
            self._lose(min(self._flying))

    def expired(self, now: int, timeout_ns: Callable[[Flight], int]) -> list[FlowPath]:
        """Take for lost all whose timeout is over; the paths that they were on."""
        paths: dict[int, FlowPath] = {}
        for sequence, flight in list(self._flying.items()):
            if flight.left_ns + timeout_ns(flight) <= now:
                self._lose(sequence)
                paths[flight.path.label] = flight.path
        return list(paths.values())

    def all_lost(self) -> None:
        for sequence in list(self._flying):
            self._lose(sequence)

    @property
    def first_lost(self) -> tuple[int, FlowPath]:
        """The first packet that is lost, and the path that it was on."""
        first = min(self._lost)
        return first, self._lost[first].path

    def take_lost(self, first: int, end: int) -> list[int]:
        """Packets from the first lost one on that are to be sent again now, all of one path, and less than `end`; of
        each how often it was sent again."""
        path, taken = self._lost[first].path, []
        for sequence in range(first, end):
            flight = self._lost.get(sequence)
            if flight is None or flight.path is not path:
                break
            taken.append(self._lost.pop(sequence).again)
        return taken

    def clear(self) -> None:
        self._flying.clear()
        self._lost.clear()

    def _lose(self, sequence: int) -> None:
        self._lost[sequence] = self._flying.pop(sequence)
