"""Builds the native core and puts the shipped folders into the package; all else is in pyproject.toml."""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

CORE = Path("testbed/netcore")
SHARING = CORE / "sharing"
RUNTIME = Path("testbed/dataplane/native/runtime")  # of switch programs, which the core hosts
SHARED_HEADERS = (RUNTIME / "abi.h", RUNTIME / "crc32.h")
# Calls between files need no table, and structs written field by field are not read at once in pieces twice as wide,
# for which the processor has to wait until they are written.
OPTIMISED = ("-O3", "-fvisibility=hidden", "-fno-tree-slp-vectorize")
SHARED_FOLDERS = ("controller", "experiments", "p4")  # found again by `testbed.resources`


class BuildWithShared(build_py):
    """Copies the folders beside the package in a checkout into the wheel, and leaves an earlier build out."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "testbed"), ignore_errors=True)
        super().run()
        if not self.editable_mode:
            for name in filter(os.path.isdir, SHARED_FOLDERS):
                target = Path(self.build_lib, "testbed", "share", name)
                shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__"))


setup(
    cmdclass={"build_py": BuildWithShared},
    ext_modules=[
        Extension(
            "testbed.netcore._core",
            sources=sorted(str(path) for path in CORE.glob("*.c")),
            depends=sorted(str(path) for path in (*SHARED_HEADERS, *CORE.glob("*.h"))),
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-std=c11", *OPTIMISED, "-Wall", "-Wextra"],
        ),
        Extension(
            "testbed.netcore._sharing",
            sources=sorted(str(path) for path in SHARING.glob("*.c")),
            depends=[str(SHARING / "sharing.h")],
            extra_compile_args=["-std=c11", *OPTIMISED, "-Wall", "-Wextra"],
        ),
    ],
)
