"""Collecting mistakes of a spec against its tree, and setting aside what was wrong so that the rest can be checked."""

from collections.abc import Sequence

from testbed.spec.document import Node, Step
from testbed.spec.errors import Mark, SpecError


class Findings:
    """The errors found so far in the spec whose tree is `root`. Paths are keys and indices into that tree."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.errors: list[SpecError] = []
        self._set_aside: set[str] = set()

    def add(self, path: Sequence[Step], message: str, suggestion: str = "", *, at_key: bool = False) -> None:
        """Report the value at `path` (or its key). Silent where that part, or what it is in, was set aside."""
        key, mark = self.place(path, at_key=at_key)
        if not self.set_aside(key):
            self.errors.append(SpecError(mark.line, mark.column, key, message, suggestion, mark.option))

    def place(self, path: Sequence[Step], *, at_key: bool = False) -> tuple[str, Mark]:
        """The dotted key of `path` and where it is written; of a part that is missing, where it should have been."""
        nodes, beyond = self.root.find(path)
        last = nodes[-1]
        names = [node.name for node in nodes[1:]] + [str(step) for step in beyond]
        at_key = (at_key or bool(beyond)) and len(nodes) > 1
        return ".".join(names), last.key_mark if at_key else last.mark

    def drop(self, path: Sequence[Step]) -> None:
        """Set the part at `path` aside: it is wrong, and nothing is said of what follows from that."""
        self._set_aside.add(self.place(path)[0])
        if path:
            self.root.remove(path)

    def set_aside(self, key: str) -> bool:
        """Whether the part `key`, or one that it is in, was set aside."""
        steps = key.split(".")
        return any(".".join(steps[:length]) in self._set_aside for length in range(1, len(steps) + 1))

    def incomplete(self, key: str) -> bool:
        """Whether anything of the part `key` was set aside."""
        return self.set_aside(key) or any(part.startswith(key + ".") for part in self._set_aside)
