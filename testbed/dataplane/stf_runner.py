"""Runs an STF test on a target and judges what came out.

Packets go in one by one, each finished before the next; for every port the packets that left are compared in order with
the port's `expect` lines. What leaves a port without an expectation is a failure too. Where an expectation has a
`spec-expect` either form is accepted, and the report tells which one came.
"""

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.bmv2model import Table
from testbed.dataplane.native.control import ActionCall, Control, ControlError, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.native.loader import Rates
from testbed.dataplane.stf import (
    Add,
    CheckCounter,
    Command,
    Digits,
    Expect,
    Packet,
    Pattern,
    SetDefault,
    Statement,
    StfError,
)
from testbed.errors import UsageError
from testbed.netcore import PASSES
from testbed.units import shown

PORTS = range(10)  # and those that a test names: what is sent to any other port vanishes
_FAILED_ASSERT = re.compile("(assert|assume) failed: ")  # as generated code has it
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a target did: the packets that left each port in order, and the counters that the test checks.

    `failures`: of packets that were not carried to their end, as no test can want it, each with its line.
    """

    sent: Mapping[int, Sequence[bytes]]
    counters: Mapping[int, int]  # by the line of the check
    failures: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The judgement: failures, one line each; how many expectations held; and how those with a `spec-expect` did."""

    failures: tuple[str, ...]
    held: int
    as_reference: int
    as_specified: int

    @property
    def passed(self) -> bool:
        return not self.failures


class Target(Protocol):
    """Carries out the statements of a test on a program."""

    def __call__(self, json: Path, statements: Sequence[Statement], file: str = "") -> Outcome: ...


def run_stf(json: Path, statements: Sequence[Statement], target: str = "native", file: str = "") -> Report:
    """Run a test on a program's BMv2 JSON; `file`: where it is, for messages.

    Raises `JsonError`, `StfError`, `MachineLacks`, `UsageError`.
    """
    if target not in TARGETS:
        raise UsageError(f"there is no target {target!r}", hint=f"there are: {', '.join(TARGETS)}")
    return judge(statements, TARGETS[target](json, statements, file))


def judge(statements: Sequence[Statement], outcome: Outcome) -> Report:
    """Compare what came out with what the test expects."""
    failures = list(outcome.failures)
    taken: dict[int, int] = defaultdict(int)
    held = as_reference = as_specified = 0

    def following(pattern: Pattern) -> bytes | None:
        sent = outcome.sent.get(pattern.port, ())
        return sent[taken[pattern.port]] if taken[pattern.port] < len(sent) else None

    for statement in statements:
        if not isinstance(statement, Expect):
            continue
        pattern, specified = statement.pattern, statement.specified
        frame, other = following(pattern), following(specified) if specified else None
        if frame is not None and pattern.matches(frame):
            as_reference += specified is not None
        elif specified and other is not None and specified.matches(other):
            as_specified += 1
            pattern = specified
        elif frame is None:
            failures.append(f"line {statement.line}: port {pattern.port}: expected {pattern}, nothing came")
            continue
        else:
            failures.append(f"line {statement.line}: port {pattern.port}: expected {pattern}, got {frame.hex()}")
            taken[pattern.port] += 1
            continue
        held += 1
        taken[pattern.port] += 1
    for port, sent in sorted(outcome.sent.items()):
        failures += [f"port {port}: unexpected packet {frame.hex()}" for frame in sent[taken[port] :]]
    for statement in statements:
        if isinstance(statement, CheckCounter):
            value = outcome.counters[statement.line]
            if _COMPARE[statement.comparison](value, statement.value):
                held += 1
            else:
                what = f"{statement.name} has {value} {statement.unit}"
                failures.append(f"line {statement.line}: {what}, not {statement.comparison} {statement.value}")
    return Report(tuple(failures), held, as_reference, as_specified)


def run_native(json: Path, statements: Sequence[Statement], file: str = "") -> Outcome:
    """The native target: compile, configure, inject."""
    with Exchange(read_json(json)) as exchange:
        return carry_out(exchange, statements, file)


