"""Files that a program may read: the interpreter's library, and packages loaded before it.

Owns the list of paths and the loading. It never locks anything; `lockdown` does. Standard library
only: the zygote lives on it.

    present, paths = load(["numpy", "sympy"])
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable

from rods.sandbox import lockdown

_ALWAYS = (
    "bisect cmath collections copy datetime decimal fractions functools heapq itertools json math "
    "operator random re statistics string textwrap typing"
)
ALWAYS = _ALWAYS.split()  # Modules that programs often want
WARM = {  # Modules that a package loads only when it is first used
    "numpy": "import numpy as n; n.linalg.solve(n.eye(2), n.ones(2)); n.random.seed(0)",
    "sympy": "import sympy as s; x = s.Symbol('x'); s.solve(x**2 - 1, x); s.simplify(x + x)",
}


def libraries() -> list[str]:
    """Shared libraries that a module may load late; whole folders where no packages are."""
    multiarch: str = getattr(sys.implementation, "_multiarch", "")
    whole = [f"/lib/{multiarch}", f"/usr/lib/{multiarch}"] if multiarch else []
    shared = ["/lib64", "/usr/lib64", "/usr/local/lib", f"{sys.base_prefix}/lib"]
    found = [path for folder in dict.fromkeys(shared) for path in inside(folder)]
    named = [path for path in found if re.search(r"\.so(\.[0-9]+)*$", path)]
    return [*whole, *filter(os.path.isfile, named)]


def inside(folder: str) -> list[str]:
    """Paths of what is in a folder, packages of other people left out."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{n}" for n in names if n not in ("site-packages", "dist-packages")]


def standard_library() -> list[str]:
    """Paths of the standard library, without the packages that some systems keep below it."""
    paths = sysconfig.get_paths()
    folders = dict.fromkeys([paths["stdlib"], paths["platstdlib"]])
    listed = [f"{lockdown.LISTED}{folder}" for folder in folders]
    return listed + [path for folder in folders for path in inside(folder)]


def packages(before: set[str]) -> list[str]:
    """Folders of the packages that were loaded since, and of the libraries beside them."""
    found: list[str] = []
    for name in sorted(set(sys.modules) - before):
        spec = getattr(sys.modules[name], "__spec__", None)
        origin = spec.origin if spec and "." not in name else None
        if not origin or "-packages" not in origin:
            continue
        if spec and spec.submodule_search_locations:
            folder = os.path.dirname(origin)
            found += [folder, f"{os.path.dirname(folder)}/{name}.libs"]
        else:
            found.append(origin)
    return found


def load(preload: list[str]) -> tuple[list[str], list[str]]:
    """Import what is installed of this; its names, and the paths that may be read from now on."""
    before = set(sys.modules)
    present = [name for name in preload if importlib.util.find_spec(name)]
    for name in [*ALWAYS, *present]:
        importlib.import_module(name)
        if name in WARM:
            exec(WARM[name], {})
    etc = ["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"]
    standard = standard_library()
    names = {path.removeprefix(lockdown.LISTED) for path in standard}
    sys.path[:] = ["", *[path for path in sys.path if path in names]]
    return present, [*standard, *packages(before), *libraries(), *etc]


def coarse(readable: list[str]) -> list[str]:
    """A few folders that hold all of `readable`; a child's second lock takes nothing else away."""
    tops = {os.path.dirname(path.removeprefix(lockdown.LISTED)) for path in readable}
    return sorted(top for top in tops if not lies_in(os.path.dirname(top), tops))


def lies_in(path: str, folders: Iterable[str]) -> bool:
    """True if a path is one of the folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def anyone_may_read(path: str) -> bool:
    """True if a user without rights can reach a folder."""
    while os.stat(path).st_mode & 0o005 == 0o005:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False
