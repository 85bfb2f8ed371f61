"""Threads that are asked to end: in time, or it is said which did not."""

import threading

ENDS_S = 10.0  # for a loop that looks after each packet whether it is to end


def join(thread: threading.Thread, limit_s: float = ENDS_S) -> None:
    """Wait until a thread has ended; raises TimeoutError, which says its name."""
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError(f"the {thread.name}'s thread did not end within {limit_s:g} s of being told to")