def carry_out(exchange: Exchange, statements: Sequence[Statement], file: str = "") -> Outcome:
    """Carry out the statements on a switch in memory."""
    sent: dict[int, list[bytes]] = defaultdict(list)
    failures: list[str] = []
    configuration = Configuration(exchange, file)
    watched = ports_of(statements)
    now_ns = 0
    for statement in statements:
        if isinstance(statement, Packet):
            before, said = exchange.counters, len(exchange.messages)
            for port, frame in exchange.inject(statement.port, statement.frame, now_ns):
                if port in watched:
                    sent[port].append(frame)
            what = f"line {statement.line}: the packet at port {statement.port}"
            ended = _ended_early(before, exchange.counters, exchange.messages[said:])
            failures += [f"{what}: {reason}" for reason in ended]
            now_ns += 1_000_000
        else:
            configuration.apply(statement)
    counters = {s.line: configuration.count(s) for s in statements if isinstance(s, CheckCounter)}
    return Outcome(sent, counters, failures)


def _ended_early(before: Mapping[str, int], after: Mapping[str, int], messages: Sequence[str]) -> Iterator[str]:
    """Why a packet or a copy of it was not carried to its end."""
    if after["dropped_assert"] > before["dropped_assert"]:
        yield from dict.fromkeys(one for one in messages if _FAILED_ASSERT.match(one))
    if after["dropped_passes"] > before["dropped_passes"]:
        yield f"it came round {PASSES} times and was dropped: is it resubmitted or recirculated without end?"


def ports_of(statements: Sequence[Statement]) -> list[int]:
    """The ports that a test can see."""
    named = {s.port if isinstance(s, Packet) else s.pattern.port for s in statements if isinstance(s, Packet | Expect)}
    return sorted({*PORTS, *named})


def blamed(file: str, statement: Statement, error: ControlError | ValueError) -> StfError:
    """What was wrong, with the place of the statement."""
    hint = error.hint if isinstance(error, ControlError) else ""
    place = f"{file}:{statement.line}:1" if file else f"line {statement.line}"
    return StfError(f"{place}: {error}", hint=hint)


class Configurable(Protocol):
    """A switch as far as a test configures it; `Exchange` tells of the methods."""

    @property
    def control(self) -> Control: ...

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None: ...

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None: ...

    def set_queue_depth(self, depth: int) -> None: ...


class Configuration:
    """The control-plane statements of a file, for messages; `entries` are the added ones: table, handle, line."""

    def __init__(self, exchange: Configurable, file: str = "") -> None:
        self.entries: list[tuple[str, int, int]] = []
        self._file = file
        self._exchange = exchange
        self._control = exchange.control
        self._nodes: list[tuple[int, list[int]]] = []  # replication id, ports
        self._groups: dict[int, list[int]] = {}  # nodes of each group
        self._sessions: dict[int, dict[str, int]] = defaultdict(dict)
        self._labels: dict[str, tuple[str, int]] = {}  # table and handle

    def apply(self, statement: Statement) -> None:
        """Carry out a statement that is neither packet nor expectation. Raises `StfError`."""
        try:
            if isinstance(statement, Add):
                self._add(statement)
            elif isinstance(statement, SetDefault):
                call = ActionCall(statement.call.action, statement.call.arguments)
                self._control.set_default(statement.table, call)
            elif isinstance(statement, Command):
                self._command(statement.word, statement.arguments)
        except (ControlError, ValueError) as error:
            raise blamed(self._file, statement, error) from error

    def _add(self, statement: Add) -> None:
        table = self._control.table(statement.table)
        fields: list[FieldMatch | None] = [None] * len(table.keys)
        for name, digits, prefix in statement.keys:
            index = self._control.key_index(table, name)
            fields[index] = field_match(table, index, self._control.key_bits(table, index), digits, prefix)
        call = ActionCall(statement.call.action, statement.call.arguments)
        handle = self._control.insert(table.name, fields, call, statement.priority or 0)
        self.entries.append((table.name, handle, statement.line))
        if statement.label:
            self._labels[statement.label] = (table.name, handle)

    def _command(self, word: str, arguments: Sequence[str]) -> None:
        match word:
            case "mirroring_add" | "mirroring_add_mc":
                session, where = map(_number, arguments)
                self._sessions[session]["port" if word == "mirroring_add" else "group"] = where
                self._exchange.set_session(session, **self._sessions[session])
            case "mirroring_delete":
                self._sessions.pop(_number(arguments[0]), None)
                self._exchange.set_session(_number(arguments[0]))
            case "mc_mgrp_create":
                self._groups[_number(arguments[0])] = []
            case "mc_node_create":
                rid, *ports = map(_number, arguments)
                self._nodes.append((rid, sorted(ports)))
            case "mc_node_associate":
                group, node = map(_number, arguments)
                if group not in self._groups or node >= len(self._nodes):
                    raise ValueError(f"there is no {'node' if group in self._groups else 'group'} of that number yet")
                self._groups[group].append(node)
                copies = [(port, self._nodes[n][0]) for n in self._groups[group] for port in self._nodes[n][1]]
                self._exchange.set_group(group, copies)
            case "register_write":
                self._control.write_register(arguments[0], _number(arguments[1]), _number(arguments[2]))
            case "meter_set_rates":
                (committed, burst), (peak, peak_burst) = (_rate(a) for a in arguments[2:])
                self._control.set_meter(arguments[0], _number(arguments[1]), Rates(committed, peak, burst, peak_burst))
            case "queue_depth":
                self._exchange.set_queue_depth(_number(arguments[0]))
            case "wait":
                pass
            case _:
                raise ValueError(f"`{word}` is not supported on the native target")

    def count(self, check: CheckCounter) -> int:
        """The counter that a check names, after the last packet. Raises `StfError`."""
        try:
            if isinstance(check.index, int):
                packets, size = self._control.read_counter(check.name, check.index)
            elif check.index in self._labels:
                packets, size = self._control.entry_count(*self._labels[check.index])
            else:
                raise ValueError(f"there is no entry labelled {check.index!r}")
        except (ControlError, ValueError) as error:
            raise blamed(self._file, check, error) from error
        return packets if check.unit == "packets" else size


