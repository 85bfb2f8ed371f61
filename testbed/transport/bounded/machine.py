"""How a message with a bound on its loss gets across: the states of its sender, as a table.

A message is cut into chunks, each of which says where it belongs, so that their order does not matter. The receiver
keeps what comes and is content once so much of the message is there as its bound demands: it then says STOP, and
completes the receive with what is missing. The sender sends every chunk that it does not know to be there (SENDING),
then a PROBE (PROBING). The receiver answers with STOP if it is content, else with the BITMAP of what it has; the sender
sends the holes again and so on, until STOP. A bound of 0 makes it a reliable transport without order.

PROBE and its answers are idempotent. They may be lost as any packet: the sender repeats a PROBE by a timer (RFC 6298's,
which doubles), and the receiver repeats STOP whenever it hears of a message that it is done with. A PROBE that nobody
answers so many times in a row ends the message (FAILED) and, since a bound that is not kept must not pass in silence,
the run.

Where a BITMAP tells nothing new although holes were sent again, they may still be on their way: `patience` is how many
such answers in a row are only followed by another PROBE, before the holes are sent anyway.

Source: MLT (NSDI 2024) and, of `patience`, the public repository of DBLP's authors. Our reading: there STOP and BITMAP
go over a connection of their own that is reliable; here they are repeated.
"""

from enum import IntEnum, auto


class Sending(IntEnum):
    """States of a message at its sender."""

    SENDING = auto()
    PROBING = auto()
    DONE = auto()
    FAILED = auto()


class Told(IntEnum):
    """What happens to it."""

    ALL_SENT = auto()  # no hole that it knows of is left to send
    NEWS = auto()  # a BITMAP with chunks that were not known to be there, or its patience is at its end
    NO_NEWS = auto()  # a BITMAP without
    STOP = auto()
    UNANSWERED = auto()  # the timer ran out
    GIVEN_UP = auto()  # the timer ran out once too often


class Act(IntEnum):
    """What its sender then does."""

    PROBE = auto()
    RESEND = auto()
    FINISH = auto()
    FAIL = auto()


# What is not here changes nothing: a BITMAP that comes while chunks are sent is older than they are.
SENDER: dict[tuple[Sending, Told], tuple[Sending, Act]] = {
    (Sending.SENDING, Told.ALL_SENT): (Sending.PROBING, Act.PROBE),
    (Sending.SENDING, Told.STOP): (Sending.DONE, Act.FINISH),
    (Sending.PROBING, Told.STOP): (Sending.DONE, Act.FINISH),
    (Sending.PROBING, Told.NEWS): (Sending.SENDING, Act.RESEND),
    (Sending.PROBING, Told.NO_NEWS): (Sending.PROBING, Act.PROBE),
    (Sending.PROBING, Told.UNANSWERED): (Sending.PROBING, Act.PROBE),
    (Sending.PROBING, Told.GIVEN_UP): (Sending.FAILED, Act.FAIL),
}
