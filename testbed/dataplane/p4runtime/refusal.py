"""What a client is refused, with the canonical code of gRPC that says why."""

from collections.abc import Iterator
from contextlib import contextmanager

from grpc import StatusCode

from testbed.dataplane.native.control import ControlError

# Of each `loader.STATUS`, in its order.
_CODES = (
    StatusCode.INVALID_ARGUMENT,  # refused before the switch was asked
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.NOT_FOUND,
    StatusCode.ALREADY_EXISTS,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.PERMISSION_DENIED,
    StatusCode.INVALID_ARGUMENT,
)


class Refusal(Exception):
    """A request, or an update of one, that is not carried out."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def number(self) -> int:
        """The code as `google.rpc.Code` has it."""
        number: int = self.code.value[0]
        return number


def invalid(message: str) -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, message)


def missing(message: str) -> Refusal:
    return Refusal(StatusCode.NOT_FOUND, message)


def unsupported(what: str) -> Refusal:
    return Refusal(StatusCode.UNIMPLEMENTED, f"{what}: not supported by this switch")


@contextmanager
def refusing() -> Iterator[None]:
    """What the switch itself refuses inside is a Refusal."""
    try:
        yield
    except ControlError as error:
        raise Refusal(_CODES[error.status], str(error)) from error
