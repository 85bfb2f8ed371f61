"""Algorithms and codecs with parameters: what is right is read as it is meant, and a mistake is told where it is."""

import json
from pathlib import Path

import jsonschema
import pytest

from testbed.plan.predict import buffers, layers
from testbed.spec.model import WorkloadSpec
from testbed.spec.reader import read_spec
from testbed.spec.resolved import resolved_text
from testbed.spec.schema import json_schema

from .examples import mistakes

TEXT = """\
name: coded
engine: simulation
topology: {kind: star, hosts: 8}
workers: {count: 8}
workload:
  algorithm: {kind: tar, incast: 3}
  codec: {kind: hadamard, block: 1024, stride: 16}
  size: 100kB
"""


def read_spec_of(folder: Path, text: str, *overrides: str) -> WorkloadSpec:
    """Its workload."""
    path = folder / "spec.yaml"
    path.write_text(text)
    workload = read_spec(path, overrides).workload
    assert workload is not None
    return workload


CASES = [  # a piece of TEXT, what it becomes (§: where the mistake is told), key, in the message, suggestion
    ("kind: tar,", "kind: §tarr,", "workload.algorithm.kind", "no algorithm", "tar"),
    ("algorithm: {kind: tar, incast: 3}", "§algorithm: {incast: 3}", "workload.algorithm.kind", "is missing", ""),
    ("incast: 3", "§insact: 3", "workload.algorithm.insact", "not a parameter of tar", "incast"),
    ("incast: 3", "incast: §-1", "workload.algorithm.incast", "out of range", ""),
    ("incast: 3", "incast: §many", "workload.algorithm.incast", "not a whole number", ""),
    ("incast: 3", "§groups: 3", "workload.algorithm.groups", "it is one of tar-2d", ""),
    ("{kind: tar, incast: 3}", "§{kind: tar, incast: 8}", "workload.algorithm", "1 to 7 senders", ""),
    ("{kind: tar, incast: 3}", "§{kind: tar-2d, groups: 3}", "workload.algorithm", "one of 1, 2, 4, 8", ""),
    ("{kind: tar, incast: 3}", "{kind: §trivance}", "workload.algorithm.kind", "not supported yet", ""),
    ("{kind: tar, incast: 3}", "§[tar]", "workload.algorithm", "not text or a mapping", ""),
    ("kind: hadamard", "kind: §hadamrad", "workload.codec.kind", "no codec", "hadamard"),
    ("{kind: hadamard, block: 1024, stride: 16}", "§hadamrad", "workload.codec", "no codec", "hadamard"),
    ("block: 1024", "block: §1000", "workload.codec.block", "512 and 1024", ""),
    ("block: 1024, ", "", "workload.codec.stride", "needs a block", ""),
    ("stride: 16", "§stirde: 16", "workload.codec.stirde", "not a parameter of hadamard", "stride"),
    ("size: 100kB", "size: 100kB\n  dtype: §int32", "workload.dtype", "of floats", "float32"),
    ("size: 100kB", "size: 100kB\n  collective: all-gather", "workload.codec", "goes with allreduce, broadcast", ""),
]


@pytest.mark.parametrize(("before", "after", "key", "message", "suggestion"), CASES)
def test_a_mistake_is_told_where_it_is(
    tmp_path: Path, before: str, after: str, key: str, message: str, suggestion: str
) -> None:
    text = TEXT.replace(before, after)
    found = mistakes(tmp_path, text.replace("§", ""))
    assert [(error.key, error.suggestion) for error in found] == [(key, suggestion)]
    assert message in found[0].message
    if "§" in text:
        ahead = text[: text.index("§")].split("\n")
        assert (found[0].line, found[0].column) == (len(ahead), len(ahead[-1]) + 1)


def test_what_is_summed_up_by_switches_is_not_coded(tmp_path: Path) -> None:
    text = TEXT.replace("  algorithm: {kind: tar, incast: 3}\n", "").replace(
        "workload:", "switches: {kind: native}\ntransport: aggregation\nworkload:"
    )
    found = mistakes(tmp_path, text.replace("transport: aggregation", "transport: {kind: aggregation}"))
    assert [error.key for error in found] == ["workload.codec"]


