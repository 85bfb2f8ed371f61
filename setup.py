"""Builds the native core; everything else about the package is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

CORE = Path("testbed/netcore")

setup(
    ext_modules=[
        Extension(
            "testbed.netcore._core",
            sources=sorted(str(path) for path in CORE.glob("*.c")),
            depends=sorted(str(path) for path in CORE.glob("*.h")),
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra"],
        )
    ]
)
