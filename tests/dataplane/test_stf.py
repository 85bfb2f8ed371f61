"""STF: what a line means, where a wrong one is blamed, and how outputs are judged."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from testbed.dataplane.stf import Add, Call, Command, Digits, Expect, Packet, Pattern, StfError, parse_stf, read_stf
from testbed.dataplane.stf_runner import Outcome, judge


def test_statements() -> None:
    add, command, packet, expect = parse_stf(
        "# a comment\n"
        "add Ig.t 10 k.a:0x12** k.b:0b1*1 k.c:7 set(v:0x10, w:2) = one  # label\n"
        "mc_node_create 7 1 2\n"
        "packet 3 00 11 2233\n"
        "expect 4 00**11 $\n",
        "x.stf",
    )
    keys = (
        ("k.a", Digits(0x1200, 0xFF00, 16), None),
        ("k.b", Digits(0b101, 0b101, 3), None),
        ("k.c", Digits(7, -1, 0), None),
    )
    assert add == Add(2, "Ig.t", 10, keys, Call("set", {"v": 16, "w": 2}), "one")
    assert command == Command(3, "mc_node_create", ("7", "1", "2"))
    assert packet == Packet(4, 3, bytes.fromhex("00112233"))
    assert expect == Expect(5, Pattern(4, "00**11", True))


def test_elements_of_stacks_may_be_written_with_a_dollar() -> None:
    (add,) = parse_stf("add t extra$2.h:0x1 set()", "x.stf")
    assert isinstance(add, Add)
    assert add.keys[0][0] == "extra[2].h"


def test_digits_that_were_not_written_are_zero_and_count() -> None:
    assert Digits(0x1, 0xF, 4).widened(16) == (1, 0xFFFF)
    assert Digits(0x1200, 0xFF00, 16).widened(16) == (0x1200, 0xFF00)
    assert Digits(5, -1, 0).widened(9) == (5, 0x1FF)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sit 1", "unknown statement 'sit'"),
        ("packet x 00", "not a decimal number: 'x'"),
        ("packet", "not a decimal number: ''"),
        ("packet 1 0g", "not whole bytes in hexadecimal digits: '0g'"),
        ("packet 1 000", "not whole bytes in hexadecimal digits: '000'"),
        ("packet 600 00", "there is no port 600: they are 0 to 509, and 510 of the control plane"),
        ("expect 511 00", "there is no port 511"),
        (f"packet 1 {'00' * 65550}", "a packet has at most 65549 bytes, and this one 65550"),
        ("packet ² 00", "not a decimal number: '²'"),
        ("add t k.a:0xg set()", "not a number: '0xg'"),
        ("add t k.a:0b2 set()", "not a number: '0b2'"),
        (f"add t k.a:{'9' * 5000} set()", "not a decimal number"),
        (f"check_counter c(1) packets == {'9' * 5000}", "not a decimal number"),
        ("expect", "needs a port"),
        ("add t k.a:1", "`add` is written"),
        ("add t k.a set()", "a key is written"),
        ("add t k.a:1 set(v)", "an argument is written"),
        ("add t k.a:1 set(v:0x*)", "every digit counts"),
        ("mirroring_add 1", "takes 2 arguments"),
        ("check_counter c(1) frames == 2", "`check_counter` is written"),
        ("# note spec-expect 1 00 $", "belongs below"),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str) -> None:
    with pytest.raises(StfError, match=r"f\.stf:2:1: ") as caught:
        parse_stf(f"packet 0 00\n{line}\n", "f.stf")
    assert message in caught.value.message


def _failures(text: str, sent: Mapping[int, Sequence[bytes]]) -> tuple[str, ...]:
    return judge(parse_stf(text, "f.stf"), Outcome(sent, {})).failures


def test_ports_are_judged_apart_and_in_order() -> None:
    text = "expect 1 aa $\nexpect 2 bb $\nexpect 1 cc $\n"
    assert _failures(text, {1: [b"\xaa", b"\xcc"], 2: [b"\xbb"]}) == ()
    assert len(_failures(text, {1: [b"\xcc", b"\xaa"], 2: [b"\xbb"]})) == 2
    assert _failures(text, {1: [b"\xaa"], 2: [b"\xbb"]}) == ("line 3: port 1: expected cc $, nothing came",)
    assert _failures(text, {1: [b"\xaa", b"\xcc"], 2: [b"\xbb"], 7: [b"\1"]}) == ("port 7: unexpected packet 01",)


def test_length_counts_only_with_a_dollar() -> None:
    assert _failures("expect 1 aa\n", {1: [b"\xaa\xbb"]}) == ()
    assert _failures("expect 1 aa $\n", {1: [b"\xaa\xbb"]})
    assert _failures("expect 1 aabb\n", {1: [b"\xaa"]})
    assert _failures("expect 1\n", {1: [b"\xaa"]}) == ()
    assert _failures("expect 1 a*\n", {1: [b"\xa7"]}) == ()


def test_either_form_of_a_specified_expectation_holds_and_is_told_apart() -> None:
    text = "expect 1 aa $\n# note spec-expect 2 bb $\nexpect 1 cc $\n"
    reference = judge(parse_stf(text, "f"), Outcome({1: [b"\xaa", b"\xcc"]}, {}))
    assert (reference.passed, reference.as_reference, reference.as_specified) == (True, 1, 0)
    specified = judge(parse_stf(text, "f"), Outcome({1: [b"\xcc"], 2: [b"\xbb"]}, {}))
    assert (specified.passed, specified.as_reference, specified.as_specified) == (True, 0, 1)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.stf"
    path.write_bytes(b"packet 0 01\n\xff")
    with pytest.raises(StfError, match="byte 12 is not UTF-8"):
        read_stf(path)
