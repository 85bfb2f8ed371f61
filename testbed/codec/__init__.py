"""Codecs: what becomes of a gradient before a collective moves it, and of the result after.

`CODECS` is the registry: a codec is one file and one line here. Its `make(elements, values, seed)` is a `Coder` of one
layer, the same for all ranks; `coded_elements(elements, values)` how many elements it then has, padding included. All
are linear: the sum of what ranks encode, decoded, is the sum of their gradients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from testbed import plugins
from testbed.codec import hadamard
from testbed.errors import UsageError
from testbed.suggest import did_you_mean
from testbed.transport.parameters import Parameter, Value, Values, kind_of, problems

Numbers = npt.NDArray[Any]
NONE = "none"  # gradients move as they are: no codec
Given = str | Mapping[str, Any]  # as the spec has it: a name, or a mapping with `kind` and parameters


class Coder(Protocol):
    """Of one layer. Arrays are 1-D, of float32 or float16; iterations count from 0, warm-up included."""

    def encode(self, gradient: Numbers, iteration: int, out: Numbers) -> None:
        """Write the coded layer to `out`, which has `coded_elements`."""

    def decode(self, coded: Numbers, iteration: int, out: Numbers) -> None:
        """Write what `coded`, or a sum of such, stands for to `out`."""

    def error_bound(self, gradients: Sequence[Numbers]) -> npt.NDArray[np.float64]:
        """How far, element by element, the decoded sum of these gradients may be from the exact one."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A registered codec. `check(values)` says what is wrong with them together: (key, message), or None."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Callable[[int, Values, int], Coder]
    coded_elements: Callable[[int, Values], int]
    check: Callable[[Values], tuple[str, str] | None] = lambda _: None


CODECS: Mapping[str, Codec] = {
    codec.name: codec
    for codec in (
        Codec(
            "hadamard",
            "randomised Hadamard transform: a loss is spread over the block that it is in, and blocks over packets",
            hadamard.PARAMETERS,
            hadamard.HadamardCoder,
            hadamard.coded_elements,
            hadamard.check,
        ),
    )
}


class CodecError(UsageError):
    """A codec of the spec is wrong: `key` below `workload.codec` (empty: the codec itself)."""

    def __init__(self, key: str, message: str, hint: str = "") -> None:
        super().__init__(f"workload.codec{f'.{key}' if key else ''}: {message}", hint=hint)
        self.key = key
        self.what = message
        self.suggestion = hint


def find(name: str) -> Codec:
    """The codec called `name`, or one's own by FILE.py:NAME; raises CodecError."""
    if plugins.is_reference(name):
        try:
            own = plugins.load(name)
        except plugins.PluginError as error:
            raise CodecError("kind", error.message, error.hint) from error
        if not isinstance(own, Codec):
            raise CodecError("kind", f"{name} is not a testbed.codec.Codec")
        return own
    if name not in CODECS:
        raise CodecError(
            "kind", f"no codec is called {name!r}: there are {', '.join(CODECS)}", did_you_mean(name, CODECS)
        )
    return CODECS[name]


def settle(given: Given) -> tuple[Codec, dict[str, Value]]:
    """The codec that the spec names, and the value of each of its parameters; raises CodecError."""
    name, parameters = kind_of(given)
    codec = find(name)
    for key, (message, hint) in problems(codec.parameters, parameters).items():
        raise CodecError(key, message, hint)
    values = {
        each.name: each.parse(parameters[each.name]) if each.name in parameters else each.default
        for each in codec.parameters
    }
    if wrong := codec.check(values):
        raise CodecError(*wrong)
    return codec, values


def coded_elements(given: Given | None, elements: int) -> int:
    """How many elements a layer has on the wire; raises CodecError."""
    if given is None:
        return elements
    codec, values = settle(given)
    return codec.coded_elements(elements, values)


def written(given: Given) -> dict[str, Any]:
    """The codec in the resolved spec: every parameter."""
    codec, values = settle(given)
    return {"kind": kind_of(given)[0], **{each.name: each.written(values[each.name]) for each in codec.parameters}}
