"""Quantities: exact both ways, and never guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.units import (
    Quantity,
    QuantityError,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_instant,
    parse_mtu,
    parse_rate,
)

AMOUNTS = st.integers(0, 2**62)


@given(AMOUNTS)
def test_what_is_written_reads_back_exactly(amount: int) -> None:
    assert parse_duration(format_duration(amount)) == amount
    assert parse_instant(format_duration(-amount)) == -amount
    assert parse_bytes(format_bytes(amount)) == amount
    rate_bps = amount % (10**14 + 1)  # at most 100 Tbps
    assert parse_rate(format_rate(rate_bps)) == rate_bps


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_duration, "10us", 10_000),
        (parse_duration, "1.5 ms", 1_500_000),
        (parse_duration, "2min", 120 * 10**9),
        (parse_duration, "1e3ns", 1000),
        (parse_bytes, "256KiB", 262_144),
        (parse_bytes, "1kB", 1000),
        (parse_rate, "2.5Gbps", 2_500_000_000),
        (parse_fraction, "0.5%", 0.005),
        (parse_fraction, 1, 1.0),
        (parse_fraction, "0.25", 0.25),
        (parse_mtu, 4200, 4200),
        (parse_mtu, "9KiB", 9216),
        (parse_instant, "-5ms", -5_000_000),
        (parse_duration, 0, 0),
        (parse_duration, Quantity(7), 7),
    ],
)
def test_values(parse, text: object, value: float) -> None:  # type: ignore[no-untyped-def]
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "suggestion"),
    [
        (parse_duration, "10", ""),
        (parse_duration, 10, ""),
        (parse_duration, "10 usec", "10us"),
        (parse_duration, "10US", "10us"),
        (parse_duration, True, ""),
        (parse_duration, "-1us", ""),
        (parse_duration, "0.1ns", ""),
        (parse_duration, "1e30s", ""),
        (parse_duration, "1e999999s", ""),
        (parse_duration, "1e-999999999s", ""),
        (parse_duration, "1e" + "9" * 30 + "s", ""),
        (parse_duration, "1.0000000000000000000000000000001s", ""),
        (parse_rate, "9" * 10_000 + "bps", ""),
        (parse_fraction, "1e999999%", ""),
        (parse_fraction, "1e-" + "9" * 30 + "%", ""),
        (parse_bytes, "64k", "64KiB"),
        (parse_bytes, "64KB", "64kB"),
        (parse_bytes, 64, ""),
        (parse_rate, "1Gb/s", "1Gbps"),
        (parse_rate, "1gbps", "1Gbps"),
        (parse_rate, [], ""),
        (parse_fraction, 5, "5%"),
        (parse_fraction, "101%", ""),
        (parse_fraction, "1x", ""),
        (parse_fraction, False, ""),
        (parse_mtu, True, ""),
    ],
)
def test_mistakes(parse, text: object, suggestion: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert caught.value.suggestion == suggestion
