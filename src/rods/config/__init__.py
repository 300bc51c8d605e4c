"""One `RunConfig` of all settings, read from TOML, overridden by dotted keys, digested.

    config = load_config(recipe="rods", profile="quick", overrides=["train.lr=1e-4"])
    config.digest()          # what `--resume` compares

Owns how the sections of this folder come together, which of them contradict each other, and what
is said of a wrong one. Nothing here imports torch. A recipe is a TOML file: top-level tables are
settings, `[profile.NAME]` tables override them, `[provides]` is the registry's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import Field, ValidationError, model_validator

from rods.config.base import Settings
from rods.config.curriculum import (
    BoundarySettings,
    EnvTuningSettings,
    ReplaySettings,
    StageSettings,
    StaticSettings,
)
from rods.config.engine import EngineSettings
from rods.config.env import EnvSettings
from rods.config.ray import RaySettings
from rods.config.rollout import EvaluationSettings, ModelSettings, RolloutSettings
from rods.config.synthesis import SynthesisSettings
from rods.config.track import TrackSettings
from rods.config.train import RewardSettings, TrainSettings
from rods.config.unread import require_read
from rods.errors import ConfigError
from rods.infra.dotted import flat, merge, nearest, override
from rods.registry import provides, read_recipe, recipe_file, recipe_names

__all__ = [
    "FULL",
    "SMALL",
    "BoundarySettings",
    "EngineSettings",
    "EnvSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ReplaySettings",
    "RewardSettings",
    "RolloutSettings",
    "RunConfig",
    "StageSettings",
    "Start",
    "SynthesisSettings",
    "TrainSettings",
    "keys",
    "load_config",
    "parse_config",
    "profile_name",
    "with_overrides",
]

SMALL = "small"
"""Stands for a recipe's first profile, the one that runs on a laptop."""
FULL = "full"
"""Stands for a recipe's top level."""
ALONE = ("gae", "reinforce++", "reinforce++_by_trajectory")
"""Advantages that need no group."""
AMONG_PEERS = ("grpo", "dr_grpo", "rloo")
"""Advantages that compare within a group alone, so that they can within other sets of peers."""


class Start(NamedTuple):
    """What a configuration was read from."""

    recipe: str
    profile: str
    overrides: list[str]


