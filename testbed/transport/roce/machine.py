"""How a reliable connection works: the states of its two halves, as tables.

A *queue pair* joins two ranks. Each rank's half has a requester, which sends, and a responder, which receives; the two
know nothing of each other but that a failed requester takes the queue pair with it.

**Requester.** It gives every packet of every message the next packet sequence number (PSN), in the order of posting,
and may have a window of them unacknowledged. The last packet of a message, one that fills the window, and one in every
`ack_every` ask for an acknowledgement. The timer runs while something asked for is outstanding (WAITING); an
acknowledgement that advances restarts it, or stops it when nothing asked for is left (READY). A NAK for a gap, or the
timer, sends all from the first unacknowledged PSN again (go-back-N). An RNR NAK holds the requester for the time that
the responder named (HELD). A NAK for anything worse, or too many retries without progress, is the end (FAILED).

**Responder.** It executes a packet only if it carries the expected PSN and fits the message it is in. A packet from
ahead tells of a gap: one NAK names the expected PSN and the responder is then silent (GAP) until that PSN comes; a
packet from behind is a duplicate, which is acknowledged again and not executed. A message that begins while no receive
is posted for it gets an RNR NAK and its other packets are then ignored likewise. A packet in sequence that breaks the
protocol gets a NAK that the requester cannot recover from; the responder drops it and stays where it was.

Source: IBTA volume 1, chapter 9 (9.7.5 to 9.9), as soft-RoCE carries it out. Our readings: the timer is exact, where
IBTA allows up to four times its value; a second NAK for the PSN that is being recovered is a duplicate and has no
effect; a message is refused for want of a receive at its first packet, since its tag is there.
"""

from enum import IntEnum, auto

from testbed.wire.roce import Position, Verb


class RequesterState(IntEnum):
    """States of the sending half."""

    READY = auto()
    WAITING = auto()
    HELD = auto()
    FAILED = auto()


class Heard(IntEnum):
    """What happens to the sending half."""

    ASKED = auto()  # a packet that asks for an acknowledgement left
    PROGRESS = auto()  # an acknowledgement advanced, and more was asked for
    SETTLED = auto()  # an acknowledgement advanced, and all that was asked for is there
    GAP = auto()  # NAK: PSN sequence error
    NOT_READY = auto()  # RNR NAK
    REFUSED = auto()  # NAK: invalid request, remote access or operational error
    EXPIRED = auto()  # the timer ran out


class Action(IntEnum):
    """What the sending half then does."""

    NOTHING = auto()
    START_TIMER = auto()
    STOP_TIMER = auto()
    GO_BACK = auto()
    RETRY = auto()  # count a timeout and go back
    HOLD = auto()
    RESUME = auto()
    FAIL = auto()


# What is not here cannot happen: READY has nothing asked for and no timer, HELD sends nothing, FAILED hears nothing.
REQUESTER: dict[tuple[RequesterState, Heard], tuple[RequesterState, Action]] = {
    (RequesterState.READY, Heard.ASKED): (RequesterState.WAITING, Action.START_TIMER),
    (RequesterState.READY, Heard.SETTLED): (RequesterState.READY, Action.NOTHING),
    (RequesterState.READY, Heard.GAP): (RequesterState.READY, Action.GO_BACK),
    (RequesterState.READY, Heard.NOT_READY): (RequesterState.HELD, Action.HOLD),
    (RequesterState.READY, Heard.REFUSED): (RequesterState.FAILED, Action.FAIL),
    (RequesterState.WAITING, Heard.ASKED): (RequesterState.WAITING, Action.NOTHING),
    (RequesterState.WAITING, Heard.PROGRESS): (RequesterState.WAITING, Action.START_TIMER),
    (RequesterState.WAITING, Heard.SETTLED): (RequesterState.READY, Action.STOP_TIMER),
    (RequesterState.WAITING, Heard.GAP): (RequesterState.READY, Action.GO_BACK),
    (RequesterState.WAITING, Heard.NOT_READY): (RequesterState.HELD, Action.HOLD),
    (RequesterState.WAITING, Heard.REFUSED): (RequesterState.FAILED, Action.FAIL),
    (RequesterState.WAITING, Heard.EXPIRED): (RequesterState.READY, Action.RETRY),
    (RequesterState.HELD, Heard.PROGRESS): (RequesterState.HELD, Action.NOTHING),
    (RequesterState.HELD, Heard.SETTLED): (RequesterState.HELD, Action.NOTHING),
    (RequesterState.HELD, Heard.GAP): (RequesterState.HELD, Action.NOTHING),
    (RequesterState.HELD, Heard.NOT_READY): (RequesterState.HELD, Action.NOTHING),
    (RequesterState.HELD, Heard.REFUSED): (RequesterState.FAILED, Action.FAIL),
    (RequesterState.HELD, Heard.EXPIRED): (RequesterState.READY, Action.RESUME),
}


