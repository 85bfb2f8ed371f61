"""What a P4 program compiles to: BMv2 JSON, P4Info, and what is said of it besides."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from testbed.dataplane.diagnostics import Diagnostic


class P4Info(NamedTuple):
    """`text` in protobuf's text format, `binary` for `P4Info.FromString`."""

    text: str
    binary: bytes


class Compiled:
    """`text` is BMv2 JSON as a file has it, `json` the same as data; `warnings` is what was said besides."""

    def __init__(self, text: bytes, p4info: P4Info, warnings: tuple["Diagnostic", ...] = ()) -> None:
        self.text = text
        self.p4info = p4info
        self.warnings = warnings

    @cached_property
    def json(self) -> dict[str, Any]:
        import json  # only here: who puts the text into a file needs none of it

        document: dict[str, Any] = json.loads(self.text)
        return document
