"""Congestion controls, one file each, registered here."""

from collections.abc import Mapping

from testbed.transport.congestion.control import Congestion, CongestionControl
from testbed.transport.congestion.dcqcn import DCQCN, DCQCN_CONNECTX
from testbed.transport.congestion.dctcp import DCTCP
from testbed.transport.congestion.none import NONE
from testbed.transport.congestion.nscc import NSCC
from testbed.transport.congestion.swift import SWIFT
from testbed.transport.congestion.timely import TIMELY, TIMELY_ORIGINAL
from testbed.transport.congestion.timely_optireduce import TIMELY_OPTIREDUCE

CONGESTIONS: Mapping[str, Congestion] = {
    control.name: control
    for control in (
        NONE,
        DCQCN,
        DCQCN_CONNECTX,
        TIMELY,
        TIMELY_ORIGINAL,
        TIMELY_OPTIREDUCE,
        SWIFT,
        DCTCP,
        NSCC,
    )
}

__all__ = ["CONGESTIONS", "Congestion", "CongestionControl"]
