"""Runs the C tests of the native core under the address and undefined-behaviour sanitizers, warnings being errors."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.sanitizers import program

SOURCES = [Path(__file__).with_name("core_test.c"), Path(__file__).with_name("traffic_test.c")]
TESTS = [
    pytest.param(source, name, id=f"{source.stem}-{name}")
    for source in SOURCES
    for name in re.findall(r"^    TEST\((\w+)\)", source.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(("source", "name"), TESTS)
def test_core(source: Path, name: str) -> None:
    result = subprocess.run([program(source), name], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
