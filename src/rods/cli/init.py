"""`rods init`: a project of one's own, which runs as it is.

Owns the copy of `project/`. Its Python files end in `.tpl` there: they are data of this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.cli.common import AsJson, print_results, say
from rods.errors import ConfigError
from rods.infra.files import disk
from rods.infra.text import quoted

PROJECT = Path(__file__).with_name("project")  # the files of a new project


def init(
    name: Annotated[str, typer.Argument(help="Folder that is made here; an empty one will do.")],
    as_json: AsJson = False,
) -> None:
    """Write a project folder: tools, tasks, settings, tests.

    It runs as it is; replace its tools and tasks by your own."""
    name = name.rstrip("/") or name
    target = Path(name)
    if target.name != name or name in ("", "..") or not name.isprintable():
        raise ConfigError(f"NAME {name!r}: expected the name of one new folder, such as my_agent.")
    with disk(target, "making"):
        there = target.exists() or target.is_symlink()
        if there and not (target.is_dir() and not any(target.iterdir())):
            raise ConfigError(f"{name}: exists and is not empty; choose another name.")
        target.mkdir(exist_ok=True)
        for path in sorted(PROJECT.iterdir()):
            made = target / path.name.removesuffix(".tpl")
            made.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    files = sorted(path.name for path in target.iterdir())
    print_results({"folder": name, "files": files})
    say(f"The project is in {name}/. Go there (cd {quoted(name)}) and follow its README.md.")
