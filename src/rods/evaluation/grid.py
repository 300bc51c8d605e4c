"""A grid of runs: arms x seeds, read from one TOML file.

Owns what the file may say and which run folder each arm and seed has. It reads no run.

    grid = load_grid("bfcl", seeds=(0, 1), arms=("fixed", "rods"))
    for cell in grid.cells: ...        # an arm and a seed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from rods.config import RunConfig, load_config
from rods.config.base import Settings
from rods.errors import ConfigError
from rods.infra.dotted import changes, flat, nearest, within
from rods.registry import read_recipe

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
OFFLINE = "static_variants"
"""Key of an arm that is not a setting: variants made once before training, as a multiple of the
original tasks of the run."""


class Arm(NamedTuple):
    """One way of training."""

    name: str
    overrides: tuple[str, ...]
    """Settings, `section.key=value`."""
    static_variants: float = 0.0

    @property
    def settings(self) -> tuple[str, ...]:
        """All that the file states of it, as `key=value`."""
        made = f"{OFFLINE}={self.static_variants:g}"
        return (*self.overrides, made) if self.static_variants else self.overrides


class GridRun(NamedTuple):
    """One run."""

    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return f"{self.arm.name}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Runs of an experiment, and their comparison."""

    name: str
    recipe: str
    profile: str
    seeds: tuple[int, ...]
    baseline: str
    """The arm that the others are compared with."""
    arms: tuple[Arm, ...]

    @property
    def cells(self) -> list[GridRun]:
        """All runs; a seed's arms stand together, so that an unfinished grid compares fairly."""
        return [GridRun(arm, seed) for seed in self.seeds for arm in self.arms]

    def config(self, cell: GridRun) -> RunConfig:
        """The settings of one run; raises `ConfigError`, naming the arm, where one is wrong."""
        overrides = [*cell.arm.overrides, f"seed={cell.seed}"]
        try:
            return load_config(self.recipe, self.profile, overrides)
        except ConfigError as error:
            why = str(error).removeprefix("command line: ")
            raise ConfigError(f"experiment {self.name}, arm {cell.arm.name!r}: {why}") from error

    def differing(self, cell: GridRun, made: object) -> list[str]:
        """Settings of the file that a run of any version did not have: `key: stated -> run's`."""
        names = [text.partition("=")[0] for text in cell.arm.overrides]
        stated, theirs = flat(self.config(cell).model_dump(mode="json")), flat(made)
        both = [key for key in stated if key in theirs and within(key, names)]
        return changes({key: stated[key] for key in both}, {key: theirs[key] for key in both})


class _File(Settings):
    recipe: str = "rods"
    profile: str = "small"
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    baseline: str = ""
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    arms: dict[str, dict[str, Any]] = Field(min_length=1)


def load_grid(
    file: str,
    seeds: Sequence[int] = (),
    arms: Sequence[str] = (),
    overrides: Sequence[str] = (),
    baseline: str = "",
) -> Grid:
    """Read an experiment.

    Args:
        file: short name of a bundled one, or path of a .toml file.
        seeds: instead of the file's.
        arms: only these and a named `baseline`; empty: all.
        overrides: settings of every arm, stronger than the file's.
        baseline: the arm that the others are compared with, instead of the file's.

    Raises:
        ConfigError: the file is missing or wrong, or an arm is not known.
    """
    path = Path(file) if file.endswith(".toml") else EXPERIMENTS / f"{file}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in EXPERIMENTS.glob("*.toml"))
        raise ConfigError(
            f"there is no experiment {file!r}.{nearest(file, known, anywhere=True)} Known: "
            f"{', '.join(known)}; or give the path of a .toml file."
        )
    try:
        found = _File.model_validate(read_recipe(path))
    except ValidationError as error:
        raise ConfigError(f"{path}: {_faults(error)}") from error
    shared = _overrides(found.settings)
    known = {name: _arm(path, name, table, shared, overrides) for name, table in found.arms.items()}
    asked, baseline = baseline, baseline or found.baseline or next(iter(known))
    for name in (baseline, *arms):
        if name not in known:
            raise ConfigError(
                f"{path}: there is no arm {name!r}.{nearest(name, list(known))} "
                f"Known: {', '.join(known)}."
            )
    chosen = [arm for name, arm in known.items() if not arms or name in (*arms, asked)]
    if baseline not in [arm.name for arm in chosen]:
        baseline = chosen[0].name
    near = path.parent / found.recipe  # a recipe's file is looked for beside the experiment's
    recipe = str(near) if near.suffix == ".toml" and near.is_file() else found.recipe
    numbers = tuple(dict.fromkeys(seeds or found.seeds))
    grid = Grid(path.stem, recipe, found.profile, numbers, baseline, tuple(chosen))
    for arm in grid.arms:  # before hours of training, not in the middle of them
        curriculum = grid.config(GridRun(arm, grid.seeds[0])).curriculum
        if arm.static_variants and curriculum != "static":
            why = f'{OFFLINE} requires curriculum = "static", a fixed pool; got {curriculum!r}.'
            raise ConfigError(f"{path}: arm {arm.name!r}: {why}")
    return grid


def _faults(error: ValidationError) -> str:
    words = {
        "extra_forbidden": f"is not a key. Known: {', '.join(_File.model_fields)}.",
        "missing": "is missing. Write a table of settings for each arm: [arms.NAME].",
        "dict_type": "must be a table of settings, such as {updates = 30}.",
    }
    numbers = ("tuple_type", "int_type", "int_parsing", "int_from_float")
    words |= dict.fromkeys(numbers, "must be whole numbers, such as [0, 1, 2].")
    return " ".join(
        f"{'.'.join(map(str, fault['loc']))!r} {words.get(fault['type'], fault['msg'] + '.')}"
        for fault in error.errors()
        if fault["type"] != "too_short" or not fault["input"]  # else wrong items were left out
    )


def _arm(
    path: Path,
    name: str,
    table: Mapping[str, object],
    shared: Sequence[str],
    overrides: Sequence[str],
) -> Arm:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"{path}: arm {name!r}: expected letters, digits, - and _.")
    settings = dict(table)
    times = settings.pop(OFFLINE, 0.0)
    if isinstance(times, bool) or not isinstance(times, int | float) or times < 0:
        raise ConfigError(f"{path}: arm {name!r}: {OFFLINE} {times!r}: expected a number from 0.")
    own = (*shared, *_overrides(settings), *overrides)
    if whole := sorted({*_File.model_fields, "seed"} & {text.partition("=")[0] for text in own}):
        why = "arms share the recipe, the profile and the seeds. For seeds, use --seeds 0,1."
        raise ConfigError(f"{path}: arm {name!r}: {' and '.join(whole)}: {why}")
    return Arm(name, own, float(times))


def _overrides(settings: Mapping[str, object], prefix: str = "") -> list[str]:
    """Nested tables as `section.key=value`."""
    found: list[str] = []
    for key, value in settings.items():
        if isinstance(value, dict):
            found += _overrides(value, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key}={_toml(value)}")
    return found


def _toml(value: object) -> str:
    """A value of a TOML file, written again in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, default=str)  # TOML has dates; no setting is one