def field_match(table: Table, index: int, bits: int, digits: Digits, prefix: int | None) -> FieldMatch:
    """What a key field must be, from the digits of the test."""
    what, match = f"{table.name}: {table.keys[index].name}", table.keys[index].match
    (value, mask), ones = digits.widened(bits), (1 << bits) - 1
    if digits.value >> bits:
        raise ValueError(f"{what}: {digits.value:#x} does not fit {bits} bits")
    if prefix is not None and match != "lpm":
        raise ValueError(f"{what}: /{prefix} is for lpm keys, and this one is {match}")
    if prefix is not None and prefix > bits:
        raise ValueError(f"{what}: /{prefix} is more than {bits} bits")
    match match:
        case "ternary" | "optional":
            return FieldMatch(value, mask)
        case "lpm":
            length = prefix if prefix is not None else mask.bit_count()
            if prefix is None and mask != ones ^ ones >> length:
                raise ValueError(f"{what}: the digits that count must come first")
            return FieldMatch(value, prefix=length)
        case "range":
            raise ValueError(f"{what}: a range key cannot be written")
        case _:
            if mask != ones:
                raise ValueError(f"{what}: every digit of a key that is matched exactly counts")
            return FieldMatch(value)


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f"not a number: {shown(text)}") from None
    if value < 0:
        raise ValueError(f"less than 0: {shown(text)}")
    return value


def _rate(text: str) -> tuple[float, int]:
    rate, colon, burst = text.partition(":")
    if not colon:
        raise ValueError(f"a rate is written RATE:BURST, not {shown(text)}")
    try:
        per_us = float(rate)
    except ValueError:
        per_us = math.nan
    if not 0 <= per_us < math.inf:
        raise ValueError(f"not a rate, from 0 on, of packets or bytes a microsecond: {shown(rate)}")
    if (size := _number(burst)) >= 1 << 64:
        raise ValueError(f"a burst is below 2^64: {shown(burst)}")
    return per_us, size


def run_bmv2(json: Path, statements: Sequence[Statement], file: str = "") -> Outcome:
    """The real simple_switch."""
    from testbed.dataplane.stf_bmv2 import run_bmv2 as run

    return run(json, statements, file)


TARGETS: Mapping[str, Target] = {"native": run_native, "bmv2": run_bmv2}
