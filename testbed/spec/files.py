"""Files that a spec names: looked for beside the spec, then in the current folder, and made absolute."""

import os.path
import re
import shlex
from pathlib import Path
from typing import Any

from testbed.plugins import is_reference
from testbed.resources import shared_folder
from testbed.spec.document import Node, Step, without_job
from testbed.spec.findings import Findings
from testbed.stress.sizes import FILES as SIZE_FILES

_SHELL_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\|&;<>()])+""", re.DOTALL)
_LITERAL_WORD = re.compile(r"""(?P<plain>[^'"\\$`*?[]+)|"(?P<double>[^"\\$`]*)"|'(?P<single>[^']*)'""")
_OWN_KEYS = (
    "topology.kind", "transport.kind", "workload.algorithm", "workload.algorithm.kind", "workload.codec",
    "workload.codec.kind", "environment.baseline.algorithm",
    "environment.baseline.transport.kind",
)  # fmt: skip
_DATA_KEYS = {
    "workload.gradients": (".npy", ".npz"),
    "workload.algorithm": (".xml",),
    "switches.controller": (".py",),
    "traffic.sizes": SIZE_FILES,
}
_P4_KEYS = {  # of what may be in `p4/` too
    f"{section}.{key}": endings
    for section in ("switches", "switches.overrides", "faults")
    for key, endings in (("program", (".p4", ".json")), ("entries", (".stf",)))
}


def find_file(name: str, folder: Path) -> Path | None:
    """The absolute path of the file `name`, beside the spec in `folder` or else in the current folder."""
    for start in (folder, Path.cwd()):
        if os.path.isfile(start / name):  # noqa: PTH113 - pathlib's raises for a name that is too long
            return (start / name).resolve()
    return None


def make_absolute(findings: Findings, folder: Path) -> None:
    """Replace the file names in the tree by absolute paths, so that the spec can be read anywhere."""
    _visit(findings, findings.root, (), "", folder)
    sweep = findings.root.child("sweep")
    for path, union in _sweeps(sweep):
        for key, values in list(union.items()) if isinstance(union, dict) else []:
            _visit_swept(findings, key, values, ("sweep", *path, key), folder)
    for path, point in _expected(findings.root.child("expect")):
        for key, value in list(point.items()):
            _visit(findings, value, ("expect", *path, key), _unnumbered(key), folder)


def _sweeps(sweep: Node | None) -> list[tuple[tuple[Step, ...], Any]]:
    if sweep is None:
        return []
    unions = (
        [((), sweep)] if isinstance(sweep.value, dict) else [((i,), part) for i, part in enumerate(sweep.children())]
    )
    zips = [((*path, "zip"), part.child("zip")) for path, part in unions]
    return [(path, part.value) for path, part in [*unions, *zips] if part is not None]


def _expected(expect: Node | None) -> list[tuple[tuple[Step, ...], Any]]:
    """The points that entries of `expect` are about: keys and values as `sweep` has them."""
    entries = expect.children() if expect is not None and isinstance(expect.value, list) else []
    sides = [((i, side), entry.child(side)) for i, entry in enumerate(entries) for side in ("of", "to")]
    return [(path, part.value) for path, part in sides if part is not None and isinstance(part.value, dict)]


def _unnumbered(key: str) -> str:
    return ".".join(step for step in key.split(".") if not step.isdecimal())


def _visit_swept(findings: Findings, key: str, values: Node, path: tuple[Step, ...], folder: Path) -> None:
    for index, value in enumerate(values.children() if isinstance(values.value, list) else []):
        _visit(findings, value, (*path, index), _unnumbered(key), folder)


def _visit(findings: Findings, node: Node, path: tuple[Step, ...], written: str, folder: Path) -> None:
    key = without_job(written)
    if isinstance(node.value, dict):
        for step, child in list(node.value.items()):
            if step != "sweep" or path:
                _visit(findings, child, (*path, step), f"{written}.{step}" if written else step, folder)
    elif key == "workload.command":
        node.value = _command(node, folder)
    elif isinstance(node.value, list):
        for index in reversed(range(len(node.value))):  # entries may go on the way
            _visit(findings, node.value[index], (*path, index), written, folder)
    elif isinstance(node.value, str):
        file, name = node.value, ""
        if key in _OWN_KEYS and is_reference(node.value):
            file, colon, name = node.value.rpartition(":")
            name = colon + name
        elif key in _P4_KEYS:
            if file.endswith(_P4_KEYS[key]):
                node.value = _of_p4(file, folder)
            return
        elif not node.value.endswith(_DATA_KEYS.get(key, ())) or key not in _DATA_KEYS:
            return
        found = find_file(file, folder)
        if found:
            node.value = f"{found}{name}"
        else:
            findings.add(path, f"there is no file {file!r} beside the spec or in the current folder")
            findings.drop(path[:-1] if path[-1] == "kind" else path)


def _of_p4(name: str, folder: Path) -> str:
    """A file made absolute that may be in `p4/` too; one that is not there stays."""
    return str(find_file(name, folder) or find_file(name.removeprefix("p4/"), shared_folder("p4")) or name)


def _command(node: Node, folder: Path) -> Any:
    """A command whose words that name a file (and look like it) are made absolute; all else of a shell's line stays."""
    if isinstance(node.value, str):
        return _SHELL_WORD.sub(lambda word: _shell_word(word[0], folder), node.value)
    if isinstance(node.value, list):
        for part in node.value:
            part.value = _word(part.value, folder) if isinstance(part.value, str) else part.value
    return node.value


def _shell_word(word: str, folder: Path) -> str:
    """A word of a shell's line, as it is written unless all of it names a file."""
    match = _LITERAL_WORD.fullmatch(word)
    name = match[match.lastgroup] if match and match.lastgroup else ""
    found = _word(name, folder)
    return shlex.quote(found) if found != name else word


def _word(word: str, folder: Path) -> str:
    found = find_file(word, folder) if "." in word else None
    return str(found) if found else word
