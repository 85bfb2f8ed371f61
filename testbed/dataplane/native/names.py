"""C identifiers for the program's names: as they are where C allows it, and never two the same in one scope."""

import re
from collections.abc import Hashable

_KEYWORDS = frozenset(
    (
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
        "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
        "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
        "volatile", "while", "bool", "true", "false", "asm", "typeof", "linux", "unix",
    )
)  # fmt: skip


def identifier(name: str) -> str:
    """A C identifier that looks like `name`: `hdr.ipv4[0]` becomes `hdr_ipv4_0`."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "unnamed"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if plain in _KEYWORDS else plain


class Scope:
    """Identifiers handed out so far, one for each key."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)
        self._known: dict[Hashable, str] = {}

    def name(self, key: Hashable, wish: str) -> str:
        """The identifier of `key`, the same at every call; like `wish` at the first one."""
        if key not in self._known:
            plain = base = identifier(wish)
            count = 1
            while plain in self._taken:
                count += 1
                plain = f"{base}_{count}"
            self._taken.add(plain)
            self._known[key] = plain
        return self._known[key]


def comment(text: str) -> str:
    """A C comment that the text cannot end."""
    plain = " ".join(text.encode(errors="replace").decode().split())
    return f"/* {plain.replace('*/', '* /').replace('/*', '/ *')} */"


def bare(code: str) -> str:
    """An expression without a pair of parentheses around the whole of it."""
    depth = 0
    for at, character in enumerate(code):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and at < len(code) - 1:
            return code
    return code[1:-1] if code.startswith("(") else code


def string(text: str) -> str:
    """A C string literal."""
    escaped = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text
    )
    return f'"{escaped}"'
