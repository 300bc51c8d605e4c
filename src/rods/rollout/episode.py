"""Episode: one policy tries one task in one world.

Owns the conversation: what the policy reads and when, the token ledger, the budgets and the
deadline. It never scores, and of a task it reads only the users' texts and what came earlier.

Worlds are synchronous. They are called inline, which is right for in-process worlds that take
microseconds; the deadline is looked at between calls. An environment that waits for something sets
`blocking = True`: each of its worlds then gets one owner thread, as many as there are trajectories
in flight (`rollout.concurrency`), and the event loop goes on meanwhile (`owner.py`).

Deadlines count what the world takes, never what the policy takes or the judge of its answer: on a
busy machine these are slow for all trajectories alike, and none of them is at fault. A call that
takes too long is a failure of infrastructure, so it is tried once more in a fresh world; a turn or
a trajectory whose seconds are spent is not. Where the policy's own programs ran for half of them or
more (`rods.env.Paced`), the trajectory is cut and valid: a policy must not discard it by sleeping.

    trajectory = await Episode(context, task, member=0, noise=0).run()
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from rods.abilities import StepRule, ability
from rods.config import RolloutSettings
from rods.dialects import AnyDialect, Dialect, Parsed, structured
from rods.dialects.base import nested
from rods.env import (
    AnswerJudge,
    Ending,
    Environment,
    TurnVerdict,
    UserSimulator,
    World,
    Wrapper,
    called,
    seconds_ran,
)
from rods.errors import EnvError, PolicyError
from rods.infra.interrupt import shown
from rods.limits import Usage, exceeded, step_budget
from rods.policy import Completion, Policy, Session, episode_seed, joined
from rods.rollout.lockstep import Lockstep, Passage, StagePlaces
from rods.rollout.owner import Late, Owner
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.tokens import Ledger
from rods.trajectory import Step, Trajectory
from rods.types import (
    FinishReason,
    Message,
    ParseVerdict,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
)

ABORTS = 16
"""Number of times that one generation may be broken off and continued."""
MORE_TOOLS = "More functions are available now:"
"""Introduces tools that a later turn offers."""


@dataclass(frozen=True)
class RolloutContext:
    """State that all trajectories of a step share."""

    environment: Environment
    policy: Policy
    dialect: AnyDialect
    template: ChatTemplate
    settings: RolloutSettings
    seed: int = 0
    """The run's seed."""
    noise_version: int | None = None
    """Policy version of which the noise is made; None: the policy's own."""
    lockstep: Lockstep | None = None
    """Where tools run one by one, after all have generated; None: each trajectory goes on."""
    wrapper: Wrapper | None = None
    """Wrapper of each world; None: nothing."""
    stages: StagePlaces | None = None
    """Bounds of starting, rolling out and judging; None: none."""
    prompts: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    """Ids of each task's first prompt: equal for a group, so rendered once."""


