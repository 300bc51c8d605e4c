"""When, where and by what a run was started, for its manifest.

origin(["rods", "train", "--out", "/data/runs"])    # {"command": "rods train --out runs", ...}
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rods.infra.install import installed
from rods.types import Json

LIBRARIES = ("torch", "transformers", "tokenizers")
"""Whose versions decide what a run does."""


def origin(command: Sequence[str] | None = None) -> dict[str, Json]:
    """What there is to say; `command`: by default this process's. Folders are cut from it."""
    return {
        "versions": {name: installed(name) for name in LIBRARIES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "started": now(),
        "command": " ".join(_without_folders(sys.argv if command is None else command)),
    }


def now() -> str:
    """This second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _without_folders(command: Sequence[str]) -> list[str]:
    """Absolute paths say where a machine keeps things; their last part is enough."""
    out: list[str] = []
    for word in command:
        key, equals, value = word.partition("=")
        tail = value if equals else key
        short = Path(tail).name if tail.startswith(("/", "~")) else tail
        out.append(f"{key}={short}" if equals else short)
    return out
