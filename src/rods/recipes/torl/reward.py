r"""ToRL (arXiv 2503.23383): +1 if the boxed answer is right, else -1; no box is wrong.

Owns the reward; the paper tried a penalty for code that fails and left it out. Question tasks only,
see `rods.rewards.answers.references`. The box and what is right are those of the released code,
with the differences that `scorer.py` lists; a generated question wants its value, which math-verify
does not ask for. The released code also pays a right box whose answer goes on until a limit of
tokens cuts it; `rewards.torl.finished` does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from rods.recipes.torl.scorer import torl_box, torl_verdict
from rods.reward import Score
from rods.rewards.answers import JudgedAnswer, compare, judged_parts, require_judges
from rods.rewards.reading import ending, prose
from rods.task import Task
from rods.trajectory import Trajectory


@dataclass(frozen=True)
class TorlReward:
    """+1 if the last box is right, else -1."""

    finished: bool = False
    """True if an answer that a limit of tokens cut is wrong; ours."""

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one response."""
        require_judges([task])
        cut = self.finished and ending(trajectory) == "truncated"
        box = None if cut else torl_box(prose(trajectory))
        judged = JudgedAnswer(None, "wrong") if box is None else compare(task, box, torl_verdict)
        return Score(1.0 if judged.correct else -1.0, judged_parts(judged))
