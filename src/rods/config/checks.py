"""The one table of checks of settings: which settings contradict each other, and why.

Owns every refusal that follows from settings alone, and which settings ask of a host trainer what
it may lack. Settings that are merely not read are in `unread.py`, because that depends on where
they were set. What depends on files, the model or the machine is checked where those are known.

    faults(config, "settings")              # [] where nothing contradicts
    require(config, "training")             # raises ConfigError
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, TypeAlias

from rods.config.curriculum import StaticSettings
from rods.config.sections import Sections
from rods.errors import ConfigError
from rods.infra.dotted import shown

ALONE = ("gae", "reinforce++", "reinforce++_by_trajectory")
"""Advantages that need no group."""
AMONG_PEERS = ("grpo", "dr_grpo", "rloo")
"""Advantages that compare within a group alone, so that they can within other sets of peers."""
Where: TypeAlias = Literal["settings", "run", "training"]
"""`settings`: always. `run`: of whatever plays tasks. `training`: of the local trainer."""
Check: TypeAlias = Callable[[Sections], str]
"""Gives a message with the fault, what is expected and what to do; empty: no fault."""


def faults(config: Sections, where: Where) -> list[str]:
    """Return the message of each check of a place that the settings do not pass."""
    return [text for check in CHECKS[where] if (text := check(config))]


def require(config: Sections, where: Where) -> None:
    """Raise `ConfigError` with one line for each fault of a place."""
    if found := faults(config, where):
        raise ConfigError("\n".join(found))


# -- pool, boundary, stages ----------------------------------------------------------------------


def _boundary(config: Sections) -> str:
    low, high = config.boundary.low, config.boundary.high
    if low < high:
        return ""
    return (
        f"boundary.low must be below boundary.high, got {low:g} and {high:g}: no task would lie "
        "between. Lower the first or raise the second."
    )


def _retire(config: Sections) -> str:
    bounds = config.replay.retire
    if not bounds or bounds[0] < bounds[1]:
        return ""
    return (
        f"replay.retire = {list(bounds)}: its first number must be below its second, or every "
        "variant would be retired. Swap them, or set [] to retire none."
    )


def _static(config: Sections) -> str:
    if config.curriculum == "static" or config.static == StaticSettings():
        return ""
    return (
        "static.variants belongs to a fixed pool, and curriculum is "
        f'"{config.curriculum}". Set curriculum = "static", or leave static.variants out.'
    )


def _stages(config: Sections) -> str:
    if not config.stages:
        return "stages: at least one stage is needed, got none. Add a table [[stages]]."
    names = [stage.name for stage in config.stages]
    if len(set(names)) < len(names):
        return f"stages: names must differ, got {names}. Rename one (stages.N.name)."
    unknown = [name for name in config.envtuning.hints if name not in names]
    if not unknown:
        return ""
    return f"envtuning.hints: no stage is called {unknown[0]!r}. Name some of {names}."


def _held_out(config: Sections) -> str:
    if config.env.held_out or config.evaluation.files:
        return ""
    return (
        "env.held_out = 0 leaves nothing to evaluate on. Set it above 0, or name files of tasks "
        "in evaluation.files."
    )


def _never_grows(config: Sections) -> str:
    if config.curriculum != "rods" or config.grows:
        return ""
    return (
        'curriculum = "rods": no stage has expand = true, so no variant would ever be made. '
        "Set it in the stages that are to grow (stages.N.expand), or train with "
        "--curriculum static."
    )


def _no_mean(config: Sections) -> str:
    if config.curriculum != "rods" or config.rollout.k > 1:
        return ""
    return (
        'curriculum = "rods": rollout.k = 1 shows one reward of a task at a time, so no mean '
        "that would lie at the boundary. Set rollout.k to 4 or more."
    )


def _importable(config: Sections) -> str:
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
            return (
                f"{key} = {name!r}: a notebook or a script is known to this process alone, and "
                f"{other} is another one. Write it into a file and name FILE.py:{attribute}{leave}."
            )
    return ""


# -- the update ----------------------------------------------------------------------------------


def _window(config: Sections) -> str:
    low, high = config.train.filtering.window
    if low < high:
        return ""
    return (
        f"train.filtering.window = [{low:g}, {high:g}]: its first number must be below its second, "
        "or no group would train. Swap them."
    )


def _group_of_one(config: Sections) -> str:
    advantage = config.train.advantage
    if config.rollout.k > 1 or advantage in ALONE:
        return ""
    return (
        f'rollout.k = 1 leaves train.advantage = "{advantage}" no group to compare with. Set '
        f"rollout.k to 2 or more, or train.advantage to one of {', '.join(ALONE)}."
    )


def _credit(config: Sections) -> str:
    train = config.train
    if train.credit == "trajectory":
        return ""
    if train.advantage not in AMONG_PEERS or not train.mask_env_tokens:
        return (
            f'train.credit = "{train.credit}" compares peers and spreads that over sampled tokens. '
            f'It needs train.advantage of {", ".join(AMONG_PEERS)}, got "{train.advantage}", and '
            f'train.mask_env_tokens = true. Set those, or train.credit = "trajectory".'
        )
    if train.credit == "turn" and train.kl and train.kl_in == "reward":
        return (
            'train.credit = "turn" reads rewards of turns, and train.kl_in = "reward" changes that '
            'of the whole trajectory. Set train.kl_in = "loss", or train.kl = 0.'
        )
    return ""


def _gae(config: Sections) -> str:
    if config.train.advantage != "gae" or config.train.mask_env_tokens:
        return ""
    return (
        'train.advantage = "gae" has no value for tokens of the environment, and '
        "train.mask_env_tokens = false trains on them. Set it to true, or take another advantage."
    )


def _dual_clip(config: Sections) -> str:
    bound = config.train.dual_clip
    if not 0 < bound <= 1:
        return ""
    return (
        f"train.dual_clip = {bound:g} would clip the unchanged policy; expected 0 (off) or a "
        "number above 1. Set it to 3, as is usual, or to 0."
    )


# -- the engine ----------------------------------------------------------------------------------


def _address(config: Sections) -> str:
    engine, traits = config.engine, config.engine.traits
    if traits.server and not traits.started and not engine.url:
        return (
            f'engine.name = "{engine.name}" needs the address of a server. Set engine.url, such as '
            "http://localhost:8000/v1."
        )
    named = engine.url or engine.model
    if named and not traits.foreign and (traits.started or not traits.server):
        return (
            f"engine.url and engine.model name a server that is there ({named}), and engine.name = "
            f'"{engine.name}" asks none. Set engine.name = "openai", or leave them out.'
        )
    return ""


def _weights(config: Sections) -> str:
    engine, traits = config.engine, config.engine.traits
    if not traits.ways and (engine.weights or engine.folder):
        return (
            f'engine.weights and engine.folder are of servers, and engine.name = "{engine.name}" '
            "samples from the trainer's weights. Leave them out."
        )
    if engine.weights and engine.weights not in traits.ways:
        return (
            f'engine.weights = "{engine.weights}": engine.name = "{engine.name}" takes '
            f"{' or '.join(traits.ways)}. Leave engine.weights out."
        )
    shared = traits.server and not traits.started and engine.weights in ("folder", "lora")
    if shared and not engine.folder:
        return (
            f'engine.weights = "{engine.weights}" hands weights over in a folder, and none is '
            "named. Set engine.folder to one that the server sees too."
        )
    return ""


def _adapters_alone(config: Sections) -> str:
    engine, rank = config.engine, config.model.lora_rank
    way = engine.weights or ("lora" if engine.traits.started else "fixed")
    if not engine.traits.server or way == "fixed" or (rank and way == "lora"):
        return ""
    return (
        f'engine.name = "{engine.name}": `rods train` gives a server LoRA adapters alone, and '
        f'model.lora_rank = {rank} with engine.weights = "{engine.weights}" asks for all weights. '
        'Set model.lora_rank and engine.weights = "lora"; or train all weights with engine.name = '
        '"hf", `rods trl` or `rods verl`.'
    )


CHECKS: Mapping[Where, tuple[Check, ...]] = {
    "settings": (
        *(_boundary, _retire, _static, _stages, _held_out),
        *(_window, _group_of_one, _credit, _gae, _dual_clip),
        *(_address, _weights, _importable),
    ),
    "run": (_never_grows, _no_mean),
    "training": (_adapters_alone,),
}
"""All checks, in the order of their messages."""


# -- hosts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostTrainer:
    """A host trainer, by what it cannot do."""

    name: str
    """Subject of a sentence in messages."""
    lacks: frozenset[str]
    """Keys of `NEEDS`."""
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of settings that it has no use for, by section."""


