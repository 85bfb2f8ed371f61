"""What a NIC would have to hold of one queue pair, field by field: the state of our own endpoints, packed and counted.

The rules, the same for all transports. What counts is what an endpoint of ours holds for each pair of ranks and a NIC
would have to as well, both directions together: who the peer is, where sending and receiving are, timers, what answers
are due, and, for each packet of the window, what is held of it. What does not count: constants; what is in the host's
memory, which are the work queue's elements (address, length, tag, and of OptiNIC `wqe_seq` and the timeout) and posted
receives; and what only we want to know (counters, and OptiNIC's map of what came, where a NIC has zeros in memory).
Widths: numbers of packets and queue pairs 24 bits, bytes, instants and rates 32, `wqe_seq` 32, index of a work queue's
element or of an address 16, a fraction 16, retries 3 (IBTA), small counts 8, a flag 1. DCQCN is each one's congestion
control, but of the Falcon-like transport, which has Swift for each path, and of NDP, which has none.

The paper says 52 B for OptiNIC (20 and 32 of DCQCN) and 407 B for RoCE (a reading note of arXiv 2512.22743). What is in
its 407 B is not known to us: a RoCE NIC holds much that ours has no use for (atomics, READ, shared queues, protection),
so that ours is smaller. `window` and `paths` are those of the transport's table.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from testbed.transport.parameters import Values, whole

_PACKET, _BYTES, _INSTANT, _RATE, _INDEX, _FRACTION, _SEQUENCE = 24, 32, 32, 32, 16, 16, 32
_RETRIES, _COUNT, _FLAG = 3, 8, 1
_FIRST_LABEL = 2  # of four paths


class Field(NamedTuple):
    """So many bits, which `holder` (a class of ours) has as `attributes`; `times`: so often in one queue pair."""

    holder: str
    attributes: str
    bits: int
    times: int = 1


State = tuple[Field, ...]

_WHO = (
    Field("roce.address.Address", "remote_qp", _PACKET),
    Field("roce.address.Address", "peer source_port", _INDEX),  # an entry of the NIC's table of addresses
)
_DCQCN = (
    Field("congestion.dcqcn.Dcqcn", "_rate_bps _target_bps", _RATE, 2),
    Field("congestion.dcqcn.Dcqcn", "_alpha", _FRACTION),
    Field("congestion.dcqcn.Dcqcn", "_alpha_at_ns _next_increase_ns _next_cnp_ns", _INSTANT, 3),
    Field("congestion.dcqcn.Dcqcn", "_timer_stage _byte_stage", _COUNT, 2),
    Field("congestion.dcqcn.Dcqcn", "_bytes", _BYTES),
)
_SWIFT = (
    Field("congestion.swift.Swift", "_window", _RATE),
    Field("congestion.swift.Swift", "_rtt_ns _decreased_ns", _INSTANT, 2),
    Field("congestion.swift.Swift", "_timeouts", _RETRIES),
)


def _optinic(_: Values) -> State:
    sender, receiver = "optinic.sender.Sender", "optinic.receiver.Receiver"
    return (
        *_WHO,
        Field(sender, "_messages", _INDEX),  # of the element that is being sent
        Field("optinic.sender._Message", "at", _PACKET),
        Field(sender, "_next", _PACKET),
        Field(sender, "_departed_ns", _INSTANT),
        Field(receiver, "_sequence", _SEQUENCE),
        Field("optinic.receiver.Receive", "bytes", _BYTES),
        Field("optinic.endpoint.OptinicEndpoint", "_timers", _INSTANT),  # of the active message
        Field("optinic.queue_pair.QueuePair", "notify", _FLAG),
        *_DCQCN,
    )


def _roce(_: Values) -> State:
    requester, responder, incoming = (
        "roce.requester.Requester", "roce.responder.Responder", "roce.responder._Incoming",
    )  # fmt: skip
    return (
        *_WHO,
        Field(requester, "_messages _current", _INDEX, 2),  # of the oldest element, and of the one being sent
        Field("roce.requester._Message", "first", _PACKET),
        Field(requester, "_unacknowledged _next _highest _asked _recovering", _PACKET, 5),
        Field(requester, "_timer_ns _departed_ns", _INSTANT, 2),
        Field(requester, "_retries _rnr_retries state", _RETRIES, 3),
        Field(responder, "_expected _messages", _PACKET, 2),
        Field(responder, "_incoming", _INDEX),
        Field(incoming, "first length filled", _BYTES, 3),
        Field(responder, "_since_acknowledged _nak", _COUNT, 2),
        Field(responder, "_acknowledge _state", _FLAG, 2),
        Field("roce.endpoint._QueuePair", "notify", _FLAG),
        *_DCQCN,
    )


_OUTBOX = (
    Field("selective.outbox.Outbox", "acknowledged next", _PACKET, 2),
    Field("selective.outbox.Outbox", "_messages", _INDEX, 2),  # of the oldest element, and of the one being sent
    Field("selective.outbox.Outgoing", "first", _PACKET),
)
_INBOX = (
    Field("selective.inbox.Inbox", "expected", _PACKET),
    Field("selective.inbox.Inbox", "_incoming", _INDEX),
    Field("selective.inbox._Incoming", "first left", _PACKET, 2),
    Field("selective.inbox._Incoming", "length", _BYTES),
)


def _srnic(_: Values) -> State:
    """Bitmaps are in the host's memory, and so is what waits for software."""
    sender, receiver, scoreboard = (
        "selective.sender.Sender", "selective.receiver.Receiver", "selective.scoreboard.Scoreboard",
    )  # fmt: skip
    return (
        *_WHO,
        *_OUTBOX,
        Field(scoreboard, "_ends _look _lost _highest", _PACKET, 4),
        Field(sender, "_asked", _PACKET),
        Field(sender, "_heard_ns _silent_ns _held_ns", _INSTANT, 3),
        Field("selective.pacing.Pacer", "_departed_ns", _INSTANT),
        Field(sender, "_held", _RETRIES),
        *_INBOX,
        Field(receiver, "_since_answered", _COUNT),
        Field(receiver, "_answer_ns _not_ready_ns", _INSTANT, 2),
        Field(receiver, "_refused", _COUNT),
        Field(receiver, "_owed", _PACKET),  # one at a time
        Field("selective.halves.HalvedConnection", "_notify", _FLAG),
        *_DCQCN,
    )


