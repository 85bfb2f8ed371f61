"""`FILE.py:NAME`: one's own topology, transport, algorithm or codec in a spec, without a fork."""

import importlib.util
import os.path
import re
from pathlib import Path

from testbed.errors import UsageError

MODULES = "testbed_plugin_"  # how their names begin
_REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


class PluginError(UsageError):
    """The file cannot be loaded or has no such name."""


def is_reference(text: str) -> bool:
    """Whether `text` has the form FILE.py:NAME."""
    return _REFERENCE.fullmatch(text) is not None


def load(reference: str) -> object:
    """What NAME is in FILE.py (relative to the current folder); raises PluginError."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise PluginError(f"{reference!r} is not of the form FILE.py:NAME", hint="e.g. mine.py:build")
    path = Path(match["file"])
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib's raises for a name that is too long
        raise PluginError(f"there is no file {path}", hint="a path is looked for beside the spec, then here")
    spec = importlib.util.spec_from_file_location(MODULES + path.stem, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(f"{path} failed to load: {type(error).__name__}: {error}") from error
    if not hasattr(module, match["name"]):
        raise PluginError(f"{path} has no {match['name']!r}")
    found: object = getattr(module, match["name"])
    return found
