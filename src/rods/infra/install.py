"""Command lines that install what is missing.

Owns name and version of the distribution (`rods` in the public index is somebody else's package),
its extras, and the line that installs one. It imports nothing that may be missing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rods.errors import PrerequisiteError

VERSION = "0.1.0"  # of this code; only the version that began a run can resume it
DISTRIBUTION = "rods-rl"  # what pip knows it by; the import and the program are called `rods`
ROOT = Path(__file__).parents[3]  # the checkout, if this is one
CORE = "core"  # what is always installed, beside the extras

_REST = re.compile(r"[^\w.-].*")  # of a requirement, behind the name
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")


def in_checkout() -> bool:
    """True if this code stands in a checkout and not among installed packages."""
    return (ROOT / "pyproject.toml").is_file()


def installed(name: str) -> str | None:
    """Version of a package, None if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def install_line(*extras: str) -> str:
    """The command that installs these extras from the checkout; no package index has them."""
    where = f"[{','.join(extras)}]" if extras else ""
    if not in_checkout():
        return f"in a clone of the repository, pip install -e '.{where}'"
    root = "." if Path.cwd() == ROOT else str(ROOT)
    return f"pip install -e '{root}{where}'"


@contextmanager
def needed(what: str, *extras: str) -> Generator[None]:
    """Turn a failed import into `PrerequisiteError`: `what` needs it ({}: its name), and how."""
    try:
        yield
    except ImportError as error:
        what = what.replace("{}", str(error.name))
        raise PrerequisiteError(f"{what}: {install_line(*extras)}.") from error


def extras() -> dict[str, tuple[str, ...]]:
    """Packages of every extra, and of `core`, as this version's own metadata has them."""
    if in_checkout():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        parts = {CORE: project["dependencies"], **project["optional-dependencies"]}
        return {extra: tuple(_REST.sub("", row) for row in rows) for extra, rows in parts.items()}
    found: dict[str, tuple[str, ...]] = {CORE: ()}
    for row in (requires(DISTRIBUTION) or []) if installed(DISTRIBUTION) else []:
        extra = match[1] if (match := _EXTRA.search(row)) else CORE
        found[extra] = (*found.get(extra, ()), _REST.sub("", row))
    return found
