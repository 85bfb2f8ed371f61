"""The first signal ends a run in good order; none cuts its clean-up short; afterwards all is as before."""

import os
import signal
from collections.abc import Iterator

import pytest

from testbed.errors import Interrupted
from testbed.run.interrupts import SIGNALS, interruptible, uninterrupted


@pytest.fixture(autouse=True)
def _handlers_stay() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_becomes_an_error_of_its_name(number: signal.Signals) -> None:
    with pytest.raises(Interrupted, match=f"interrupted by {number.name}") as caught, interruptible():
        os.kill(os.getpid(), number)
    assert caught.value.exit_status == 130


def test_only_the_first_counts() -> None:
    survived = []

    def press_twice() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            for number in SIGNALS:
                os.kill(os.getpid(), number)
                survived.append(number)

    with pytest.raises(Interrupted, match="SIGINT"), interruptible():
        press_twice()
    assert survived == list(SIGNALS)


def test_clean_up_is_not_interrupted() -> None:
    done = False
    with uninterrupted():
        for number in SIGNALS:
            os.kill(os.getpid(), number)
        done = True
    assert done
