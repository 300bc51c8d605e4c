"""ARTIST (arXiv 2505.01441), function calling in worlds: paid by state, sequence and form.

Owns the formula. There is no released code; what the paper leaves open and is ours is marked D.

    artist_fc       0.5 * share of turns with the wanted state
                    + 0.5 * share of the wanted function sequence
                    + w * share of the form

w is `rewards.artist.form_weight` (D: 0.5). `rewards.artist.partial = false`: the form pays whole or
not at all (D: in parts). Form (D): the share of generations that the dialect could read; nothing
where calls are wanted and none was executed.

State (D): of a turn that wants calls it counts only after a call, of one that wants none only if
none was made. Sequence (D): longest common subsequence of function names, turn by turn, over the
wanted calls or the made ones, whichever are more; so calling everything does not pay.

What fools it: the state of turns that change nothing pays as soon as something was called.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.reward import Score
from rods.rewards.reading import executed
from rods.rewards.shared import ArtistScoring
from rods.task import Task
from rods.trajectory import Trajectory

STATE, SEQUENCE = 0.5, 0.5


class ArtistFc(ArtistScoring):
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


def state_shares(trajectory: Trajectory) -> list[float]:
    """Share of each turn in the task's turns if it ended in the wanted state, by calls where
    calls are wanted.
    """
    right = [
        v.state and (v.calls > 0 if v.expects_calls else v.calls == 0 and v.answered)
        for v in trajectory.verdicts
    ]
    right += [False] * (trajectory.n_turns - len(right))
    return [one / trajectory.n_turns for one in right]


def sequence_shares(wanted: Sequence[Sequence[str]], made: Sequence[Sequence[str]]) -> list[float]:
    """Share of each turn: functions called in the wanted order over all wanted or made; they add up
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
