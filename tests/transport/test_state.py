"""What queue pairs hold, counted from the endpoints' own attributes."""

import inspect
from importlib import import_module

import pytest

from testbed.transport import TRANSPORTS
from testbed.transport.state import STATES, state_bytes

PUBLISHED = {
    name: {parameter.name: parameter.default for parameter in TRANSPORTS[name].parameters}
    for name in STATES
    if name in TRANSPORTS
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_counted_is_there(name: str) -> None:
    """Each attribute is one that its class sets or declares."""
    for field in STATES[name](PUBLISHED[name]):
        module, holder = f"testbed.transport.{field.holder}".rsplit(".", 1)
        source = inspect.getsource(getattr(import_module(module), holder))
        for attribute in field.attributes.split():
            lines = [line.strip() for line in source.splitlines()]
            assert any(
                line.startswith((f"self.{attribute}", f"{attribute}:")) or f"= self.{attribute}" in line
                for line in lines
            ), f"{holder} has no {attribute}"


def test_optinic_is_of_the_class_that_the_paper_gives_it_and_the_others_hold_more() -> None:
    """Its paper says 52 B, of which 32 are DCQCN's (a reading note); 407 B of RoCE have what ours has no use for."""
    count = {name: state_bytes(name, values) for name, values in PUBLISHED.items()}
    optinic = count["optinic"]
    assert optinic is not None
    assert 52 <= optinic < 60
    assert all(one is not None and one >= 1.5 * optinic for name, one in count.items() if name != "optinic")
    assert state_bytes("tcp", {}) is None


def test_dcqcn_has_what_the_paper_gives_it() -> None:
    of_dcqcn = [
        field for field in STATES["optinic"]({}) if "dcqcn" in field.holder or field.attributes == "_departed_ns"
    ]
    assert sum(field.bits * field.times for field in of_dcqcn) == 8 * 32
