"""The one family of errors that Testbed raises on purpose, each with the exit status the command line ends with.

Every message names the thing and the value; `hint` names the way out. `testbed.cli` prints both and exits with
`exit_status`; anything that is not a `TestbedError` is a defect of Testbed itself.
"""

from typing import ClassVar


class TestbedError(Exception):
    """Root of all errors a user can act on."""

    exit_status: ClassVar[int] = 1
    __test__ = False  # pytest: not a test class

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RunFailed(TestbedError):
    """The run began and could not be carried through (a lost worker, a time limit, a failed start)."""


class UsageError(TestbedError):
    """The command line or the spec is wrong."""

    exit_status = 2


class MachineLacks(TestbedError):
    """This machine lacks something that is needed (root, a tool, a kernel feature)."""

    exit_status = 3


class InvalidMeasurement(TestbedError):
    """The run ended but its numbers cannot be trusted."""

    exit_status = 4


class ExpectationRefuted(TestbedError):
    """An `expect` of the spec does not hold."""

    exit_status = 5


class Interrupted(TestbedError):
    """The user ended the run (Ctrl-C or SIGTERM)."""

    exit_status = 130