class ResponderState(IntEnum):
    """States of the receiving half."""

    LISTENING = auto()
    GAP = auto()  # a NAK was sent, and what it asked for has not come


class Met(IntEnum):
    """How a packet stands to what the receiving half expects."""

    EXPECTED = auto()  # in sequence, and fits
    AHEAD = auto()
    BEHIND = auto()
    UNPOSTED = auto()  # in sequence, but no receive is posted
    BROKEN = auto()  # in sequence, but against the protocol


class Reaction(IntEnum):
    """What the receiving half does with it."""

    EXECUTE = auto()
    NAK_SEQUENCE = auto()
    NAK_NOT_READY = auto()
    NAK_REFUSED = auto()
    IGNORE = auto()
    ACKNOWLEDGE_AGAIN = auto()


RESPONDER: dict[tuple[ResponderState, Met], tuple[ResponderState, Reaction]] = {
    (ResponderState.LISTENING, Met.EXPECTED): (ResponderState.LISTENING, Reaction.EXECUTE),
    (ResponderState.LISTENING, Met.AHEAD): (ResponderState.GAP, Reaction.NAK_SEQUENCE),
    (ResponderState.LISTENING, Met.BEHIND): (ResponderState.LISTENING, Reaction.ACKNOWLEDGE_AGAIN),
    (ResponderState.LISTENING, Met.UNPOSTED): (ResponderState.GAP, Reaction.NAK_NOT_READY),
    (ResponderState.LISTENING, Met.BROKEN): (ResponderState.LISTENING, Reaction.NAK_REFUSED),
    (ResponderState.GAP, Met.EXPECTED): (ResponderState.LISTENING, Reaction.EXECUTE),
    (ResponderState.GAP, Met.AHEAD): (ResponderState.GAP, Reaction.IGNORE),
    (ResponderState.GAP, Met.BEHIND): (ResponderState.GAP, Reaction.ACKNOWLEDGE_AGAIN),
    (ResponderState.GAP, Met.UNPOSTED): (ResponderState.GAP, Reaction.NAK_NOT_READY),
    (ResponderState.GAP, Met.BROKEN): (ResponderState.GAP, Reaction.NAK_REFUSED),
}

# Which packets may follow: by the verb of the message that is under way (None: between messages), those that begin one
# or go on with it. Source: IBTA 9.7.4.1.2, valid sequences of opcodes.
FOLLOWS: dict[Verb | None, frozenset[tuple[Verb, Position]]] = {
    None: frozenset((verb, position) for verb in Verb for position in (Position.FIRST, Position.ONLY)),
    Verb.SEND: frozenset({(Verb.SEND, Position.MIDDLE), (Verb.SEND, Position.LAST)}),
    Verb.WRITE: frozenset({(Verb.WRITE, Position.MIDDLE), (Verb.WRITE, Position.LAST)}),
}