class RunConfig(Settings):
    """Everything that decides what a run does."""

    seed: int = Field(default=0, ge=0)
    """Seed of everything random: draws, samples, adapters, synthesis; 0 or more."""
    updates: int = Field(default=0, ge=0)
    """Stop after this many updates, so that two curricula get the same budget; 0: play all
    stages."""
    trajectories: int = Field(default=0, ge=0)
    """Stop after the update by which so many trajectories were sampled; 0: no such limit."""
    curriculum: Literal["rods", "static", "envtuning"] = "rods"
    """`static`: the fixed pool, same budget, no synthesis. `envtuning`: Environment Tuning, the
    fixed pool with hints in some stages."""
    static: StaticSettings = StaticSettings()
    envtuning: EnvTuningSettings = EnvTuningSettings()
    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    env: EnvSettings = EnvSettings()
    rollout: RolloutSettings = RolloutSettings()
    boundary: BoundarySettings = BoundarySettings()
    replay: ReplaySettings = ReplaySettings()
    synthesis: SynthesisSettings = SynthesisSettings()
    train: TrainSettings = TrainSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    rewards: RewardSettings = RewardSettings()
    track: TrackSettings = TrackSettings()
    ray: RaySettings = RaySettings()
    stages: tuple[StageSettings, ...] = (StageSettings(name="all", expand=True),)
    """What is trained on, in order; at least one stage."""

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.boundary.low >= self.boundary.high:
            raise ValueError("boundary.low must be below boundary.high")
        if self.replay.retire and self.replay.retire[0] >= self.replay.retire[1]:
            raise ValueError("replay.retire: its first number must be below its second")
        if self.curriculum != "static" and self.static != StaticSettings():
            raise ValueError('static: its settings belong to a fixed pool; curriculum = "static"')
        if not self.stages:
            raise ValueError("stages: at least one stage is needed")
        if not self.env.held_out and not self.evaluation.files:
            raise ValueError(
                "env.held_out = 0 leaves nothing to evaluate on; name files in evaluation.files"
            )
        self._consistent_train()
        names = [s.name for s in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"stages: names must differ, got {names}")
        unknown = [name for name in self.envtuning.hints if name not in names]
        if unknown:
            raise ValueError(f"envtuning.hints: no stage is called {unknown[0]!r}, only {names}")
        return self

    def _consistent_train(self) -> None:
        train = self.train
        if train.filtering.window[0] >= train.filtering.window[1]:
            raise ValueError("train.filtering.window: its first number must be below its second")
        if self.rollout.k == 1 and train.advantage not in ALONE:
            raise ValueError(
                f'rollout.k = 1 leaves train.advantage = "{train.advantage}" no group to compare '
                f"with; take one of {', '.join(ALONE)}, or a larger rollout.k"
            )
        apart = train.credit != "trajectory"
        if apart and (train.advantage not in AMONG_PEERS or not train.mask_env_tokens):
            raise ValueError(
                f'train.credit = "{train.credit}" compares peers and spreads that over sampled '
                "tokens; it needs train.mask_env_tokens and a train.advantage of "
                f"{', '.join(AMONG_PEERS)}"
            )
        if train.credit == "turn" and train.kl and train.kl_in == "reward":
            raise ValueError('train.credit = "turn" reads turns alone; train.kl_in must be "loss"')
        if train.advantage != "gae":
            return
        if not train.mask_env_tokens:
            raise ValueError(
                'train.advantage = "gae" has no value for tokens of the environment; '
                "train.mask_env_tokens must be true with it"
            )

    def spent(self, updates: int, trajectories: int) -> bool:
        """Whether so much training reaches a limit of `updates` or `trajectories`."""
        return 0 < self.updates <= updates or 0 < self.trajectories <= trajectories

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of all settings; resume compares it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, other: RunConfig) -> list[str]:
        """Dotted keys whose values differ, as `key: ours -> theirs`."""
        ours, theirs = flat(self.model_dump(mode="json")), flat(other.model_dump(mode="json"))
        keys = sorted(ours.keys() | theirs.keys())
        return [
            f"{k}: {ours.get(k)} -> {theirs.get(k)}" for k in keys if ours.get(k) != theirs.get(k)
        ]


def load_config(
    recipe: str = "rods", profile: str = SMALL, overrides: Sequence[str] = ()
) -> RunConfig:
    """A recipe, its profile, then overrides of the form `section.key=value` (value in TOML).

    Args:
        recipe: short name of a bundled recipe, or path of a TOML file.
        profile: name of a `[profile.NAME]` table of the recipe; `small`: its first one, which runs
            on a laptop (`quick`, `smoke`), as `rods train` takes it; empty or `full`: none.
        overrides: applied in order; a bare word that is no TOML value counts as a string.

    Raises:
        ConfigError: file, key, what was got, what was expected, the nearest valid key.
    """
    path, data = _read(recipe)
    profiles = cast("dict[str, dict[str, Any]]", data.pop("profile", {}))
    profile = _named(profiles, profile)
    layers = [_set_in(data)]
    if profile:
        if profile not in profiles:
            raise ConfigError(
                f"{path}: there is no profile {profile!r}.{nearest(profile, list(profiles))} "
                f"Known: {', '.join(sorted(profiles)) or 'none'}."
            )
        layers.append(_set_in(profiles[profile]))
        merge(data, profiles[profile])
    if not overrides:
        return _parse_read(data, layers, str(path))
    whole = deepcopy(data)
    for text in overrides:
        override(whole, text)
    try:
        return _parse_read(whole, [*layers, _asked(overrides)], "command line")
    except ConfigError:
        _parse_read(data, layers, str(path))  # if it is the file that is at fault, it is named
        raise