def test_a_command_has_none(tmp_path: Path) -> None:
    text = TEXT.replace("  size: 100kB\n", "  kind: command\n  command: 'true'\n").replace(
        "  algorithm: {kind: tar, incast: 3}\n", ""
    )
    assert [error.key for error in mistakes(tmp_path, text, "engine=emulation")] == ["workload.codec"]


def test_parameters_can_be_set_and_are_left_behind_with_their_kind(tmp_path: Path) -> None:
    read = read_spec_of(tmp_path, TEXT, "workload.algorithm.incast=7")
    assert read.algorithm == {"kind": "tar", "incast": 7}
    assert (read.algorithm_name, read.algorithm_parameters) == ("tar", {"incast": 7})
    assert read_spec_of(tmp_path, TEXT, "workload.algorithm=tar-2d").algorithm_name == "tar-2d"
    assert read_spec_of(tmp_path, TEXT, "workload.algorithm.kind=tar-2d").algorithm == {"kind": "tar-2d"}
    assert read_spec_of(tmp_path, TEXT, "workload.algorithm=ring").algorithm == "ring"
    assert read_spec_of(tmp_path, TEXT, "workload.codec=").coded_by is None
    for none in ("workload.codec=none", "workload.codec.kind=none"):
        plain = read_spec_of(tmp_path, TEXT, none)
        assert plain.coded_by is None
        assert buffers(plain) == [(25_000, 4)]


def test_the_resolved_spec_has_every_parameter_of_the_codec(tmp_path: Path) -> None:
    text = TEXT.replace("{kind: hadamard, block: 1024, stride: 16}", "hadamard")
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    written = resolved_text(read_spec(path))
    path.write_text(written)
    again = read_spec(path)
    assert again.workload is not None
    assert again.workload.codec == {"kind": "hadamard", "block": 0, "stride": 1}
    assert resolved_text(again) == written


def test_the_buffers_that_move_are_the_coded_ones(tmp_path: Path) -> None:
    work = read_spec_of(tmp_path, TEXT)
    assert layers(work) == [(25_000, 4)]
    assert buffers(work) == [(25 * 1024, 4)]  # 24.4 blocks
    assert buffers(read_spec_of(tmp_path, TEXT, "workload.codec=hadamard")) == [(32_768, 4)]


OWN = """
from testbed.codec import Codec
from testbed.transport.parameters import Parameter

class Twice:
    def __init__(self, elements, values, seed):
        self.factor = values["factor"]
    def encode(self, gradient, iteration, out):
        out[:] = gradient * self.factor
    def decode(self, coded, iteration, out):
        out[:] = coded / self.factor
    def error_bound(self, gradients):
        return abs(gradients[0]) * 0.0

TWICE = Codec("twice", "of numbers, so many times as large", (Parameter("factor", "", 2, "", "ours", least=1),),
              Twice, lambda elements, values: elements)
OTHER = 3
"""


def test_a_codec_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    text = TEXT.replace("{kind: hadamard, block: 1024, stride: 16}", "{kind: 'own.py:TWICE', factor: 4}")
    work = read_spec_of(tmp_path, text)
    assert work.codec == {"kind": f"{tmp_path / 'own.py'}:TWICE", "factor": 4}
    assert buffers(work) == [(25_000, 4)]
    (found,) = mistakes(tmp_path, text.replace("factor", "fator"))
    assert (found.key, found.suggestion) == ("workload.codec.fator", "factor")
    (found,) = mistakes(tmp_path, text.replace("TWICE", "OTHER"))
    assert "is not a testbed.codec.Codec" in found.message


def test_the_schema_takes_what_is_right_and_names_what_there_is() -> None:
    schema = json_schema()
    work = {"algorithm": {"kind": "tar", "incast": 3}, "codec": "hadamard", "size": "1MiB"}
    data = {"name": "coded", "topology": {"kind": "star", "hosts": 4}, "workload": work}
    jsonschema.validate(data, schema)
    told = json.dumps(schema["$defs"]["WorkloadSpec"]["properties"])
    assert '"tar-2d"' in told
    assert '"hadamard"' in told
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "workload": {**work, "codec": "hadamrad"}}, schema)
