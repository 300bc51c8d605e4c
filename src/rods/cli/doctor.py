"""`rods doctor`: list installed and missing packages, and how to install them."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from rods.abilities import Fetching, ability
from rods.cli.common import AsJson, print_results
from rods.envs import ENVIRONMENTS, make_environment
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.install import CORE, VERSION, extras, install_line, installed


def doctor(as_json: AsJson = False) -> None:
    """Show installed and missing packages, and how to install them."""
    found = {extra: {n: installed(n) for n in names} for extra, names in extras().items()}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    data = {"rods": VERSION, "cores": cores, "packages": found}
    print_results(data, *_shown(found, cores or 1))
    if any(v is None for v in found[CORE].values()):
        raise typer.Exit(1)


def _shown(found: dict[str, dict[str, str | None]], cores: int) -> Iterator[RenderableType]:
    yield (f"rods {VERSION}, Python {platform.python_version()}, {cores} cores")
    table = Table("extra", "packages", "install")
    for extra, packages in found.items():
        missing = [name for name, have in packages.items() if have is None]
        line = install_line() if extra == CORE else install_line(extra)
        rows = [f"{name} {have or 'MISSING'}" for name, have in packages.items()]
        table.add_row(extra, ", ".join(rows), escape(line) if missing else "complete")
    yield table
    for name in ENVIRONMENTS:
        # An environment that cannot be made without settings, such as an address, is skipped.
        try:
            fetching = ability(make_environment(name), Fetching)
            needs = fetching.needs() if fetching else ""
        except ConfigError:
            continue
        except PrerequisiteError as error:
            needs = str(error)
        if needs:
            yield f"{name}: {needs}"
    yield f"GPU: {_gpu()}"
    yield f"free disk here: {shutil.disk_usage('.').free / 2**30:.0f} GiB"


def _gpu() -> str:
    if installed("torch") is None:
        return "unknown without torch"
    import torch

    if not torch.cuda.is_available():
        return f"none (torch {torch.__version__}); training runs on the CPU"
    return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
