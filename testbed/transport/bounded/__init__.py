"""The machine that transports with a bound on their loss share; `machine` tells how it works.

`bitmap` has the chunks of a message, `outgoing` and `incoming` one message at either end, `flow` all between two
ranks, `feedback` what a congestion control hears, `endpoint` the whole of a rank. What such transports differ in is a
`dialect`.
"""

from testbed.transport.bounded.dialect import Dialect, Treatment
from testbed.transport.bounded.endpoint import BoundedEndpoint, Making
from testbed.transport.bounded.flow import Limits

__all__ = ["BoundedEndpoint", "Dialect", "Limits", "Making", "Treatment"]