def _parse_read(
    data: Mapping[str, Any], layers: Sequence[Collection[str]], where: str
) -> RunConfig:
    """Validate plain data, and refuse what is set in it and not read."""
    config = parse_config(data, where)
    values, usual = (flat(c.model_dump(mode="json")) for c in (config, RunConfig()))
    require_read(values, usual, layers, where)
    return config


def _set_in(data: Mapping[str, Any]) -> set[str]:
    return {*flat(dict(data))}


def _asked(overrides: Sequence[str]) -> set[str]:
    return {text.partition("=")[0].strip() for text in overrides}


def profile_name(recipe: str, profile: str) -> str:
    """A profile's own name, where `small` stands for the recipe's first and `full` for none."""
    return _named(_read(recipe)[1].get("profile", {}), profile)


def _named(profiles: Mapping[str, Any], name: str) -> str:
    if name in profiles:
        return name
    return {SMALL: next(iter(profiles), ""), FULL: ""}.get(name, name)


def _read(recipe: str) -> tuple[Path, dict[str, Any]]:
    path = Path(recipe) if recipe.endswith(".toml") else recipe_file(recipe)
    if not path.is_file():
        known = recipe_names()
        raise ConfigError(
            f"there is no recipe {recipe!r}.{nearest(recipe, known)} Known: {', '.join(known)}; "
            "or give the path of a .toml file."
        )
    data = read_recipe(path)
    own = data.pop("provides", {})
    if own and own not in provides().values():  # a copy of a bundled recipe may keep its own
        raise ConfigError(
            f"{path}: only bundled recipes have [provides]. Remove it, and name your own reward or "
            'dialect where it is set: reward = "FILE.py:attribute".'
        )
    tables = data.get("profile", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError(f"{path}: 'profile' must hold tables, as [profile.NAME], got {tables!r}.")
    return path, data


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """A configuration with some settings changed; raises `ConfigError` as `load_config` does."""
    data = config.model_dump(mode="json")
    for text in overrides:
        override(data, text)
    return _parse_read(data, [_asked(overrides)], "overrides")


def parse_config(data: Mapping[str, Any], where: str) -> RunConfig:
    """Validate plain data.

    Raises:
        ConfigError: one line for each fault, with key, what was got and the nearest valid key.
    """
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        lines = [_explain(dict(fault)) for fault in error.errors()]
        raise ConfigError(f"{where}: " + "\n".join(lines)) from error


def _explain(fault: dict[str, Any]) -> str:
    location = [str(part) for part in fault["loc"]]
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        names = [".".join(filter(None, (key, rest))) for rest in flat(fault["input"])]
        return "\n".join(f"there is no setting {n!r}.{nearest(n, keys())}" for n in names or [key])
    if fault["type"] == "model_type":
        section = [k for k in keys() if k.startswith(f"{key}.")]
        named = f"{key}.name" if f"{key}.name" in section else section[0]
        return (
            f"{key!r} is a section of settings, got {fault['input']!r}. Name one of them, such as "
            f"{named!r}."
        )
    got = "" if not location else f", got {fault['input']!r}"
    return f"{key or 'settings'}: {fault['msg']}{got}."


def keys() -> list[str]:
    """All dotted keys that can be set, `stages` by its fields, a free table by its name."""
    stages = [f"stages.0.{name}" for name in StageSettings.model_fields]
    return sorted([*_fields(RunConfig(), ""), *stages])


def _fields(section: Settings, prefix: str) -> list[str]:
    found: list[str] = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Settings):
            found += _fields(value, f"{prefix}{name}.")
        elif name != "stages":
            found.append(f"{prefix}{name}")
    return found
