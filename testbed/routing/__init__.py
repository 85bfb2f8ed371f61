"""Routing: a graph becomes forwarding entries per switch, and others for when cables are down."""

from testbed.routing.addressing import Addressing, Subnet, assign
from testbed.routing.model import Alternate, Entry, SwitchPlan
from testbed.routing.router import Router

__all__ = ["Addressing", "Alternate", "Entry", "Router", "Subnet", "SwitchPlan", "assign"]