def _irn(values: Values) -> State:
    window = whole(values, "window")
    bitmaps = (
        Field("selective.scoreboard.Scoreboard", "have", 1, window),
        Field("selective.inbox.Inbox", "ahead", 1, window),
    )
    return (*_srnic(values), *bitmaps)


def _falcon(values: Values) -> State:
    window, paths = whole(values, "window"), whole(values, "paths")
    sender, receiver, path = "falcon.sender.FalconSender", "falcon.receiver.FalconReceiver", "falcon.paths.FlowPath"
    flight, owed = "falcon.flights.Flight", "falcon.receiver._Owed"
    of_a_path = (
        Field(path, "sent there", _PACKET, 2),
        Field(path, "delivered unasked turns _samples _congested _rounds", _COUNT, 6),
        Field(path, "rtt_ns smoothed_ns _round_ends_ns", _INSTANT, 3),
        Field(path, "_virtual", _BYTES),
        Field("selective.pacing.Pacer", "_departed_ns", _INSTANT),
        Field(owed, "packets", _COUNT),
        Field(owed, "due_ns t1 came_ns", _INSTANT, 3),
        Field(owed, "marked", _FLAG),
        *_SWIFT,
    )
    return (
        *_WHO,
        *_OUTBOX,
        Field(flight, "path", _FIRST_LABEL, window),
        Field(flight, "place", _PACKET, window),
        Field(flight, "left_ns", _INSTANT, window),
        Field(flight, "again", _RETRIES, window),
        Field("falcon.flights.Flights", "_flying _lost", 1, 2 * window),
        Field(sender, "_heard_ns _early_ns _held_ns _expired_ns", _INSTANT, 4),
        Field(sender, "_timeouts _held", _RETRIES, 2),
        Field(sender, "_probed", _FLAG),
        *_INBOX,
        Field("selective.inbox.Inbox", "ahead", 1, window),
        Field(receiver, "_refused", _COUNT),
        Field(receiver, "_not_ready_ns", _INSTANT),
        *(field._replace(times=field.times * paths) for field in of_a_path),
    )


def _ndp(values: Values) -> State:
    """Of its share of the host's pull queue, the turn that it has there."""
    window, first = whole(values, "window"), whole(values, "first_window")
    sender, receiver = "ndp.sender.NdpSender", "ndp.receiver.NdpReceiver"
    return (
        *_WHO,
        *_OUTBOX,
        Field(sender, "_flying", _PACKET + _INSTANT, first),
        Field(sender, "_flying _lost", 1, 2 * window),
        Field(sender, "_pulled _credit _unasked", _INDEX, 3),
        Field(sender, "_heard_ns _turn_ns _expired_ns _held_ns", _INSTANT, 4),
        Field(sender, "_timeouts _held", _RETRIES, 2),
        Field("ndp.spraying.Spray", "_left", _INDEX),  # where in an order that can be worked out
        *_INBOX,
        Field("selective.inbox.Inbox", "ahead", 1, window),
        Field(receiver, "_pulled _target _worth", _INDEX, 3),
        Field(receiver, "waits _untold_ns", _FLAG, 2),
        Field(receiver, "_refused", _COUNT),
        Field(receiver, "_not_ready_ns", _INSTANT),
        Field(receiver, "_owed", _PACKET + _FLAG),  # one at a time
        Field("ndp.pulls.PullQueue", "_turns", _INDEX),
    )


STATES: Mapping[str, Callable[[Values], State]] = {
    "roce": _roce,
    "irn": _irn,
    "srnic": _srnic,
    "falcon": _falcon,
    "ndp": _ndp,
    "optinic": _optinic,
}


def state_bytes(name: str, values: Values) -> int | None:
    """Of one queue pair of that transport with these values; None: it is not counted."""
    count = STATES.get(name)
    return None if count is None else -(-sum(field.bits * field.times for field in count(values)) // 8)