def _asked(key: str, when: Callable[[Sections], bool]) -> Check:
    """Name a setting with its value where the settings ask for something by it."""
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


def _other_aggregation(loss: str, *known: str) -> Check:
    def name(config: Sections) -> str:
        train = config.train
        wrong = train.loss == loss and train.aggregation not in known
        return f'train.aggregation = "{train.aggregation}" with train.loss = "{loss}"' * wrong

    return name


NEEDS: Mapping[str, Check] = {
    "critic": _asked("train.advantage", lambda c: c.train.advantage == "gae"),
    "kl in rewards": _asked("train.kl_in", _reward_kl),
    "kl in rewards of groups": lambda c: (
        'train.kl_in = "reward" without train.advantage = "gae"'
        * (_reward_kl(c) and c.train.advantage != "gae")
    ),
    "loss of inserted tokens": _asked(
        "train.mask_env_tokens", lambda c: not c.train.mask_env_tokens
    ),
    "perplexity": _asked(
        "train.filtering.max_perplexity", lambda c: c.train.filtering.max_perplexity > 0
    ),
    "further draws": _asked("train.filtering.redraw", lambda c: c.train.filtering.redraw > 0),
    "filter of a critic": lambda c: (
        'train.filter with train.advantage = "gae"'
        * (c.train.filter != "none" and c.train.advantage == "gae")
    ),
    "truncated weights": _asked(
        "train.correction.method", lambda c: c.train.correction.method == "truncated"
    ),
    "truncated weights in a nucleus": _truncated_nucleus,
    "aggregation of cispo": _other_aggregation("cispo", "token"),
    "aggregation of gspo": _other_aggregation("gspo", "sequence"),
    "credit of gspo": lambda c: (
        f'train.credit = "{c.train.credit}" with train.loss = "gspo"'
        * (c.train.loss == "gspo" and c.train.credit != "trajectory")
    ),
    "lower bound of cispo": lambda c: (
        'train.clip_low below 1 with train.loss = "cispo"'
        * (c.train.loss == "cispo" and c.train.clip_low < 1)
    ),
    "cosine without an end": lambda c: (
        'train.schedule = "cosine" without updates'
        * (c.train.schedule == "cosine" and not c.updates)
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
"""Requests of settings to a host trainer, by their name in `HostTrainer.lacks`."""


def lacking(config: Sections, host: HostTrainer) -> list[str]:
    """Return the settings that ask for what a host lacks, or that it does not read.

    A setting that it does not read means nothing at its default.
    """
    asked = [name(config) for need, name in NEEDS.items() if need in host.lacks]
    default = type(config)()
    unread = [f"{section}.{name}" for section, found in host.unread.items() for name in found]
    return [
        *filter(None, asked),
        *(key for key in unread if attrgetter(key)(config) != attrgetter(key)(default)),
    ]


def require_host(config: Sections, host: HostTrainer, *more: str) -> None:
    """Raise `ConfigError` where settings ask for what a host lacks.

    Args:
        config: settings.
        host: the trainer.
        more: further settings that its adapter found it to lack.
    """
    if asked := [*lacking(config, host), *more]:
        raise ConfigError(
            f"{host.name} has nothing for {', '.join(asked)}. Change it, or train with "
            "`rods train`."
        )
