"""A task rolled out by somebody else's loop: call by call, or text by text.

Owns where the conversation stands and what its turns were worth. Turns, withheld tools and verdicts
are those of a rollout; budgets are the other loop's, but for the steps of a turn. Never samples.

    rollout = TaskRollout(environment, task)
    rollout.call(ToolCall("ls", {}))
    rollout.end(answered=True)                   # the next turn begins, if there is one
    rollout.progress()

    episode = TextEpisode(environment, task, structured("hermes"))
    episode.opening, episode.respond("<tool_call>...</tool_call>")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rods.abilities import StepRule, ability
from rods.dialects.base import Dialect, nested
from rods.env import AnswerJudge, Ending, Environment, TurnVerdict, UserSimulator, called
from rods.errors import TaskError
from rods.infra.text import whole_text
from rods.rollout.episode import MORE_TOOLS
from rods.task import Task
from rods.types import Message, ParseVerdict, ToolCall, ToolResult, ToolSpec

OVER = "The conversation is over."


class TaskRollout:
    """One task rolled out call by call, in one world; close it at the end."""

    def __init__(self, environment: Environment, task: Task) -> None:
        """Open the world and enter the first turn.

        Raises:
            TaskError: the world cannot be loaded, or it is a `rods.env.UserSimulator`.
        """
        self.task = task
        self.turn = 0
        self.over = False
        self._verdicts: list[TurnVerdict] = []
        self._texts: list[str] = []
        self._world = environment.open(task)
        if ability(self._world, UserSimulator):
            self._world.close()
            raise TaskError(
                f"task {task.id}: this world simulates a user (rods.env.UserSimulator); only rods "
                "itself can run such worlds."
            )
        try:
            self._world.begin_turn(0)
        except BaseException:  # whatever it is, the world must not stay open
            self._world.close()
            raise

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools of the current turn; none at the end."""
        return () if self.over else self._world.offered()

    def note_answer(self, text: str) -> None:
        """Take note of what the agent wrote in this turn, for worlds that judge answers."""
        self._texts.append(text)

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call; a world may end its turn by it."""
        if self.over:
            return ToolResult(OVER, failed=True)
        result = called(self._world, call)
        ending = ability(self._world, Ending)
        ended = ending.ended() if ending else ""
        if ended:
            self.end(answered=False, ended=ended)
        return dataclasses.replace(result, content=whole_text(result.content))

    def end(self, answered: bool, ended: str = "") -> None:
        """End the turn and enter the next one; nothing at the end.

        Args:
            answered: by an answer, not because no more steps were left.
            ended: why the world ended it.
        """
        if self.over:
            return
        world, correct = self._world, None
        if judge := ability(world, AnswerJudge):
            correct = judge.judge_answer("\n".join(self._texts))
        verdict = world.end_turn()
        self._verdicts.append(
            dataclasses.replace(verdict, answered=answered, ended=ended, correct=correct)
        )
        self._texts.clear()
        self.over = self.turn == len(self.task.turns) - 1
        if not self.over:
            self.turn += 1
            world.begin_turn(self.turn)

    def progress(self) -> float:
        """Share of the task's turns that are solved so far, in [0, 1]."""
        return sum(verdict.solved for verdict in self._verdicts) / len(self.task.turns)

    def close(self) -> None:
        """Close the world; nothing can be called after that."""
        self.over = True
        self._world.close()


class TextEpisode:
    """One task rolled out by texts: a dialect parses calls and writes results and feedback."""

    def __init__(
        self, environment: Environment, task: Task, dialect: Dialect, steps: int = 20
    ) -> None:
        """Begin; `opening` is what the policy reads first.

        Args:
            environment: opens the world; `close` of the rollout closes it.
            task: a task of this environment, without a user simulator.
            dialect: how the policy writes calls, such as `structured("hermes")`.
            steps: texts that one turn may have, at least 1; then it ends without an answer.
        """
        self.rollout = TaskRollout(environment, task)
        self._dialect, self._most, self._steps_taken = dialect, steps, 0
        rule = ability(environment, StepRule)
        self._gives_up = rule is not None and rule.gives_up
        specs = self.rollout.offered()
        self._known = {spec.name for spec in specs}
        self.opening = opening_of(dialect, task, specs)

    def respond(self, text: str) -> tuple[Message, ...]:
        """Return results, feedback and the user's next message; nothing at the end of the task."""
        rollout, turn, back = self.rollout, self.rollout.turn, list[Message]()
        if rollout.over:
            return ()
        self._steps_taken += 1
        rollout.note_answer(text)
        offered = {spec.name: spec for spec in rollout.offered()}
        parsed = self._dialect.parse(text, offered, truncated=False)
        if parsed.verdict is ParseVerdict.ANSWER:
            rollout.end(answered=True)
        elif parsed.verdict is ParseVerdict.CALLS:
            results = self._run(parsed.calls, turn)
            back += self._dialect.results(parsed.calls[: len(results)], results)
        else:
            if parsed.verdict is ParseVerdict.UNKNOWN_TOOL:
                # Refused, and counted where it is the agent's task to call nothing.
                unknown = (c for c in parsed.calls if any(n.name not in offered for n in nested(c)))
                self._run(tuple(unknown), turn)
            back.append(Message(self._dialect.feedback_role, parsed.feedback))
        if rollout.turn == turn and not rollout.over and self._steps_taken >= self._most:
            rollout.end(answered=False)
            rollout.over = rollout.over or self._gives_up
        if rollout.turn != turn and not rollout.over:
            self._steps_taken = 0
            back.append(self._user())
        return tuple(Message(m.role, whole_text(m.content)) for m in back)

    def _run(self, calls: Sequence[ToolCall], turn: int) -> list[ToolResult]:
        """Results up to the call by which the world ended the turn."""
        results: list[ToolResult] = []
        for call in calls:
            if self.rollout.turn == turn and not self.rollout.over:
                results.append(self.rollout.call(call))
        return results

    def _user(self) -> Message:
        new = [spec for spec in self.rollout.offered() if spec.name not in self._known]
        self._known.update(spec.name for spec in new)
        user = self.rollout.task.turns[self.rollout.turn].user
        return Message("user", later_turn(self._dialect, user, new))


def opening_of(dialect: Dialect, task: Task, specs: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """Messages before the first step of a task whose first turn offers these tools."""
    system = dialect.system_prompt() + (f"\n\n{dialect.describe(specs)}" if specs else "")
    return (Message("system", system), *dialect.opening(task.dialogue, task.turns[0].user))


def later_turn(dialect: Dialect, user: str, new: Sequence[ToolSpec]) -> str:
    """Prompt at the start of a later turn, in which these tools are new."""
    more = f"{MORE_TOOLS}\n{dialect.describe(new)}" if new else ""
    text = "\n\n".join(part for part in (user, more) if part.strip())
    return "\n\n".join(message.content for message in dialect.opening((), text))
