"""Messages on a small network, by hand: a star of equal links, or any paths over any links."""

from collections.abc import Mapping, Sequence

import numpy as np

from testbed.collective.schedule import Schedule
from testbed.plan.framing import Framing
from testbed.simulation.messages.dependencies import Messages, messages
from testbed.simulation.messages.flows import Flows, Frames
from testbed.simulation.messages.job import frames_of
from testbed.simulation.messages.network import ONE_IN, Network
from testbed.topology.graph import LinkParameters

PLAIN = Framing(payload_bytes=1000, header_bytes=0, first_bytes=0, last_bytes=0, ack_bytes=0, ack_every=64)


def frames(sizes: Sequence[int], framing: Framing) -> Frames:
    return frames_of(np.array(sizes, np.int64), framing)


def alone(sizes: Sequence[int], ranks: int) -> Messages:
    """Messages that wait for nothing: number i from rank i mod ranks; where they go is for their paths to say."""
    count = len(sizes)
    source = np.arange(count) % ranks
    nothing = np.zeros(2 * count + 1, np.int64)
    return Messages(
        source,
        (source + 1) % ranks,
        np.array(sizes),
        np.zeros(count, np.int64),
        None,
        nothing[1:],
        nothing,
        nothing[:0],
    )


def run(network: Network, flows: Flows) -> float:
    """To the end; when the last was received."""
    network.add(flows)
    while not flows.done:
        assert np.isfinite(network.next_ns), "nothing goes on"
        network.turn(np.inf)
    return float(flows.received_ns.max())


def star(ranks: int, link: LinkParameters, one_in: int = ONE_IN) -> Network:
    """Directed links 2 r (up) and 2 r + 1 (down) of rank r."""
    return Network([link] * (2 * ranks), one_in)


def on_star(
    schedule: Schedule,
    elements: int,
    framing: Framing = PLAIN,
    start_ns: Sequence[float] | None = None,
    held_ns: Mapping[tuple[int, int], int] | None = None,
) -> Flows:
    """The flows of a schedule over bytes, rank i at port i."""
    made = messages(schedule, elements, 1)
    pairs, pair = np.unique(np.stack((made.source, made.destination), axis=1), axis=0, return_inverse=True)
    paths = np.stack((2 * pairs[:, 0], 2 * pairs[:, 1] + 1), axis=1)
    start = np.zeros(schedule.ranks) if start_ns is None else np.array(start_ns, float)
    return Flows(made, frames(made.size_bytes.tolist(), framing), pair.reshape(-1), paths, start, held_ns or {})
