"""One's own algorithm: `FILE.py:NAME`, a function (collective, ranks, root) -> Schedule in a Python file."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from testbed.collective.schedule import Schedule
from testbed.errors import UsageError

Generate = Callable[[str, int, int], Schedule]


def load(reference: str, folders: tuple[Path, ...]) -> Generate:
    """The function that `reference` names; its file is looked for in `folders` in turn.

    Raises UsageError where there is no such file, it does not load, or it has no such function.
    """
    file, _, name = reference.rpartition(":")
    path = next((folder / file for folder in folders if (folder / file).is_file()), None)
    if path is None:
        searched = ", ".join(str(folder) for folder in folders)
        raise UsageError(f"algorithm {reference!r}: there is no file {file!r}", hint=f"looked in {searched}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # the path ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"algorithm {reference!r}: {path} does not load: {error}") from error
    generate = getattr(module, name, None)
    if not callable(generate):
        raise UsageError(
            f"algorithm {reference!r}: {path} has no function {name!r}",
            hint="it must take (collective, ranks, root) and return a testbed.collective.schedule.Schedule",
        )
    return generate  # type: ignore[no-any-return]
