"""Which datapath Open vSwitch has is the plan's to say; one that does not load is said so, with the way out."""

from pathlib import Path

import pytest

from testbed.emulation import switches
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks


def test_a_kernel_datapath_that_does_not_load(state: RunState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured for another boot or in a container without modprobe: no traceback, whichever."""
    monkeypatch.setattr(switches, "_KERNEL_MODULE", tmp_path / "openvswitch")
    monkeypatch.setattr(switches, "_MODPROBE", (str(tmp_path / "modprobe"), "openvswitch"))
    with pytest.raises(MachineLacks, match="kernel datapath") as caught:
        switches.OpenVSwitch(state, tmp_path, "tb-none00", "kernel").start()
    assert "doctor --again" in caught.value.hint
    assert "datapath: user" in caught.value.hint
