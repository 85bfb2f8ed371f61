"""Congestion controls, one file each, registered here."""

from collections.abc import Mapping

from testbed.transport.congestion.control import Congestion, CongestionControl
from testbed.transport.congestion.dcqcn import DCQCN, DCQCN_CONNECTX
from testbed.transport.congestion.none import NONE

CONGESTIONS: Mapping[str, Congestion] = {control.name: control for control in (NONE, DCQCN, DCQCN_CONNECTX)}

__all__ = ["CONGESTIONS", "Congestion", "CongestionControl"]
