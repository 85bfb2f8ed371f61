"""When too much is lost: the update is left out, and after some in a row the run ends.

That there are such safeguards is the paper's, by a reading note; the thresholds are our choice.
"""

from testbed.transport.ubt.parameters import Constants


class Safeguard:
    """Looks at each collective as a whole, as this rank saw it."""

    def __init__(self, constants: Constants) -> None:
        self.skips = False  # the update of the last one is to be left out
        self._share = constants.skip
        self._halt = constants.halt
        self._in_a_row = 0

    def ended(self, expected_bytes: int, missing_bytes: int) -> str | None:
        """Why the run has to end, if it has to."""
        self.skips = bool(self._share) and missing_bytes > self._share * expected_bytes
        self._in_a_row = self._in_a_row + 1 if self.skips else 0
        if not self._halt or self._in_a_row < self._halt:
            return None
        lost = missing_bytes / expected_bytes
        return (
            f"{self._in_a_row} updates in a row had lost more than {self._share:.3g} of their bytes (the last one "
            f"{lost:.3g}): transport.halt ends the run"
        )
