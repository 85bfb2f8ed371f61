"""The resolved spec reads back to an equal one, and the JSON Schema takes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.spec.reader import read_experiment, read_spec
from testbed.spec.resolved import resolved_data, resolved_text
from testbed.spec.schema import json_schema

from .examples import COMMAND, JOBS, RIGHT, STRESS


@pytest.mark.parametrize("text", [RIGHT, COMMAND, JOBS, STRESS])
def test_every_point_reads_back_to_itself(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    for point in read_experiment(path).points:
        again = tmp_path / "resolved.yaml"
        again.write_text(resolved_text(point.spec))
        assert read_experiment(again).points[0].spec == point.spec


def test_quantities_are_written_with_units(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(COMMAND)
    data = resolved_data(read_spec(path))
    assert data["faults"][0]["at"] == "2ms"
    assert data["traffic"][0]["every"] == "1500ns"
    assert data["traffic"][0]["stop"] == "2min"
    assert data["faults"][0]["rate"] == "10Mbps"
    assert data["limits"] == {"wall": "10min", "stall": "30s"}
    assert "size" not in data["workload"]


def test_the_schema_knows_the_keys_and_words_of_the_spec() -> None:
    schema = json_schema()
    parts = schema["$defs"]
    assert schema["additionalProperties"] is False
    assert set(yaml.safe_load(RIGHT)) <= set(schema["properties"])
    assert parts["LinkSpec"]["properties"].keys() >= {"rate", "delay", "queue", "loss"}
    assert schema["properties"]["engine"]["enum"] == ["emulation", "simulation"]
    assert parts["SwitchesSpec"]["properties"]["kind"]["enum"] == ["auto", "ovs", "native", "bmv2"]
    assert "fat-tree" in parts["TopologySpec"]["properties"]["kind"]["anyOf"][0]["enum"]
    assert json.loads(json.dumps(schema)) == schema


def test_the_schema_takes_what_the_reader_takes() -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (RIGHT, COMMAND, JOBS, STRESS):
        assert list(validator.iter_errors(yaml.safe_load(text))) == []
    wrong = yaml.safe_load(RIGHT.replace("rate: 1Gbps", "rate: 1 gigabit").replace("mtu:", "mtu :"))
    assert list(validator.iter_errors(wrong))
