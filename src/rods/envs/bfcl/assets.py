"""Obtains the benchmark's wheel and imports the few modules of it that we use.

Owns download, hash check, extraction into the user's cache and the import of the API classes.
Never resolves the wheel's requirements (about 150 packages), never imports the modules that need
them or that make directories, never deletes or overwrites a file that it did not make.

    folder = obtain()                 # contains the package bfcl_eval
    filesystem = api_class("GorillaFileSystem")
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import json
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from rods.errors import PrerequisiteError
from rods.infra.wheels import Wheel, cache_folder, check_hash, fetched, folder_in_cache
from rods.task import CATEGORIES as CATEGORIES

VERSION = "2026.3.23"
_SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
SOURCE = Wheel("bfcl-eval", VERSION, _SHA256, "The BFCL benchmark")
WHEEL = SOURCE.file

_CODE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_CLASSES: dict[str, tuple[str, str]] = {  # Name: (module of its code, file of its documentation)
    "GorillaFileSystem": ("gorilla_file_system", "gorilla_file_system"),
    "MathAPI": ("math_api", "math_api"),
    "MessageAPI": ("message_api", "message_api"),
    "TwitterAPI": ("posting_api", "posting_api"),
    "TicketAPI": ("ticket_api", "ticket_api"),
    "TradingBot": ("trading_bot", "trading_bot"),
    "TravelAPI": ("travel_booking", "travel_booking"),
    "VehicleControlAPI": ("vehicle_control", "vehicle_control"),
}
CLASS_NAMES = tuple(_CLASSES)

SINGLE_TURN = (  # Single-turn categories whose calls are Python's, and which need no execution
    "simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
    "live_irrelevance", "live_relevance",
)  # fmt: skip
UNANSWERED = frozenset({"irrelevance", "live_irrelevance", "live_relevance"})
"""Categories without a file of answers: it only counts whether there is a call."""
AST_CHECKER = ("eval_checker/ast_eval/ast_checker", "constants/type_mappings")
"""The package's judge of single calls; we never import it, tests run it apart."""
LOADER = (  # Modules by which the package reads data; we never import them, tests run them apart
    "utils", "constants/category_mapping", "constants/default_prompts", "constants/enums",
    "constants/eval_config",
)  # fmt: skip
_WANTED = (  # The part of the wheel that is extracted: code, data and license of the worlds
    "bfcl_eval/__init__.py",
    "bfcl_eval/constants/__init__.py",
    "bfcl_eval/constants/executable_backend_config.py",
    *(f"bfcl_eval/{name}.py" for name in (*LOADER, *AST_CHECKER)),
    *(f"bfcl_eval/data/BFCL_v4_{name}.json" for name in SINGLE_TURN),
    *(f"bfcl_eval/data/possible_answer/BFCL_v4_{name}.json" for name in SINGLE_TURN),
    "bfcl_eval/eval_checker/__init__.py",
    "bfcl_eval/eval_checker/multi_turn_eval/",
    "bfcl_eval/data/BFCL_v4_multi_turn_",
    "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_",
    "bfcl_eval/data/multi_turn_func_doc/",
    f"bfcl_eval-{VERSION}.dist-info/",
)
_PART = hashlib.sha256("\n".join(_WANTED).encode()).hexdigest()[:6]
"""Names the part, so that a folder extracted by a version that wanted less is not taken for it."""

_HOW = (
    f"Give the path of {WHEEL} in the setting env.bfcl.wheel, or install the package with "
    f"`pip install --no-deps bfcl-eval=={VERSION}`."
)


@functools.lru_cache(maxsize=8)
def obtain(wheel: str = "") -> Path:
    """The folder that contains the package `bfcl_eval`, fetched and extracted where needed.

    Args:
        wheel: Path of the benchmark's wheel. Empty: an installed package of the right version, else
            the copy in the cache, else a download by pip into the cache.

    Raises:
        PrerequisiteError: the wheel is missing, damaged or of another version, or cannot be
            fetched; the message says where and what to do.
    """
    if wheel:
        path = Path(os.path.expanduser(wheel))
        if not path.is_file():
            raise PrerequisiteError(f"env.bfcl.wheel: there is no file {path}. {_HOW}")
        check_hash(path, SOURCE, _HOW)
        return _extracted(path)
    installed = _installed()
    if installed is not None:
        return installed
    folder = _target()
    if folder.exists():
        return _complete(folder)
    with fetched(SOURCE, _HOW) as path:
        return _extracted(path)


