"""Configurations that are refused before anything is made.

Owns the refusals that need more than the settings: names that mean nothing, environments without
variants, engines that never change. What contradicts itself in the settings is refused by `config`.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence

from rods.abilities import ProgramRunner, QuestionSource, Variability, ability, in_process, unvaried
from rods.assemble.tasks import Splits, splits_of
from rods.config import RunConfig
from rods.config.bundled import BUNDLED, adapters_at, local_path
from rods.config.checks import require
from rods.dialects import Dialect, InlineDialect, get_dialect, structured_dialects
from rods.engines import require_engine
from rods.env import Environment
from rods.envs import ENVIRONMENTS, make_environment
from rods.envs.originals import require_splits
from rods.errors import ConfigError, PolicyError, TaskError
from rods.integrations import TrackSettings
from rods.integrations.trackers import packages_of
from rods.rewards import belongs, get_reward, require_tables, reward_of
from rods.rewards.filters import filter_of
from rods.rewards.single_step import SingleStepReward, wanted_of
from rods.synthesis.chat import LlmWriterSettings, split_address
from rods.synthesis.structure.trace import all_tools
from rods.task import Task
from rods.types import ToolCall
from rods.writers import OF_CALLS, WRITERS, writer_factory


def startable(config: RunConfig, evaluates: bool = True) -> Splits:
    """Return the tasks of a training that can begin, as far as settings and their files say.

    Raises what any `require_` function here does, `TaskError` for a broken file, and `ConfigError`
    for an empty split. `evaluates`: a held-out split is needed. Nothing of it imports torch.
    """
    require_named(config)
    for table in config.rewards:  # a recipe may have it for a reward that the command line replaced
        if not any(belongs(table, stage.reward) for stage in config.stages):
            note = f"rewards.{table} has no effect: no stage has this reward"
            logging.getLogger(__name__).warning(note)
    environment = make_environment(config.env.name, config.env.arguments)
    splits = splits_of(config, environment)
    require_splits(splits.train, splits.held_out, config.env, evaluates)
    require_tasks(config, environment, splits.originals)
    require_known_tools(config, environment, splits.originals)
    return splits


def require_named(config: RunConfig) -> None:
    """Find what settings name before anything is made; raises `ConfigError`."""
    if not config.engine.traits.undecided:
        require_engine(config.engine.name)
    dialect = get_dialect(config.model.dialect)
    if config.curriculum == "envtuning" and isinstance(dialect, InlineDialect):
        raise ConfigError(
            f'curriculum = "envtuning": the programs of model.dialect = "{config.model.dialect}" '
            'are written inside one response and get no hints. Take curriculum = "static".'
        )
    ENVIRONMENTS.address(config.env.name)
    filter_of(config.train)
    require_tables(config.rewards)
    for number, stage in enumerate(config.stages):
        setting = f"stages.{number}.reward"
        reward = reward_of(stage.reward, config.rewards, setting)
        if isinstance(reward, SingleStepReward) and config.rollout.steps_per_turn > 1:
            raise ConfigError(
                f"{setting}: {stage.reward!r} scores one response, but rollout.steps_per_turn is "
                f"{config.rollout.steps_per_turn}. Set it to 1."
            )
    if config.curriculum == "rods":
        writer_factory(config.synthesis.writer)
        _require_growth(config)
    require(config, "run")
    packages_of(config.section(TrackSettings).names)
    require_whole(config)


def require_whole(config: RunConfig) -> None:
    """Raises `ConfigError` where a server would begin with the base of adapters alone."""
    engine, folder = config.engine, local_path(config.model.name)
    base = engine.traits.started or (engine.traits.server and engine.weights == "lora")
    if base and adapters_at(config.model.name) is not None:
        raise ConfigError(
            f'engine.name = "{engine.name}": {folder} holds LoRA adapters, and the server would '
            'start with only their base. Set engine.name = "hf", or merge them into a new folder '
            "first (rods export)."
        )


def _require_growth(config: RunConfig) -> None:
    """Raises `ConfigError` where `curriculum = "rods"` would never make a variant."""
    says = ability(make_environment(config.env.name, config.env.arguments), Variability)
    if says and not says.varies:
        raise ConfigError(
            f'curriculum = "rods": there is no writer of variants for env.name '
            f"{config.env.name!r}. Train with --curriculum static. If the tasks come from "
            "conversations, make variants of those (rods synth) and name the file in env.tasks."
        )
    if config.synthesis.writer == "llm":
        split_address(config.synthesis.section(LlmWriterSettings).url)


def require_tasks(config: RunConfig, environment: Environment, tasks: Sequence[Task]) -> None:
    """Refuse a pool on which the settings would train in vain, or fail at the first group.

    Raises `ConfigError`, or `RewardError` where a single-step reward could not score a task.
    """
    require_interruptible(config, environment)
    require_writable(config, tasks)
    require_single_steps(config, tasks)
    require_calls(config, tasks)
    require_variants(config, environment, tasks)


def require_known_tools(config: RunConfig, environment: Environment, tasks: Sequence[Task]) -> None:
    """Raises `PolicyError` where a bundled policy does not know one of the tasks' tools."""
    if config.model.name not in BUNDLED:
        return
    card = json.loads((BUNDLED[config.model.name] / "card.json").read_text(encoding="utf-8"))
    if "tools" not in card:  # a language model, which reads what it is shown
        return
    known = set(card["tools"])
    for task in tasks:  # worlds elsewhere show their tools in a turn alone
        offered = all_tools(in_process(environment), task)
        if unknown := [tool for tool in offered if tool not in known]:
            more = f" and {len(unknown) - 3} more" * (len(unknown) > 3)
            raise PolicyError(
                f'model.name = "{config.model.name}": this bundled policy was pretrained with '
                f"other tools than those of env.name = {config.env.name!r} "
                f"({', '.join(unknown[:3])}{more}), so it would never call them. Name your own "
                "model: --model FOLDER_OR_HUB_NAME, or model.name=... for rods.load_config. Or "
                "teach smollm2-bfcl these tools on this machine: `rods demonstrate`, `rods sft`, "
                "then the profile smollm2 with the model cold (docs/guides/cold-start.md)."
            )


