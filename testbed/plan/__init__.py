"""The plan: a spec worked out, as data; pure, so that it can be shown, checked and carried out anywhere."""

from testbed.plan.model import Capabilities, Plan
from testbed.plan.planner import DEFAULT_CAPABILITIES, plan

__all__ = ["DEFAULT_CAPABILITIES", "Capabilities", "Plan", "plan"]
