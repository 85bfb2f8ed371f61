"""Where the shipped folders (controller, p4, experiments) are, in a checkout or in a wheel, and files in them."""

from collections.abc import Mapping
from pathlib import Path

from testbed.errors import UsageError
from testbed.suggest import did_you_mean

_PACKAGE = Path(__file__).resolve().parent


def shared_folder(name: str) -> Path:
    """The folder `controller`, `p4` or `experiments`: beside the package in a checkout, inside it in a wheel."""
    checkout = _PACKAGE.parent / name
    return checkout if (_PACKAGE.parent / "pyproject.toml").exists() else _PACKAGE / "share" / name


def own_or_shipped(name: str, endings: tuple[str, ...], shipped: Mapping[str, Path], unknown: str) -> Path:
    """A file by its path, if that has one of the endings, else by its name among the shipped ones.

    Raises UsageError, which says `unknown` and the name, where there is neither.
    """
    path = Path(name) if name.endswith(endings) else shipped.get(name)
    if path is None or not path.is_file():
        raise UsageError(f"{unknown} {name!r}", hint=did_you_mean(name, shipped))
    return path
