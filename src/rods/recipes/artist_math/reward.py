r"""ARTIST (arXiv 2505.01441), mathematics: paid by answer, programs that run, and form.

Owns the formula. There is no released code; what the paper leaves open and is ours is marked D.

    artist_math     2 if the final answer is right
                    + share of the executed programs that succeeded, 0 without any
                    + w * share of the form

w is `rewards.artist.form_weight` (D: 0.5). `rewards.artist.partial = false`: the form pays whole or
not at all (D: in parts). Form (D): nothing without an `<answer>`; a third for one answer with
nothing after it, a third for a thought before anything else, a third for tags that stand in order
and are closed. `<code>` may stand for `<python>`.

What fools it: any program that runs pays 1, right answer or not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rods.reward import Score
from rods.rewards.answers import judge_answer, judged_parts
from rods.rewards.reading import executed, prose
from rods.rewards.shared import ArtistScoring
from rods.task import Task
from rods.trajectory import Trajectory

ANSWER = 2.0
_TAG = re.compile(r"<(/?)(think|python|code|answer)>")


class ArtistMath(ArtistScoring):
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
    """True if every tag is closed by its own before the next one opens, the answer last."""
    opened, closed = tags[::2], tags[1::2]
    names = [name for _, name in opened]
    if [(False, name) for name in names] != [*opened]:
        return False
    return [(True, name) for name in names] == [*closed] and names.index("answer") == len(names) - 1
