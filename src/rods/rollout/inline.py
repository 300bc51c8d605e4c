"""Inline episodes: one response, into which the results of its programs are inserted.

Owns the state machine of stop strings: the policy writes, stops where a program ends, the program
is run, its result is appended as context, and the policy writes on in the same session. What it
sampled stays as sampled: an insertion is encoded once, by itself, and nothing is tokenized again.

Each program is one step. When the budget of calls is spent no stop string is set any more and the
policy just writes on, until it ends or writes one of `rollout.stop`; `rollout.steps_per_turn` does
not apply. A generation that meets a limit of tokens ends the response. The prompt is raw text,
there is one turn.

    trajectory = await InlineEpisode(context, task, member=0, noise=0).run()
"""

from __future__ import annotations

from rods.dialects import InlineDialect, Parsed
from rods.env import World
from rods.errors import ConfigError, TaskError
from rods.policy import Completion
from rods.rollout.episode import Episode, RolloutContext
from rods.task import Task
from rods.trajectory import Step
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolResult


class InlineEpisode(Episode):
    """The state of one trajectory of an inline dialect."""

    def __init__(self, context: RolloutContext, task: Task, member: int, noise: int) -> None:
        super().__init__(context, task, member, noise)
        if not isinstance(context.dialect, InlineDialect):
            raise ConfigError("model.dialect: an inline episode needs an inline dialect.")
        self._fences = context.dialect
        self._segment: list[int] = []
        """Ids that the policy wrote since the last insertion."""

    async def _begin(self, world: World, index: int) -> None:
        """Enter the turn: the prompt is pending as raw text."""
        if len(self._task.turns) != 1 or self._task.dialogue:
            raise TaskError(
                f"task {self._task.id} has {len(self._task.turns)} turns and "
                f"{len(self._task.dialogue)} earlier messages; an inline dialect needs tasks with "
                "one question. Set model.dialect to one with structured calls."
            )
        await self._offered(world, index)
        tool = self._fences.tool
        if tool not in self._tools:
            raise ConfigError(
                f"model.dialect is inline and calls the tool {tool}; the environment "
                f"{self._context.environment.name} offers {', '.join(self._tools) or 'none'}. Set "
                "env.name to one that has it, or model.dialect to one with structured calls."
            )
        question = self._context.template.neutral(self._task.turns[index].user)
        self._say(Message("user", self._fences.prompt(question)))

    async def _turn(self, world: World, index: int) -> StopReason | None:
        """Write until the policy ends its response or a budget is spent."""
        template = self._context.template
        ids = self._first_ids(lambda: template.raw_prompt(self._pending[0].content))
        while True:
            if stop := self._no_room(ids):
                if self._segment:  # what was written since the last insertion is kept
                    self._step(index, Parsed(ParseVerdict.TRUNCATED), FinishReason.LENGTH, ())
                return stop
            completion = await self._generate(ids, self._stops())
            self._segment += completion.ids
            if completion.finish is not FinishReason.STOP_STRING or self._ends(completion):
                # The response ended: by its end-of-turn token, by `rollout.stop`, or at a limit.
                cut = completion.finish is FinishReason.LENGTH
                end = Parsed(ParseVerdict.TRUNCATED if cut else ParseVerdict.ANSWER)
                self._step(index, end, completion.finish, ())
                return self._exceeded(tokens=1, context=1) if cut else None
            parsed = self._fences.read(self._text())
            if parsed is None:
                ids = []
                continue
            shown, stop = await self._run(world, index, parsed)
            if stop:
                return stop
            ids = template.encode(self._fences.insert(shown))

    def _stops(self) -> tuple[str, ...]:
        """Stop strings of the next generation: of the answer, of programs while calls are left."""
        ends = self._settings.stop
        if self._usage.calls >= self._settings.calls:
            return ends
        return (*self._fences.stops(self._text()), *ends)

    def _ends(self, completion: Completion) -> bool:
        """True if what stopped the generation ends the answer."""
        ends = self._settings.stop
        text = self._context.template.decode(completion.ids) if ends else ""
        return any(end in text for end in ends)

    def _text(self) -> str:
        return self._context.template.decode(self._segment)

    async def _run(self, world: World, index: int, parsed: Parsed) -> tuple[str, StopReason | None]:
        """Run the program, or say that there is none: what is inserted, and whether to stop."""
        results: tuple[ToolResult, ...] = ()
        stop = None
        if parsed.verdict is ParseVerdict.CALLS:
            results, stop = await self._execute(world, parsed.calls)
        else:
            # An attempt without a program counts too, so that attempts end.
            self._usage.calls += 1
        self._step(index, parsed, FinishReason.STOP_STRING, results)
        shown = "".join(self._shown(result) for result in results) or parsed.feedback
        self._messages.append(Message("tool", shown))
        return shown, stop

    def _shown(self, result: ToolResult) -> str:
        """Text that the policy reads of a result; shortening is counted."""
        template = self._context.template
        clean = ToolResult(template.neutral(result.content), result.failed)
        shown = self._fences.shorten(clean, lambda text: len(template.encode(text)))
        self._cut += len(shown) < len(clean.content.strip())
        return shown

    def _step(
        self, index: int, parsed: Parsed, finish: FinishReason, results: tuple[ToolResult, ...]
    ) -> None:
        text = self._text()
        shown = parsed.calls if parsed.verdict is ParseVerdict.CALLS else ()
        self._messages.append(Message("assistant", text, shown))
        self._steps.append(
            Step(index, text, parsed.verdict, finish, parsed.calls, results, len(self._segment))
        )
        self._segment = []
