"""Table of all checks of settings: contradictions and their messages.

Owns every refusal that needs only the settings, and the settings that a host trainer may not
support. Settings without effect are in `unread.py`, because the layer that sets them matters.
Checks that need files, the model or the machine are where those are known.

    faults(config, "settings")              # [] where nothing contradicts
    require(config, "training")             # raises ConfigError
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, TypeAlias

from rods.config.curriculum import StaticSettings
from rods.config.sections import Sections
from rods.config.train import TrainSettings
from rods.errors import ConfigError
from rods.infra.dotted import nearest, shown

NONE_HELD_OUT = (
    "env.held_out = 0 leaves nothing to evaluate on. Set it above 0, or name files of tasks in "
    "evaluation.files."
)
NO_END = "No length is set (updates = 0), and {} needs one. Set updates, such as --updates 200."
ALONE = ("gae", "reinforce++")
"""Advantages that need no group."""
AMONG_PEERS = ("grpo", "dr_grpo", "rloo")
"""Advantages that only compare within a group, so that they also fit other sets of peers."""
Where: TypeAlias = Literal["settings", "run", "training"]
"""`settings`: always. `run`: before all rollouts. `training`: before the local trainer."""
Need: TypeAlias = Callable[[Sections], str]
"""Names the settings that need a feature; empty: none does."""


def faults(config: Sections, where: Where) -> list[str]:
    """Return the messages of the failed checks of `where`."""
    return [text for check in CHECKS[where] for text in check(config)]


def require(config: Sections, where: Where) -> None:
    """Raise `ConfigError` with one line for each fault of `where`."""
    if found := faults(config, where):
        raise ConfigError("\n".join(found))


# -- contradictions of settings ------------------------------------------------------------------


def _pool(config: Sections) -> Iterator[str]:
    low, high = config.boundary.low, config.boundary.high
    if low >= high:
        yield (
            f"boundary.low must be below boundary.high, got {low:g} and {high:g}: no task would "
            "lie between. Lower the first or raise the second."
        )
    if config.curriculum != "static" and config.static != StaticSettings():
        yield (
            "static.variants belongs to a fixed pool, and curriculum is "
            f'"{config.curriculum}". Set curriculum = "static", or leave static.variants out.'
        )
    names = [stage.name for stage in config.stages]
    unknown = [name for name in config.envtuning.hints if name not in names]
    if not names:
        yield "stages: at least one stage is needed, got none. Add a table [[stages]]."
    elif len(set(names)) < len(names):
        twice = next(n for n, name in enumerate(names) if name in names[:n])
        yield f"stages.{twice}.name: names must differ, got {names}. Rename one."
    elif unknown:
        hint = nearest(unknown[0], names)
        yield f"envtuning.hints: no stage is called {unknown[0]!r}. Name some of {names}.{hint}"


def _evaluated(config: Sections) -> Iterator[str]:
    # Generated tasks and those of a benchmark have a split of their own.
    if config.env.tasks and not config.env.held_out and not config.evaluation.files:
        yield NONE_HELD_OUT


def _ends(config: Sections) -> Iterator[str]:
    if config.grows:  # else the pool's size says how long the stages are
        yield from endless(config)


def endless(config: Sections) -> Iterator[str]:
    """Yield what is wrong where `updates` is 0 and the schedule needs their number."""
    if config.train.schedule == "cosine" and not config.updates:
        yield NO_END.format('train.schedule = "cosine"')


def _growth(config: Sections) -> Iterator[str]:
    if config.curriculum != "rods":
        return
    if not config.grows:
        yield (
            'curriculum = "rods": no stage has expand = true, so no variant would ever be made. '
            "Set stages.N.expand = true where the pool must grow, or train with "
            "--curriculum static."
        )
    if config.rollout.k == 1:
        yield (
            'curriculum = "rods": with rollout.k = 1 a group has one reward, and no mean can lie '
            "at the boundary. Set rollout.k to 4 or more."
        )


def _importable(config: Sections) -> Iterator[str]:
    environment = config.env.arguments.get("environment", config.env.name)
    worker = "the synthesis worker" if config.grows else ""
    worlds = config.rollout.worlds.processes or config.ray.worlds
    for key, name, other in (
        ("env.name", environment, worker or ("each process of worlds" if worlds else "")),
        ("synthesis.writer", config.synthesis.writer, worker),
    ):
        module, _, attribute = str(name).partition(":")
        if module == "__main__" and other:
            leave = ", or train with --curriculum static" if other == worker else ""
            yield (
                f"{key} = {name!r}: {other} is another process and cannot import a notebook or a "
                f"script. Write it into a file and name FILE.py:{attribute}{leave}."
            )
            return


def _update(config: Sections) -> Iterator[str]:
    train = config.train
    if config.rollout.k == 1 and train.advantage not in ALONE:
        yield (
            f'rollout.k = 1 leaves train.advantage = "{train.advantage}" no group to compare with. '
            f"Set rollout.k to 2 or more, or train.advantage to one of {', '.join(ALONE)}."
        )
    among_peers = train.advantage in AMONG_PEERS and train.mask_env_tokens
    if train.credit != "trajectory" and not among_peers:
        yield (
            f'train.credit = "{train.credit}" compares peers and gives credit to sampled tokens. '
            f'It needs train.advantage of {", ".join(AMONG_PEERS)}, got "{train.advantage}", and '
            f'train.mask_env_tokens = true. Set those, or train.credit = "trajectory".'
        )
    elif train.credit == "turn" and train.kl and train.kl_in == "reward":
        yield (
            'train.credit = "turn" reads rewards of turns, and train.kl_in = "reward" changes only '
            'the reward of the trajectory. Set train.kl_in = "loss", or train.kl = 0.'
        )
    if train.advantage == "gae" and not train.mask_env_tokens:
        yield (
            'train.advantage = "gae" has no value for tokens of the environment, and '
            "train.mask_env_tokens = false trains on them. Set it to true, or choose another "
            "advantage."
        )
    if 0 < train.dual_clip <= 1:
        yield (
            f"train.dual_clip = {train.dual_clip:g} would clip the unchanged policy; expected 0 "
            "(off) or a number above 1. Set it to 3, the usual value, or to 0."
        )


def _engine(config: Sections) -> Iterator[str]:
    engine, traits = config.engine, config.engine.traits
    there = traits.server and not traits.started
    named = engine.url or engine.model
    if there and not engine.url:
        yield (
            f'engine.name = "{engine.name}" needs the address of a server. Set engine.url, such as '
            "http://localhost:8000/v1."
        )
    elif named and not there and not traits.foreign:
        yield (
            f"engine.url and engine.model name a running server ({named}), and engine.name = "
            f'"{engine.name}" uses none. Set engine.name = "openai", or leave them out.'
        )
    if not traits.ways and (engine.weights or engine.folder):
        yield (
            "engine.weights and engine.folder are settings of servers, and "
            f'engine.name = "{engine.name}" samples from the trainer\'s weights. Leave them out.'
        )
    elif engine.weights and engine.weights not in traits.ways:
        yield (
            f'engine.weights = "{engine.weights}": engine.name = "{engine.name}" takes '
            f"{' or '.join(traits.ways)}. Leave engine.weights out."
        )
    elif there and engine.weights in ("folder", "lora") and not engine.folder:
        yield (
            f'engine.weights = "{engine.weights}" writes weights to a folder, and none is '
            "named. Set engine.folder to one that the server can read."
        )


def _adapters_alone(config: Sections) -> Iterator[str]:
    engine, rank = config.engine, config.model.lora_rank
    way = engine.weights or ("lora" if engine.traits.started else "fixed")
    if engine.traits.server and way != "fixed" and not (rank and way == "lora"):
        yield (
            f'engine.name = "{engine.name}": `rods train` can only give LoRA adapters to a server, '
            f'and model.lora_rank = {rank} with engine.weights = "{engine.weights}" needs all '
            'weights. Set model.lora_rank and engine.weights = "lora", or train all weights with '
            'engine.name = "hf", `rods trl` or `rods verl`.'
        )


CHECKS: Mapping[Where, Sequence[Callable[[Sections], Iterator[str]]]] = {
    "settings": (_pool, _update, _engine, _importable),
    "run": (_growth,),
    "training": (_adapters_alone, _evaluated, _ends),
}
"""All checks in the order of their messages, which state the fault, what is expected, and a fix."""


# -- hosts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostTrainer:
    """A host trainer and the features that it lacks."""

    name: str
    """Subject of a sentence in messages."""
    lacks: frozenset[str]
    """Keys of `NEEDS`."""
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of settings that it does not read, by section."""


