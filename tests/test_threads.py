"""A thread that does not end is told, and not waited for."""

import threading

import pytest

from testbed.threads import join


def test_one_that_ends_is_waited_for() -> None:
    told = threading.Event()
    thread = threading.Thread(target=told.wait, args=(60,))
    thread.start()
    told.set()
    join(thread)
    assert not thread.is_alive()


def test_one_that_goes_on_is_named() -> None:
    told = threading.Event()
    thread = threading.Thread(target=told.wait, args=(60,), name="fabric", daemon=True)
    thread.start()
    with pytest.raises(TimeoutError, match=r"^the fabric's thread did not end within 0\.01 s of being told to$"):
        join(thread, 0.01)
    told.set()
    thread.join(60)
