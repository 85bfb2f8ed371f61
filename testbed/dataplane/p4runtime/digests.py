"""Digests: which are asked for, what was learned and is still to be told, and what was told and not yet acknowledged.

P4Runtime specification, section "DigestEntry". Knows no clock: `now_ns` is model time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing
from testbed.dataplane.p4runtime.schema import Digest, Schema
from testbed.dataplane.p4runtime.undo import Undo

_LONGEST_LIST = 1024  # where the client leaves it to the server
_MOST_CACHED = 65536  # messages of one digest that wait for an acknowledgement; more are not learned


@dataclass(slots=True)
class _Learning:
    """One digest that is asked for. `buffer` since `first_ns`; `cache`: list -> when it was told, and what it said; all
    of that is `told`.
    """

    config: p4r.DigestEntry.Config
    buffer: dict[bytes, None] = field(default_factory=dict)
    first_ns: int = 0
    cache: dict[int, tuple[int, frozenset[bytes]]] = field(default_factory=dict)
    told: set[bytes] = field(default_factory=set)

    @property
    def most(self) -> int:
        return self.config.max_list_size or _LONGEST_LIST

    def tell(self, number: int, messages: list[bytes], now_ns: int) -> None:
        """A list was told that is to be acknowledged."""
        self.cache[number] = now_ns, frozenset(messages)
        self.told.update(messages)

    def forget(self, number: int) -> None:
        """A list was acknowledged, or not in time."""
        _, messages = self.cache.pop(number, (0, frozenset()))
        self.told -= messages


@dataclass(slots=True)
class DigestStore:
    schema: Schema
    _learning: dict[int, _Learning] = field(default_factory=dict)
    _last_list: int = 0

    def __bool__(self) -> bool:
        """Whether any is asked for."""
        return bool(self._learning)

    def write(self, kind: int, message: p4r.DigestEntry) -> Undo:
        number = message.digest_id
        own = self._digest(number)
        held = self._learning.get(number)
        if kind == p4r.Update.INSERT and held is not None:
            raise Refusal(StatusCode.ALREADY_EXISTS, f"digest {own.name} is asked for already")
        if kind != p4r.Update.INSERT and held is None:
            raise missing(f"digest {own.name} is not asked for")
        if kind == p4r.Update.DELETE:
            assert held is not None
            del self._learning[number]
            return lambda: self._learning.update({number: held})
        config = p4r.DigestEntry.Config()
        config.CopyFrom(message.config)
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise invalid(f"digest {own.name}: times and sizes are not negative")
        if held is None:
            self._learning[number] = _Learning(config)
            return lambda: self._learning.__delitem__(number)
        before, held.config = held.config, config

        def undo() -> None:
            held.config = before

        return undo

    def read(self, asked: p4r.DigestEntry) -> Iterator[p4r.Entity]:
        if asked.digest_id:
            own = self._digest(asked.digest_id)
            if own.id not in self._learning:
                raise missing(f"digest {own.name} is not asked for")
        for number in [asked.digest_id] if asked.digest_id else list(self._learning):
            yield p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=number, config=self._learning[number].config))

    def _digest(self, number: int) -> Digest:
        if number not in self.schema.digests:
            raise invalid(f"there is no digest {number:#x}")
        return self.schema.digests[number]

    def learn(self, field_list: int, message: bytes, now_ns: int) -> None:
        """A digest of the switch."""
        learning = self._learning.get(self.schema.digest_lists.get(field_list, 0))
        if learning is None or message in learning.buffer or message in learning.told:
            return
        if len(learning.told) + len(learning.buffer) >= _MOST_CACHED:
            return
        if not learning.buffer:
            learning.first_ns = now_ns
        learning.buffer[message] = None

    def due(self, now_ns: int, epoch_ns: int) -> Iterator[p4r.DigestList]:
        """The lists to be told now. Forgets what was not acknowledged in time."""
        for number, learning in self._learning.items():
            lasts_ns = learning.config.ack_timeout_ns
            for of in [of for of, (told_ns, _) in learning.cache.items() if now_ns - told_ns >= lasts_ns]:
                learning.forget(of)
            waited = now_ns - learning.first_ns >= learning.config.max_timeout_ns
            while len(learning.buffer) >= learning.most or (learning.buffer and waited):
                messages = list(learning.buffer)[: learning.most]
                for each in messages:
                    del learning.buffer[each]
                self._last_list += 1
                if lasts_ns:
                    learning.tell(self._last_list, messages, now_ns)
                own = self.schema.digests[number]
                data = [own.type.encode(_values(own, each)) for each in messages]
                yield p4r.DigestList(digest_id=number, list_id=self._last_list, data=data, timestamp=epoch_ns)

    def acknowledge(self, ack: p4r.DigestListAck) -> None:
        """Raises Refusal for a digest that there is not; an unknown list is an old one."""
        self._digest(ack.digest_id)
        if (learning := self._learning.get(ack.digest_id)) is not None:
            learning.forget(ack.list_id)

    def forget(self) -> None:
        """What was learned is for a client that is gone."""
        for learning in self._learning.values():
            learning.buffer.clear()
            learning.cache.clear()
            learning.told.clear()


def _values(own: Digest, message: bytes) -> list[int]:
    """Of the fields of a digest, each in whole bytes."""
    values, at = [], 0
    for bits in own.bits:
        count = (bits + 7) // 8
        values.append(int.from_bytes(message[at : at + count], "big"))
        at += count
    return values