def limits_perplexity(train: TrainSettings) -> bool:
    """Return true if the filter asks for perplexities under the frozen initial policy."""
    return train.filter not in ("none", "dapo") and train.filtering.max_perplexity > 0


def _asked(key: str, when: Callable[[Sections], bool]) -> Need:
    """Make a `Need` that names a setting with its value if `when` holds."""
    value = attrgetter(key)
    return lambda config: f"{key} = {shown(value(config))}" if when(config) else ""


def _reward_kl(config: Sections) -> bool:
    return bool(config.train.kl) and config.train.kl_in == "reward"


def _fixed(config: Sections) -> str:
    traits = config.engine.traits
    fixed = traits.server and not traits.started and config.engine.weights in ("", "fixed")
    return f'engine.name = "{config.engine.name}" with fixed weights' if fixed else ""


def _whole(config: Sections) -> str:
    whole = config.engine.traits.started and not config.model.lora_rank
    return f'engine.name = "{config.engine.name}" without model.lora_rank' if whole else ""


def _truncated_nucleus(config: Sections) -> str:
    wrong = config.rollout.top_p < 1 and config.train.correction.method == "truncated"
    text = 'rollout.top_p below 1 with train.correction.method = "truncated" (its servers report '
    return f"{text}the log-probabilities within the nucleus)" if wrong else ""


