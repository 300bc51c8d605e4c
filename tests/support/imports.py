"""A package of ours that a test imports again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


@contextmanager
def imported_anew(package: str) -> Iterator[None]:
    """Within it the package is imported again, and afterwards all is as it was.

    Python keeps a package in `sys.modules` and as an attribute of the package above: if only the
    first were put back, later tests would find the second import, without its modules.
    """
    above, _, part = package.rpartition(".")
    import_module(package)
    before = _parts(package)
    for name in before:
        del sys.modules[name]
    delattr(sys.modules[above], part)
    try:
        yield
    finally:
        for name in _parts(package):
            del sys.modules[name]
        sys.modules.update(before)
        setattr(sys.modules[above], part, before[package])


def _parts(package: str) -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in sys.modules if f"{name}.".startswith(f"{package}.")}