def require_interruptible(config: RunConfig, environment: Environment) -> None:
    """Raises `ConfigError` for a deadline that nothing could keep, or a policy miss on purpose."""
    seconds = config.rollout.worlds.call_seconds
    apart = config.rollout.worlds.processes or config.ray.worlds  # of which a dry run starts none
    if seconds and not (environment.blocking or apart):
        raise ConfigError(
            f"rollout.worlds.call_seconds = {seconds:g} has no effect: worlds of env.name = "
            f'"{config.env.name}" only compute, and are not interrupted. Run them in processes, '
            "which are ended (rollout.worlds.processes), or leave it out."
        )
    runner = ability(environment, ProgramRunner)
    longest = runner.program_seconds if runner else 0.0
    if 0 < seconds <= longest:
        raise ConfigError(
            f"rollout.worlds.call_seconds = {seconds:g}, but a program of the policy may run for "
            f"{longest:g} s: by sleeping it would make its trajectory invalid. Set it above "
            f"{longest:g}, or lower the seconds of a program (env.{config.env.name}.seconds)."
        )


def require_variants(config: RunConfig, environment: Environment, tasks: Sequence[Task]) -> None:
    """Raises `ConfigError` for a pool of which `synthesis.writer` could not vary one task."""
    writer = config.synthesis.writer
    if not config.grows or writer not in WRITERS:
        return
    if note := unvaried(environment):
        logging.getLogger(__name__).warning(note)
    why = ""
    if writer == "family" or (writer in OF_CALLS and ability(environment, QuestionSource)):
        if not any(_made_again(environment, task) for task in tasks):
            why = (
                "is a generated question, of which there could be another (those of files have no "
                "family). Leave env.tasks empty"
            )
    elif not any(task.calls for task in tasks):
        why = "has calls in its ground truth, which is what this writer varies. Take another one"
    if why:
        raise ConfigError(
            f'curriculum = "rods", synthesis.writer = "{writer}": none of the {len(tasks)} tasks '
            f"of env.name = {config.env.name!r} {why}, or train with --curriculum static."
        )


def _made_again(environment: Environment, task: Task) -> bool:
    """True if the environment could make another question like this one."""
    source = ability(environment, QuestionSource)
    try:
        return source is not None and source.another(task, random.Random(0)) is not None
    except (TaskError, ConfigError):  # the writer rejects such a task, too
        return False


def require_writable(config: RunConfig, tasks: Sequence[Task]) -> None:
    """Raises `ConfigError` where the dialect cannot write a call that a task wants."""
    name = config.model.dialect
    for call, able, unable in writers_of(tasks):
        if name in unable:
            raise ConfigError(
                f'model.dialect = "{name}" cannot write calls such as {call}, which a task of '
                f"{config.env.name!r} wants. Take one of {', '.join(able)}."
            )


def writers_of(tasks: Sequence[Task]) -> list[tuple[ToolCall, list[str], list[str]]]:
    """Calls that tasks want, without values; which structured dialects write each, which cannot."""
    used = (call for task in tasks for call in task.calls)
    calls = {(c.name, *c.arguments): ToolCall(c.name, dict.fromkeys(c.arguments, "")) for c in used}
    plain = structured_dialects()
    rows: list[tuple[ToolCall, list[str], list[str]]] = []
    for call in calls.values():
        able = [name for name, dialect in plain.items() if _writes(dialect, call)]
        rows.append((call, able, [name for name in plain if name not in able]))
    return rows


def _writes(dialect: Dialect, call: ToolCall) -> bool:
    try:
        return bool(dialect.write([call]))
    except TaskError:
        return False


def require_single_steps(config: RunConfig, tasks: Sequence[Task]) -> None:
    """Raises `RewardError` for a task that a single-step reward of some stage could not score."""
    if any(isinstance(get_reward(stage.reward), SingleStepReward) for stage in config.stages):
        for task in tasks:
            wanted_of(task)


def require_calls(config: RunConfig, tasks: Sequence[Task]) -> None:
    """Raises `ConfigError` where credit is to be given by call and no task wants one."""
    if config.train.credit != "call" or any(task.calls for task in tasks):
        return
    raise ConfigError(
        f'train.credit = "call": none of the {len(tasks)} tasks of env.name = '
        f'"{config.env.name}" has calls in its ground truth, so there is nothing to match calls '
        'with. Take train.credit = "trajectory".'
    )
