r"""ARTIST (arXiv 2505.01441): its rewards of mathematics and of function calling in worlds.

Owns both formulas. There is no released code, and the paper leaves open what its format part is
worth and how calls are compared; what is ours is marked D.

    artist_math     2 if the final answer is right
                    + share of the executed programs that succeeded, 0 without any
                    + w * share of the form
    artist_fc       0.5 * share of turns with the wanted state
                    + 0.5 * share of the wanted function sequence
                    + w * share of the form

w is `rewards.artist.form_weight` (D: 0.5). `rewards.artist.partial = false`: the form pays whole or
not at all (D: in parts).

Form of `artist_math` (D): nothing without an `<answer>`; a third for one answer with nothing after
it, a third for a thought before anything else, a third for tags that stand in order and are closed.
`<code>` may stand for `<python>`. Form of `artist_fc` (D): the share of generations that the
dialect could read; nothing where calls are wanted and none was executed.

State (D): of a turn that wants calls it counts only after a call, of one that wants none only if
none was made. Sequence (D): longest common subsequence of function names, turn by turn, over the
wanted calls or the made ones, whichever are more; so calling everything does not pay.

What fools them: `artist_math` pays 1 for any program that runs, right answer or not. `artist_fc`
pays for the state of turns that change nothing as soon as something was called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rods.reward import Score
from rods.rewards.answers import judge_answer, judged_parts
from rods.rewards.reading import executed, prose
from rods.task import Task
from rods.trajectory import Trajectory

ANSWER, STATE, SEQUENCE, FORM = 2.0, 0.5, 0.5, 0.5
_TAG = re.compile(r"<(/?)(think|python|code|answer)>")


@dataclass(frozen=True)
class Artist:
    """What both rewards share."""

    form_weight: float = FORM
    partial: bool = True

    def form(self, share: float) -> float:
        """What a share of the form is worth."""
        return self.form_weight * (share if self.partial else float(share >= 1))


class ArtistMath(Artist):
    """Answer, programs and form, in [0, 3 + w]."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one response."""
        judged = judge_answer(task, prose(trajectory))
        results = executed(trajectory)
        ran = sum(not result.failed for result in results) / len(results) if results else 0.0
        written = "".join(step.text for step in trajectory.steps)
        parts = {
            "answer": ANSWER * judged.correct,
            "tool": ran,
            "form": self.form(math_form(written)),
        }
        return Score(sum(parts.values()), {**judged_parts(judged), **parts})


class ArtistFc(Artist):
    """State, sequence and form, in [0, 1 + w]."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one conversation."""
        wanted = [[call.name for call in turn.ground_truth] for turn in task.turns]
        made: list[list[str]] = [[] for _ in task.turns]
        for step in trajectory.steps:
            made[step.turn] += [call.name for call in step.calls[: len(step.results)]]
        states, sequence = state_shares(trajectory), sequence_shares(wanted, made)
        form = self.form(form_share(trajectory, any(wanted)))
        parts = {"state": STATE * sum(states), "sequence": SEQUENCE * sum(sequence), "form": form}
        turns = [  # the form is no turn's: by generations, a turn would be paid for many of them
            STATE * state + SEQUENCE * called + form / trajectory.n_turns
            for state, called in zip(states, sequence, strict=True)
        ]
        correct = float(trajectory.solved)
        return Score(sum(parts.values()), {**parts, "correct": correct}, turns=tuple(turns))


def math_form(text: str) -> float:
    """Share of the form of a response, its results left out, in [0, 1]."""
    tags = [(match[1] == "/", match[2]) for match in _TAG.finditer(text)]
    if (True, "answer") not in tags or (False, "answer") not in tags:
        return 0.0
    ended = tags.count((True, "answer")) == 1 == tags.count((False, "answer"))
    ended = ended and text.rstrip().endswith("</answer>")
    thought = text.lstrip().startswith("<think>") and "</think>" in text
    return (ended + thought + _ordered(tags)) / 3


def _ordered(tags: Sequence[tuple[bool, str]]) -> bool:
    """Whether every tag is closed by its own before the next one opens, the answer last."""
    opened, closed = tags[::2], tags[1::2]
    names = [name for _, name in opened]
    if [(False, name) for name in names] != [*opened]:
        return False
    return [(True, name) for name in names] == [*closed] and names.index("answer") == len(names) - 1


def state_shares(trajectory: Trajectory) -> list[float]:
    """Of each turn, its share of the task's turns if it ended in the wanted state, by calls where
    calls are wanted.
    """
    right = [
        v.state and (v.calls > 0 if v.expects_calls else v.calls == 0 and v.answered)
        for v in trajectory.verdicts
    ]
    right += [False] * (trajectory.n_turns - len(right))
    return [one / trajectory.n_turns for one in right]


def sequence_shares(wanted: Sequence[Sequence[str]], made: Sequence[Sequence[str]]) -> list[float]:
    """Of each turn, functions called in the wanted order, over all wanted or made ones; they add up
    to 1 if both are none.
    """
    most = max(sum(map(len, wanted)), sum(map(len, made)))
    if not most:
        return [1 / len(wanted)] * len(wanted)
    return [longest(w, m) / most for w, m in zip(wanted, made, strict=True)]


def longest(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for a in first:
        before = 0
        for place, b in enumerate(second, 1):
            before, row[place] = (
                row[place],
                before + 1 if a == b else max(row[place], row[place - 1]),
            )
    return row[-1]


def form_share(trajectory: Trajectory, wants: bool) -> float:
    """Share of generations that could be read; 0 where calls are wanted and none was executed."""
    steps = trajectory.steps
    if not steps or (wants and not executed(trajectory)):
        return 0.0
    return sum(not step.verdict.is_error for step in steps) / len(steps)
