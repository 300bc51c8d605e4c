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
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from rods.errors import PrerequisiteError

VERSION = "2026.3.23"
WHEEL = f"bfcl_eval-{VERSION}-py3-none-any.whl"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")

_CODE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_CLASSES: dict[str, tuple[str, str]] = {
    "GorillaFileSystem": ("gorilla_file_system", "gorilla_file_system"),
    "MathAPI": ("math_api", "math_api"),
    "MessageAPI": ("message_api", "message_api"),
    "TwitterAPI": ("posting_api", "posting_api"),
    "TicketAPI": ("ticket_api", "ticket_api"),
    "TradingBot": ("trading_bot", "trading_bot"),
    "TravelAPI": ("travel_booking", "travel_booking"),
    "VehicleControlAPI": ("vehicle_control", "vehicle_control"),
}
"""Class name: (module of its code, file of its documentation)."""
CLASS_NAMES = tuple(_CLASSES)

SINGLE_TURN = (
    *("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    *("live_irrelevance", "live_relevance"),
)
"""Single-turn categories whose calls are Python's, and which need no execution."""
UNANSWERED = frozenset({"irrelevance", "live_irrelevance", "live_relevance"})
"""Those without a file of answers: it only counts whether there is a call."""
AST_CHECKER = ("eval_checker/ast_eval/ast_checker", "constants/type_mappings")
"""The package's judge of single calls; we never import it, tests run it apart."""
LOADER = (
    "utils",
    "constants/category_mapping",
    "constants/default_prompts",
    "constants/enums",
    "constants/eval_config",
)
"""Modules with which the package reads its data; we never import them, tests run them apart."""
_WANTED = (
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
"""The part of the wheel that is extracted: code, data and licence of what is played."""
_PART = hashlib.sha256("\n".join(_WANTED).encode()).hexdigest()[:6]
"""Names the part, so that a folder extracted by a version that wanted less is not taken for it."""

_HOW = (
    f"Give the path of {WHEEL} in the setting env.bfcl.wheel, or install the package with "
    f"`pip install --no-deps bfcl-eval=={VERSION}`."
)


def cache_folder() -> Path:
    """Where fetched files are kept: RODS_CACHE, else XDG_CACHE_HOME/rods, else ~/.cache/rods.

    Raises:
        PrerequisiteError: nobody knows this user's home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    found = os.path.expanduser(os.environ.get("RODS_CACHE") or f"{base}/rods")
    if found.startswith("~"):  # no HOME, and no entry of this user among the system's
        raise PrerequisiteError(
            f"{found}: this user has no home folder, so there is no place for fetched files. Set "
            "RODS_CACHE to a folder that can be written."
        )
    return Path(found)


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
        _check_hash(path)
        return _extracted(path)
    installed = _installed()
    if installed is not None:
        return installed
    folder = _target()
    if folder.exists():
        return _complete(folder)
    return _downloaded()


def ready() -> bool:
    """Whether the benchmark is here already, so that nothing would be fetched."""
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


def _check_hash(path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise PrerequisiteError(
            f"{path}: this is not {WHEEL}, or it is truncated: SHA-256 {found[:16]}... and "
            f"{path.stat().st_size} bytes, expected {SHA256[:16]}... . The file was left as it is. "
            f"{_HOW}"
        )


def _target() -> Path:
    return cache_folder() / f"bfcl_eval-{VERSION}-{SHA256[:12]}-{_PART}"


def _missing(folder: Path) -> Path | None:
    data = folder / "bfcl_eval" / "data"
    names = [f"BFCL_v4_multi_turn_{category}.json" for category in CATEGORIES]
    files = [folder.joinpath(*module.split(".")).with_suffix(".py") for module in _modules()]
    files += [folder / "bfcl_eval" / f"{name}.py" for name in (*LOADER, *AST_CHECKER)]
    files += [data / f"BFCL_v4_{name}.json" for name in SINGLE_TURN]
    answered = [name for name in SINGLE_TURN if name not in UNANSWERED]
    files += [data / "possible_answer" / f"BFCL_v4_{name}.json" for name in answered]
    files += [data / name for name in names]
    files += [data / "possible_answer" / name for name in names]
    files += [data / "multi_turn_func_doc" / f"{doc}.json" for _, doc in _CLASSES.values()]
    return next((file for file in files if not file.is_file()), None)


def _modules() -> list[str]:
    return [f"{_CODE}.{module}" for module, _ in _CLASSES.values()]


def _complete(folder: Path) -> Path:
    missing = _missing(folder)
    if missing is not None:
        raise PrerequisiteError(
            f"{folder}: the extracted benchmark is incomplete, {missing.relative_to(folder)} is "
            "missing. Remove this folder and run again; it is fetched anew."
        )
    return folder


def _extracted(path: Path) -> Path:
    """Extract into the cache by a temporary folder and a rename, so that processes cannot clash."""
    folder = _target()
    if folder.exists():
        return _complete(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    except OSError as error:
        raise PrerequisiteError(
            f"{folder.parent}: the cache folder cannot be written: {error}. Set RODS_CACHE to a "
            "folder that can."
        ) from error
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(part, [n for n in archive.namelist() if n.startswith(_WANTED)])
        part.chmod(0o755)
        try:
            part.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    except (OSError, zipfile.BadZipFile) as error:
        raise PrerequisiteError(
            f"{path}: cannot be extracted into {folder}: {error}. Free some space or set "
            "RODS_CACHE to another folder, then run again."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return _complete(folder)


def _downloaded() -> Path:
    with tempfile.TemporaryDirectory(prefix="rods-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest"]
        command += [folder, "--disable-pip-version-check", f"bfcl-eval=={VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        path = Path(folder) / WHEEL
        if not path.is_file():
            raise PrerequisiteError(
                f"The BFCL benchmark (bfcl-eval {VERSION}) could not be fetched by pip: {reason}. "
                f"{_HOW}"
            )
        _check_hash(path)
        return _extracted(path)


def prepare(wheel: str = "") -> Path:
    """Obtain the benchmark and make `bfcl_eval` importable; returns its folder."""
    folder = obtain(wheel)
    loaded = sys.modules.get("bfcl_eval")
    if loaded is None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return folder


def module(name: str, wheel: str = "") -> ModuleType:
    """Import one module of the benchmark by its dotted name.

    Raises:
        PrerequisiteError: another copy of `bfcl_eval` was imported already, or it cannot be loaded.
    """
    folder = prepare(wheel)
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
