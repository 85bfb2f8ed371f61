"""A job as messages: what an iteration moves, as frames, and the links that each pair of ranks uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.plan.framing import Framing
from testbed.plan.predict import buffers, schedule_of
from testbed.simulation.messages.dependencies import Messages, messages, together
from testbed.simulation.messages.flows import Frames
from testbed.simulation.messages.routes import Routes
from testbed.spec.model import JobSpec
from testbed.transport.roce.address import source_port
from testbed.wire.roce import UDP_PORT

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobMessages:
    """One iteration. pair: by message, which of the pairs (source and target: hosts by number) it goes between.

    port: by pair, the UDP source port of its queue pair.
    """

    messages: Messages
    frames: Frames
    steps: int
    pair: Ints
    source: Ints
    target: Ints
    port: Ints

    def paths(self, routes: Routes) -> Ints:
        """The links of each pair."""
        return routes.paths(self.source, self.target, self.port, UDP_PORT)


def job_messages(job: JobSpec, hosts: Sequence[int], seed: int, framing: Framing) -> JobMessages:
    """Of a job whose ranks are on `hosts`; `seed` is the job's."""
    schedule = schedule_of(job)
    assert schedule is not None  # testbed.spec.message_checks
    assert job.workload is not None
    made = together([messages(schedule, elements, each) for elements, each in buffers(job.workload)])
    ranks = len(hosts)
    pairs, pair = np.unique(made.source * ranks + made.destination, return_inverse=True)
    source, target = np.divmod(pairs, ranks)
    ends = zip(source.tolist(), target.tolist(), strict=True)
    port = np.array([source_port(one, other, ranks, seed) for one, other in ends], np.int64)
    host = np.asarray(hosts, np.int64)
    frames = frames_of(made.size_bytes, framing)
    return JobMessages(made, frames, schedule.steps, pair.reshape(-1), host[source], host[target], port)


def frames_of(size_bytes: Ints, framing: Framing) -> Frames:
    """Messages of these sizes as the transport frames them."""
    sizes, which = np.unique(size_bytes, return_inverse=True)
    each = [
        (
            framing.wire_bytes(s),
            framing.first_packet_bytes(s),
            framing.last_packet_bytes(s),
            framing.acknowledgements(s) * framing.ack_bytes / framing.wire_bytes(s),
        )
        for s in sizes.tolist()
    ]
    whole, first, last, returning = np.ascontiguousarray(np.array(each, float).reshape(-1, 4)[which.reshape(-1)].T)
    return Frames(whole, first, last, returning, framing.ack_bytes)