NEEDS: Mapping[str, Need] = {
    "critic": _asked("train.advantage", lambda c: c.train.advantage == "gae"),
    "kl in rewards": _asked("train.kl_in", _reward_kl),
    "kl in rewards of groups": lambda c: (
        'train.kl_in = "reward" without train.advantage = "gae"'
        * (_reward_kl(c) and c.train.advantage != "gae")
    ),
    "loss of inserted tokens": _asked(
        "train.mask_env_tokens", lambda c: not c.train.mask_env_tokens
    ),
    "perplexity": _asked("train.filtering.max_perplexity", lambda c: limits_perplexity(c.train)),
    "further draws": _asked(
        "train.filtering.redraw",
        lambda c: c.train.filter != "none" and c.train.filtering.redraw > 0,
    ),
    "filter of a critic": lambda c: (
        'train.filter with train.advantage = "gae"'
        * (c.train.filter != "none" and c.train.advantage == "gae")
    ),
    "truncated weights": _asked(
        "train.correction.method", lambda c: c.train.correction.method == "truncated"
    ),
    "truncated weights in a nucleus": _truncated_nucleus,
    "aggregation of gspo": lambda c: (
        f'train.aggregation = "{c.train.aggregation}" with train.loss = "gspo"'
        * (c.train.loss == "gspo" and c.train.aggregation != "sequence")
    ),
    "credit of gspo": lambda c: (
        f'train.credit = "{c.train.credit}" with train.loss = "gspo"'
        * (c.train.loss == "gspo" and c.train.credit != "trajectory")
    ),
    "pipeline": _asked("rollout.schedule", lambda c: c.rollout.schedule == "pipelined"),
    "synchronous turns": _asked("rollout.schedule", lambda c: c.rollout.schedule == "synchronous"),
    "fixed weights": _fixed,
    "all weights for a server": _whole,
    "our engines": _asked(
        "engine.name", lambda c: not (c.engine.traits.undecided or c.engine.traits.started)
    ),
    "limit of trajectories": _asked("trajectories", lambda c: c.trajectories > 0),
    "evaluation on the way": _asked("evaluation.every", lambda c: c.evaluation.every > 0),
}
"""Features that settings need of a host trainer, by their name in `HostTrainer.lacks`."""


def lacking(config: Sections, host: HostTrainer) -> list[str]:
    """Return the settings that need a feature that a host lacks, or that it does not read.

    An unread setting at its default is not a fault.
    """
    asked = [name(config) for need, name in NEEDS.items() if need in host.lacks]
    default = type(config)()
    unread = [f"{section}.{name}" for section, found in host.unread.items() for name in found]
    return [
        *filter(None, asked),
        *(key for key in unread if attrgetter(key)(config) != attrgetter(key)(default)),
    ]


def require_host(config: Sections, host: HostTrainer, *more: str) -> None:
    """Raise `ConfigError` if settings need what a host lacks; its adapter may name `more`."""
    if asked := [*lacking(config, host), *more]:
        raise ConfigError(
            f"{host.name} does not support {', '.join(asked)}. Change it, or train with "
            "`rods train`."
        )
