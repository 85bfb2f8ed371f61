"""Runs the C tests of the native core under the address and undefined-behaviour sanitizers, warnings being errors."""

import re
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("core_test.c")
CORE = Path(__file__).parents[2] / "testbed" / "netcore"
BINDING = {"module.c", "fabric_type.c", "switch_type.c"}
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
TESTS = re.findall(r"^    TEST\((\w+)\)", SOURCE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("core") / "core_test"
    sources = [str(path) for path in sorted(CORE.glob("*.c")) if path.name not in BINDING]
    command = ["gcc", *FLAGS, *SANITIZERS, f"-I{CORE}", str(SOURCE), *sources, "-lm", "-o", str(target)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return target


@pytest.mark.parametrize("name", TESTS)
def test_core(program: Path, name: str) -> None:
    result = subprocess.run([str(program), name], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