class Episode:
    """The state of one trajectory while it is rolled out."""

    def __init__(self, context: RolloutContext, task: Task, member: int, noise: int) -> None:
        self._context, self._task, self._member = context, task, member
        self._settings = context.settings
        self._usage = Usage()
        self._version = context.policy.version
        noisy = self._version if context.noise_version is None else context.noise_version
        self._seed = episode_seed(context.seed, task.id, noise, noisy)
        call_seconds = self._settings.worlds.call_seconds or math.inf
        self._owner = Owner(context.environment.blocking, self._settings.seconds, call_seconds)
        self._passage = Passage(None if context.lockstep is not None else context.stages)
        self._world: World | None = None
        self._session: Session | None = None
        self._ledger = Ledger()
        self._messages: list[Message] = []
        self._pending: list[Message] = []
        self._tools: dict[str, ToolSpec] = {}
        self._prompted: tuple[ToolSpec, ...] = ()
        self._announced: set[str] = set()
        self._closed = True
        self._steps: list[Step] = []
        self._verdicts: list[TurnVerdict] = []
        self._cut = 0
        self._ended = ""
        self._started = time.monotonic()

    @cached_property
    def _dialect(self) -> Dialect:
        return structured(self._context.dialect)

    @property
    def _rendered(self) -> bool:
        """True if the chat template shows the tools."""
        return self._context.template.renders_tools and not self._dialect.shows_tools

    async def run(self) -> Trajectory:
        """Roll out until the task is done, a budget is spent or infrastructure fails."""
        failure, lockstep = None, self._context.lockstep
        try:
            try:
                async with nullcontext() if lockstep is None else lockstep.member():
                    stop = await self._turns()
            except Late:
                stop = StopReason.SECONDS
            finally:
                if self._session is not None:
                    self._session.close()
                self._owner.close(self._world)
                self._passage.leave()
        except (EnvError, PolicyError, OSError) as error:
            stop, failure = StopReason.FAILURE, _root(error)
        if stop is StopReason.SECONDS and 2 * seconds_ran(self._world) < self._owner.spent:
            most = self._settings.seconds
            failure = f"its world took more than rollout.seconds = {most:g} seconds"
        return self._trajectory(stop, failure)

    async def _turns(self) -> StopReason:
        await self._passage.to("starting")
        self._world = await self._owner.opening(self._open)
        for index in range(len(self._task.turns)):
            stop = self._exceeded(turns=1, tokens=1)
            if stop:
                return stop
            await self._passage.to("running")
            await self._begin(self._world, index)
            stop = await self._turn(self._world, index)
            if stop is StopReason.SECONDS:
                return stop
            await self._passage.to("judging")
            self._verdicts.append(await self._judge(self._world, index))
            if stop:
                return stop
        return StopReason.DONE

    def _open(self) -> World:
        world = self._context.environment.open(self._task)
        return world if self._context.wrapper is None else self._context.wrapper(world)

    async def _judge(self, world: World, index: int) -> TurnVerdict:
        """The world's verdict on a turn, with what only the rollout knows."""
        mine = [step for step in self._steps if step.turn == index]
        answered = bool(mine) and mine[-1].verdict is ParseVerdict.ANSWER
        judge = ability(world, AnswerJudge)
        if judge is None:
            verdict = await self._owner(world.end_turn)
            return dataclasses.replace(verdict, answered=answered, ended=self._ended)
        text = "\n".join(step.text for step in mine)
        correct = await self._owner.unhurried(judge.judge_answer, text)
        verdict = await self._owner(world.end_turn)
        return dataclasses.replace(verdict, answered=answered, correct=correct)

    async def _begin(self, world: World, index: int) -> None:
        """Enter a turn: its user message is pending from now on."""
        offered = await self._offered(world, index)
        if index == 0:
            system = self._dialect.system_prompt()
            if offered and not self._rendered:
                system += "\n\n" + self._dialect.describe(offered)
            self._say(Message("system", system))
        new = [s for s in offered if s.name not in self._announced] if index else []
        self._announced.update(self._tools)
        parts = [self._task.turns[index].user]
        if simulator := ability(world, UserSimulator):
            parts.append(await self._owner.unhurried(simulator.opens))
        if new:
            parts.append(f"{MORE_TOOLS}\n{self._dialect.describe(new)}")
        text = "\n\n".join(part for part in parts if part.strip())
        earlier = () if index else self._task.dialogue
        for message in self._dialect.opening(earlier, text):
            self._say(message)

    async def _offered(self, world: World, index: int) -> Sequence[ToolSpec]:
        """Begin a turn of the world; the tools that it offers in this turn."""
        await self._owner(world.begin_turn, index)
        self._usage.turns += 1
        self._ended = ""
        offered = await self._owner(world.offered)
        self._tools = {spec.name: spec for spec in offered}
        return offered

    async def _turn(self, world: World, index: int) -> StopReason | None:
        """Generate until the policy answers, the world ends it, or steps or a budget are spent."""
        for _ in range(self._settings.steps_per_turn):
            ids = self._new_ids()
            if stop := self._no_room(ids):
                return stop
            completion = await self._generate(ids, self._settings.stop)
            parsed, text = self._parse(ids, completion)
            shown = parsed.calls if parsed.verdict is ParseVerdict.CALLS else ()
            self._messages.append(Message("assistant", text, shown))
            results, stop = await self._act(world, parsed)
            verdict, sampled = parsed.verdict, len(completion.ids)
            self._steps.append(
                Step(index, text, verdict, completion.finish, parsed.calls, results, sampled)
            )
            if stop or self._ended:
                return stop
            if verdict is ParseVerdict.ANSWER and not await self._replied(world, parsed):
                return None
        rule = ability(self._context.environment, StepRule)
        return StopReason.STEPS if rule and rule.gives_up else None

    async def _replied(self, world: World, parsed: Parsed) -> bool:
        """True if somebody replies to an answer, so that the turn goes on."""
        simulator = ability(world, UserSimulator)
        if simulator is None:
            return False
        reply = await self._owner.unhurried(simulator.reply, parsed.answer)
        if reply is not None:
            self._say(Message("user", reply))
        return reply is not None

    def _no_room(self, ids: Sequence[int]) -> StopReason | None:
        """Which budget leaves no token after these ids; raises `PolicyError` for a whole prompt."""
        stop = self._exceeded(tokens=1, context=len(ids) + 1)
        if stop is StopReason.CONTEXT and not len(self._ledger):
            raise PolicyError(
                f"task {self._task.id}: the prompt has {len(ids)} tokens and leaves no room "
                f"within rollout.context_tokens = {self._settings.context_tokens}. Raise it."
            )
        return stop

    def _new_ids(self) -> list[int]:
        """Ids of the pending messages, which follow everything so far."""
        if len(self._ledger):
            calls = self._steps[-1].calls
            return self._context.template.increment(
                self._pending, self._closed, self._prompted, calls
            )
        if self._rendered:
            self._prompted = tuple(self._tools.values())
        return self._first_ids(lambda: self._context.template.prompt(self._pending, self._prompted))

    def _first_ids(self, render: Callable[[], list[int]]) -> list[int]:
        """Ids of the first prompt: equal for a group, so rendered once."""
        known = self._context.prompts.get(self._task.id)
        if known is None:
            known = render()
            if not ability(self._world, UserSimulator):  # who may open otherwise the next time
                self._context.prompts[self._task.id] = known
        return known

    async def _generate(self, ids: list[int], stops: Sequence[str] = ()) -> Completion:
        if self._session is None:
            self._session = self._context.policy.open(self._seed, ids)
        if ids:
            self._ledger.add_context(ids)
        self._pending.clear()
        self._usage.context = len(self._ledger)
        context, budget = self._context, step_budget(self._settings, self._usage)
        parts: list[Completion] = []
        if context.lockstep is not None:
            await context.lockstep.generating()
        while not parts or parts[-1].finish is FinishReason.ABORT:
            if len(parts) == ABORTS:
                raise PolicyError(f"the engine broke one generation off {ABORTS} times.")
            left = budget - sum(len(part.ids) for part in parts)
            part = await self._session.generate(
                ids, left, context.settings.temperature, stops, context.settings.top_p
            )
            self._ledger.add_sampled(part.ids, part.logprobs, part.version)
            parts.append(part)
            ids = []
        if context.lockstep is not None:
            await context.lockstep.working()
        completion = joined(parts)
        self._usage.context = len(self._ledger)
        self._usage.generated += len(completion.ids)
        self._closed = completion.ids[-1:] == (self._context.template.end_id,)
        return completion

    def _parse(self, before: Sequence[int], completion: Completion) -> tuple[Parsed, str]:
        template = self._context.template
        text = template.opened(before) + template.decode(completion.ids)
        truncated = completion.finish is FinishReason.LENGTH
        return self._dialect.parse(text, self._tools, truncated), text

    async def _act(
        self, world: World, parsed: Parsed
    ) -> tuple[tuple[ToolResult, ...], StopReason | None]:
        """Execute calls, or answer an error with feedback; both are pending afterwards."""
        if parsed.verdict is ParseVerdict.CALLS:
            results, stop = await self._execute(world, parsed.calls)
            done = parsed.calls[: len(results)]
            for message in self._dialect.results(done, results):
                self._say(message)
            return results, stop
        stop = None
        if parsed.verdict is ParseVerdict.UNKNOWN_TOOL:
            # The world refuses these calls and counts the attempt; that matters where it is the
            # agent's task to call nothing.
            refused = [c for c in parsed.calls if any(n.name not in self._tools for n in nested(c))]
            _, stop = await self._execute(world, refused)
        if parsed.verdict.is_error:
            self._say(Message(self._dialect.feedback_role, parsed.feedback))
        return (), stop

    async def _execute(
        self, world: World, calls: Sequence[ToolCall]
    ) -> tuple[tuple[ToolResult, ...], StopReason | None]:
        results: list[ToolResult] = []
        ending = ability(world, Ending)
        for call in calls:
            if stop := self._exceeded(calls=1):
                return tuple(results), stop
            self._usage.calls += 1
            try:
                results.append(self._shorten(await self._owner(called, world, call)))
                self._ended = await self._owner(ending.ended) if ending else ""
            except Late:  # the step is kept, because a valid trajectory trains on its tokens
                return tuple(results), StopReason.SECONDS
            if self._ended:
                break
        return tuple(results), None

    def _shorten(self, result: ToolResult) -> ToolResult:
        content = shortened(result.content, self._settings.result_chars)
        if content is result.content:
            return result
        self._cut += 1
        return ToolResult(content, result.failed)

    def _say(self, message: Message) -> None:
        self._messages.append(message)
        self._pending.append(message)

    def _exceeded(self, **wanted: int) -> StopReason | None:
        """Which budget does not allow so many more turns, calls or tokens, if one does not."""
        self._usage.seconds = self._owner.spent
        return exceeded(self._settings, self._usage, **wanted)

    def _trajectory(self, stop: StopReason, failure: str | None) -> Trajectory:
        return Trajectory(
            task_id=self._task.id,
            member=self._member,
            policy_version=self._version,
            seed=self._seed,
            messages=tuple(self._messages),
            steps=tuple(self._steps),
            verdicts=tuple(self._verdicts),
            n_turns=len(self._task.turns),
            spans=self._ledger.spans,
            stop=stop,
            failure=failure,
            seconds=time.monotonic() - self._started,
            temperature=self._settings.temperature,
            cut_results=self._cut,
        )


def shortened(content: str, limit: int) -> str:
    """A result with so many characters at most, and a notice of what was left out; 0: as it is."""
    if not limit or len(content) <= limit:
        return content
    return f"{content[:limit]}\n[{len(content) - limit} more characters were left out]"


def _root(error: BaseException) -> str:
    """The error and the cause at its root, in one line."""
    root, known = error, set[int]()
    while root.__cause__ is not None and id(root) not in known:  # foreign code may make a circle
        known.add(id(root))
        root = root.__cause__
    return shown(error) if root is error else f"{shown(error)} (caused by {shown(root)})"
