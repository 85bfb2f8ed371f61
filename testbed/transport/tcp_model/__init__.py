"""TCP as a model, for simulation, where there is no kernel: a sans-IO endpoint behind the seam of `transport.endpoint`.

What it has of the kernel's: a byte stream with cumulative acknowledgements, slow start from ten segments (RFC 6928),
NewReno's fast retransmit and recovery (RFC 5681, 6582), CUBIC (RFC 9438) or NewReno's growth, the retransmission timer
of RFC 6298 with Linux's least (200 ms above the smoothed round trip) and backoff, restart after idling, 32 bytes of
TCP header (with timestamps) in frames as long as TCP's.

What it has not: SACK, RACK and tail loss probes (Linux recovers from several losses of a window in fewer round trips
than this), HyStart, delayed acknowledgements (whatever comes is acknowledged at once, data of the other direction
carrying it), TSO bursts beyond what a window lets go, window scaling (the buffer is fixed), connection set-up (ranks
are connected before the first iteration, as emulated ones are), and any CPU time.
"""

from testbed.transport.kind import Transport
from testbed.transport.tcp_model.endpoint import TcpEndpoint
from testbed.transport.tcp_model.parameters import PARAMETERS
from testbed.transport.tcp_model.segment import FRAMING

TCP = Transport("tcp", "the kernel's TCP; in simulation a model of it", PARAMETERS, model=TcpEndpoint, framing=FRAMING)

__all__ = ["FRAMING", "TCP", "TcpEndpoint"]
