"""`did you mean …?`: the known word that a wrong one was probably meant to be."""

from collections.abc import Collection

_MOST_CHARACTERS = 60


def closest(word: object, known: Collection[str]) -> str:
    """The known word that `word` was probably meant to be, or an empty string, as for a very long one."""
    if len(str(word)) > _MOST_CHARACTERS:
        return ""
    from difflib import get_close_matches  # with what it imports, half of the start of who never needs it

    by_lower = {choice.lower(): choice for choice in known}
    found = get_close_matches(str(word).lower(), by_lower, n=1)
    return by_lower[found[0]] if found else ""


def did_you_mean(word: object, known: Collection[str]) -> str:
    """A hint with the closest known word, or with all of them."""
    near = closest(word, known)
    return f"did you mean {near}?" if near else f"one of: {', '.join(known) or 'none'}"
