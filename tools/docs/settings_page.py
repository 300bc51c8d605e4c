"""The page on every setting: default, allowed values and meaning, from the classes of settings.

Each setting is a row with an anchor of its own, which GitHub and the site both follow.

print(page())
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rods.cli.settings import places, rows_of
from rods.config import load_config
from rods.config.bundled import BUNDLED
from rods.dialects import DIALECTS
from rods.engines import ENGINES
from rods.envs import ENVIRONMENTS
from rods.infra.dotted import flat
from rods.integrations.trackers import TRACKERS
from rods.rewards import REWARDS
from rods.rewards.filters import FILTERS
from rods.trainers.packaged import PACKAGED
from rods.writers import WRITERS

START = """# Settings

This page lists every setting with its default, its allowed values and its meaning. You give a
setting as an option (`--rollout.k 16`), or in a recipe of your own (`k = 16` under `[rollout]`).
If you are new, begin with the [ten settings](../guides/first-settings.md) that matter first. In a
terminal, `rods settings NAME` prints a section or a setting.

The first default is that of the program. If the recipe `rods` sets another value, it follows:
`small` is what `rods train` uses, and `full` is the paper's size. `rods settings --recipe NAME`
prints the values of another recipe. The pages of the [recipes](../recipes/index.md) have the
constants of their rewards. A guide to an environment, such as [questions](../recipes/questions.md),
has its keys of `env.options`.
"""
OWN = ", or your own `module:attribute` or `FILE.py:attribute`"
NAMED: Mapping[str, tuple[Iterable[str], str]] = {
    "model.name": (dict.fromkeys((*BUNDLED, *PACKAGED)), ", a folder, or a name on a hub"),
    "model.dialect": (DIALECTS, OWN),
    "engine.name": (("auto", *ENGINES), OWN),
    "env.name": (ENVIRONMENTS, OWN),
    "env.function_call.environment": (ENVIRONMENTS, OWN),
    "synthesis.writer": (WRITERS, OWN),
    "train.filter": (FILTERS, OWN),
    "track.names": (TRACKERS, ""),
    "stages.N.reward": (REWARDS, OWN),
}
"""Names that a setting of texts knows, and what it takes beside them."""
PROFILES = ("small", "full")
HEAD = "| setting | default | values | meaning |\n|---|---|---|---|"


def page() -> str:
    """Return the page as Markdown."""
    blocks, section = [START.rstrip(), "## General"], ""
    for at, kind in places():
        top = at.partition(".")[0]
        if top != section:
            blocks.append(f"## {top}")
        if at[:-1] != top:
            blocks.append(f"### {at[:-1]}")
        section = top
        rows = [_row(row) for row in rows_of(at, kind)]
        meaning = inspect.cleandoc(kind.__doc__ or "") if at else ""
        blocks += [meaning, "\n".join([HEAD, *rows]) if rows else ""]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _row(row: dict[str, Any]) -> str:
    """Return a row; a setting without a default must be given."""
    key = row["key"]
    shown = "none" if row["default"] is None else _code(row["default"])
    shown = "; ".join([shown, *_others(key, row["default"])])
    meaning = re.sub(r"docs/guides/([\w-]+)\.md", r"[\1](../guides/\1.md)", row["meaning"])
    cells = [text.replace("|", "\\|") for text in (shown, _values(row), meaning)]
    return f'| <a id="{key}"></a>`{key}` | {" | ".join(cells)} |'


def _values(row: Mapping[str, Any]) -> str:
    """Return the allowed values: the known names of a setting that takes a name, else the kind."""
    if row["key"] not in NAMED:
        return row["values"]
    names, beside = NAMED[row["key"]]
    several = "list, each one of" if row["values"].startswith("list") else "one of"
    return f"{several} {', '.join(f'`{name}`' for name in names)}{beside}"


def _others(key: str, default: Any) -> Iterator[str]:
    """Yield the value in each profile of the recipe `rods` that differs from the default."""
    for profile in PROFILES:
        value = _settings(profile).get(key, default)
        if json.dumps(value) != json.dumps(default):
            yield f"{profile}: {_code(value)}"


def _code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


@functools.cache
def _settings(profile: str) -> Mapping[str, Any]:
    return flat(load_config("rods", profile).model_dump(mode="json"))
