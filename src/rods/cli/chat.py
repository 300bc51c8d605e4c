"""`rods chat`: the user's side of a conversation; the agent's is `rods.rollout.episode`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count, dropwhile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from rods.cli.common import Dialect, OwnProfile, Policy, Recipe, Source, out, say
from rods.cli.evaluate import chosen, conversing
from rods.cli.structure import NumberedTask, find
from rods.config import SMALL, RunConfig
from rods.dialects import Parsed, signature
from rods.env import TurnVerdict, World, called
from rods.errors import ConfigError, EnvError
from rods.policy import Completion
from rods.rollout.episode import Episode, RolloutContext
from rods.task import Turn
from rods.types import ParseVerdict, ToolCall, ToolResult, ToolSpec

COMMANDS = "/tools lists the tools, /reset starts again in a fresh world, /quit leaves."
PICTURES = {c: 0x2400 + c for c in range(32) if chr(c) not in "\n\t"}  # of what terminals obey


def chat(
    context: typer.Context,
    source: Source = "",
    recipe: Recipe = "rods",
    profile: OwnProfile = SMALL,
    model: Policy = "",
    task: Annotated[
        str, typer.Option(help="Name or id of the world's task. [default: the first held-out one]")
    ] = "",
    dialect: Dialect = "",
    temperature: Annotated[float, typer.Option(min=0, max=5, help="0 is greedy.")] = 0.0,
) -> None:
    """Talk with a policy, whose calls run in a task's world.

    Any setting: --section.key VALUE. A conversation ends when the budget of context is spent."""
    config, run = chosen(context, recipe, profile, (source, model), {"model.dialect": dialect})
    # Not the usual handler, which asyncio would replace; its own waits until a line is typed.
    former = signal.signal(signal.SIGINT, lambda *a: signal.default_int_handler(*a))
    try:
        asyncio.run(_converse(config, run, task, temperature))
    except EOFError:
        out().print()
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input: expected UTF-8, but {error}.") from error
    finally:
        signal.signal(signal.SIGINT, former)


async def _converse(config: RunConfig, run: Path | None, name: str, temperature: float) -> None:
    """Converse until the user leaves, in one conversation after the other."""
    dialect = conversing(config, run)
    if config.rollout.steps_per_turn == 1:
        raise ConfigError("rollout.steps_per_turn = 1: no step is left to read a call's result.")
    say(f"loading {run or config.model.name} and the world ...")
    from rods.assemble.refusals import require_known_tools
    from rods.assemble.tasks import splits_of
    from rods.envs.remote.processes import environment_of

    with closing(environment_of(config)) as environment:
        splits = splits_of(config, environment)
        tasks = [NumberedTask(0, task) for task in (*splits.held_out, *splits.train)]
        task = find(name, tasks, config.env.name) if name else tasks[0].task
        require_known_tools(config, environment, [task])
        from rods.assemble.evaluated import ready_policy
        from rods.engines.threads import most_threads

        budgets = {"generated_tokens": config.rollout.context_tokens, "concurrency": 1}
        rollout = config.rollout.model_copy(update={**budgets, "temperature": temperature})
        typed = replace(task, turns=(Turn(""),) * (rollout.turns + 1), dialogue=())
        # One conversation is too little work for a measurement: it takes the cores that are idle.
        idle = max(1, most_threads() - round(os.getloadavg()[0]))
        used = config.model.model_copy(update={"threads": config.model.threads or idle})
        more = {"rollout": rollout, "model": used}
        async with ready_policy(config.model_copy(update=more), run) as ready:
            world = f"{config.env.name}, task {task.provenance.origin or task.id}"
            say(f"The world: {world} (--env.name and --task name others). {COMMANDS}")
            say(f"This task begins with: {task.turns[0].user}")
            how = dialect, ready[1], rollout, config.seed
            context = RolloutContext(environment, ready[0], *how, wrapper=_LiveWorld)
            for number in count():
                with suppress(_Reset):
                    trajectory = await _ShownEpisode(context, typed, 0, number).run()
                    if trajectory.failure is not None:
                        raise EnvError(trajectory.failure)
                    say(f"A budget is spent ({trajectory.stop}); a new conversation begins.")


class _Reset(Exception): ...


class _ShownEpisode(Episode):
    """An episode whose turns begin with a typed message, and whose generations are shown."""

    async def _begin(self, world: World, index: int) -> None:
        if self._steps and self._steps[-1].verdict is not ParseVerdict.ANSWER:
            say("There is no answer within rollout.steps_per_turn generations.")
        tools = await self._owner(world.offered)
        self._task = replace(self._task, turns=(Turn(_typed(tools)),) * len(self._task.turns))
        await super()._begin(world, index)

    def _parse(self, before: Sequence[int], completion: Completion) -> tuple[Parsed, str]:
        parsed, text = super()._parse(before, completion)
        if parsed.verdict is ParseVerdict.ANSWER:
            _show(f"agent: {parsed.answer}", "bold")
        elif parsed.verdict.is_error:
            _show(f"  {parsed.verdict}: {text}\n  {parsed.feedback}", "red")
        return parsed, text


class _LiveWorld:
    """A world that stays in its first turn, and shows calls and results."""

    def __init__(self, inner: World) -> None:
        inner.begin_turn(0)
        self._inner, self.offered, self.snapshot = inner, inner.offered, inner.snapshot
        self.close = inner.close

    def begin_turn(self, index: int) -> None: ...

    def call(self, call: ToolCall) -> ToolResult:
        result = called(self._inner, call)
        _show(f"  {call}", "cyan")
        _show(f"  {result.content}", "red" if result.failed else "dim")
        return result

    def end_turn(self) -> TurnVerdict:
        return TurnVerdict(expects_calls=False, calls=0, state=True, executed=True, official=True)


def _typed(tools: Sequence[ToolSpec]) -> str:
    """The user's next message; commands are done here."""
    while True:
        text = input("you: " * sys.stdin.isatty()).strip()
        if text == "/quit":
            raise EOFError
        if text == "/reset":
            raise _Reset
        if text == "/tools":
            _show("\n".join(_listed(tools)))
        elif text.startswith("/") and text[1:].isalpha():
            say(f"There is no {text}. {COMMANDS}")
        elif text:
            if not sys.stdin.isatty():
                _show(f"you: {text}")
            return text


def _listed(tools: Sequence[ToolSpec]) -> Iterator[str]:
    """A line for each tool, without the sentences with which an earlier description began."""
    said: set[str] = set()
    for tool in tools:
        sentences = re.split(r"(?<=[.:]) +", tool.description)
        own = [*dropwhile(said.__contains__, sentences)] or sentences
        said.update(own)
        yield f"{signature(tool)}: {' '.join(own)}"


def _show(text: str, style: str = "") -> None:
    out().print(Text(text.translate(PICTURES), style=style))