def ready() -> bool:
    """True if the benchmark is here already, so that nothing would be fetched."""
    return _installed() is not None or (_target().exists() and _missing(_target()) is None)


def _installed() -> Path | None:
    try:
        distribution = importlib.metadata.distribution("bfcl-eval")
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != VERSION:
        return None
    folder = Path(str(distribution.locate_file("")))
    return folder if _missing(folder) is None else None


def _target() -> Path:
    return cache_folder() / f"bfcl_eval-{VERSION}-{SOURCE.sha256[:12]}-{_PART}"


def _missing(folder: Path) -> Path | None:
    data = folder / "bfcl_eval" / "data"
    names = [f"BFCL_v4_multi_turn_{category}.json" for category in CATEGORIES]
    code = folder.joinpath(*_CODE.split("."))
    files = [code / f"{module}.py" for module, _ in _CLASSES.values()]
    files += [folder / "bfcl_eval" / f"{name}.py" for name in (*LOADER, *AST_CHECKER)]
    files += [data / f"BFCL_v4_{name}.json" for name in SINGLE_TURN]
    answered = [name for name in SINGLE_TURN if name not in UNANSWERED]
    files += [data / "possible_answer" / f"BFCL_v4_{name}.json" for name in answered]
    files += [data / name for name in names]
    files += [data / "possible_answer" / name for name in names]
    files += [data / "multi_turn_func_doc" / f"{doc}.json" for _, doc in _CLASSES.values()]
    return next((file for file in files if not file.is_file()), None)


def _complete(folder: Path) -> Path:
    missing = _missing(folder)
    if missing is not None:
        raise PrerequisiteError(
            f"{folder}: the extracted benchmark is incomplete, {missing.relative_to(folder)} is "
            "missing. Remove this folder and run again; it is fetched again."
        )
    return folder


def _extracted(path: Path) -> Path:
    folder = _target()
    if not folder.exists():
        with folder_in_cache(folder) as part:
            try:
                with zipfile.ZipFile(path) as archive:
                    names = [name for name in archive.namelist() if name.startswith(_WANTED)]
                    archive.extractall(part, names)
            except zipfile.BadZipFile as error:
                raise PrerequisiteError(f"{path}: cannot be extracted: {error}. {_HOW}") from error
    return _complete(folder)


def module(name: str, wheel: str = "") -> ModuleType:
    """Import one module of the benchmark by its dotted name.

    Raises:
        PrerequisiteError: another copy of `bfcl_eval` was imported already, or it cannot be loaded.
    """
    folder = obtain(wheel)
    if "bfcl_eval" not in sys.modules and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(name)
    except ImportError as error:
        raise PrerequisiteError(
            f"{name}: cannot be imported from {folder}: {error}. The benchmark's classes need only "
            "mpmath: `pip install mpmath`."
        ) from error
    source = Path(str(found.__file__)).resolve()
    if not source.is_relative_to(folder.resolve()):
        raise PrerequisiteError(
            f"{name}: was imported from {source} before, expected {folder}. Uninstall the other "
            f"bfcl-eval or install version {VERSION}."
        )
    return found


@functools.cache
def api_class(name: str, wheel: str = "") -> type[Any]:
    """One of the eight API classes, by name; raises `KeyError` where there is no such class."""
    return getattr(module(f"{_CODE}.{_CLASSES[name][0]}", wheel), name)


def rows(kind: str, name: str, wheel: str = "") -> list[dict[str, Any]]:
    """Rows of a data file.

    Args:
        kind: `question` or `answer` (then `name` is a category) or `doc` (then it is a class).
        name: Category or class.
        wheel: As in `obtain`.
    """
    data = obtain(wheel) / "bfcl_eval" / "data"
    if kind == "doc":
        path = data / "multi_turn_func_doc" / f"{_CLASSES[name][1]}.json"
    else:
        folder = data / "possible_answer" if kind == "answer" else data
        path = folder / f"BFCL_v4_multi_turn_{name}.json"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
