"""Runs the C tests of the native core under the address and undefined-behaviour sanitizers, warnings being errors."""

import re
import subprocess
from pathlib import Path

import pytest

SOURCES = [Path(__file__).with_name("core_test.c"), Path(__file__).with_name("traffic_test.c")]
CORE = Path(__file__).parents[2] / "testbed" / "netcore"
BINDING = {"module.c", *(path.name for path in CORE.glob("*_type.c"))}
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
TESTS = [
    (source.stem, name)
    for source in SOURCES
    for name in re.findall(r"^    TEST\((\w+)\)", source.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("core")
    core = [str(path) for path in sorted(CORE.glob("*.c")) if path.name not in BINDING]
    for source in SOURCES:
        output = ["-o", str(target / source.stem)]
        command = ["gcc", *FLAGS, *SANITIZERS, f"-I{CORE}", str(source), *core, "-lm", *output]
        result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert result.returncode == 0, result.stderr
    return target


@pytest.mark.parametrize(("program", "name"), TESTS)
def test_core(programs: Path, program: str, name: str) -> None:
    command = [str(programs / program), name]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
