"""Where the shipped folders are (controller, p4, experiments), in a checkout or in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shared_folder(name: str) -> Path:
    """The folder `controller`, `p4` or `experiments`: beside the package in a checkout, inside it in a wheel."""
    checkout = _PACKAGE.parent / name
    return checkout if (_PACKAGE.parent / "pyproject.toml").exists() else _PACKAGE / "share" / name
