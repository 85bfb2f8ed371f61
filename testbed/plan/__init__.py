"""The plan: a spec worked out, as data; pure, so that it can be shown, checked and carried out anywhere.

Who only carries a plan out does not load the planner, which knows all transports.
"""

from typing import TYPE_CHECKING, Any

from testbed.plan.model import Capabilities, Plan

if TYPE_CHECKING:
    from testbed.plan.planner import DEFAULT_CAPABILITIES, plan

__all__ = ["DEFAULT_CAPABILITIES", "Capabilities", "Plan", "plan"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from testbed.plan import planner

        return getattr(planner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
