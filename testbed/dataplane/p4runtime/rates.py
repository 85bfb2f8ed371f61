"""Meter configurations as rates of a switch: two rates, three colours (RFC 2698), per second there and per us here."""

from finsy.proto import p4r

from testbed.dataplane.native.loader import Rates
from testbed.dataplane.p4runtime.refusal import invalid

_ENDLESS = 1 << 62  # tokens: a bucket that no stream empties
_UNLIMITED = Rates(float(_ENDLESS), float(_ENDLESS), _ENDLESS, _ENDLESS)
_PER_US = 1_000_000


def check_rates(config: p4r.MeterConfig, what: str) -> p4r.MeterConfig:
    """A copy. Raises Refusal (INVALID_ARGUMENT)."""
    if config.eburst:
        raise invalid(f"{what}: an excess burst is of single-rate meters")
    if min(config.cir, config.cburst, config.pir, config.pburst) < 0 or config.pir < config.cir:
        raise invalid(f"{what}: rates and bursts are not negative, and the peak rate is no less than the committed one")
    copy = p4r.MeterConfig()
    copy.CopyFrom(config)
    return copy


def rates_of(config: p4r.MeterConfig | None) -> Rates:
    """None: everything is green."""
    if config is None:
        return _UNLIMITED
    return Rates(config.cir / _PER_US, config.pir / _PER_US, config.cburst, config.pburst)
