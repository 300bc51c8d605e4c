r"""What a trajectory of a question task says: its words, its calls, and how it ended.

Owns how the rewards and meters of tool-integrated reasoning read a `Trajectory`. Only what the
policy sampled is read as words, so a box that a tool printed is not an answer, and neither is
one in the source of a program. Both forms of an environment read alike: calls as messages of
their own, or code fences inside one response.

    prose(trajectory)           # the sampled text without programs and calls
    executed(trajectory)        # the results of the calls that ran
    ending(trajectory)          # "finished", "truncated" or "odd"
"""

from __future__ import annotations

import re
from typing import Literal

from rods.trajectory import Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolResult

Ending = Literal["finished", "truncated", "odd"]

OPENINGS = ("```python", "```py\n", "```json", "<code>", "<tool_call>", "<python>", "<search>")
"""What a call begins with, in the forms that mark it."""

_MARKS = (*OPENINGS, "```", "</code>", "</tool_call>", "</python>", "</search>")
_CALLS = re.compile(
    r"```(?:py(?:thon)?|json)\b.*?(?:```|\Z)"
    r"|<(?P<tag>code|tool_call|python|search)>.*?(?:</(?P=tag)>|\Z)",
    re.DOTALL,
)


def sampled(trajectory: Trajectory) -> str:
    """All text that the policy wrote, steps joined by line breaks."""
    return "\n".join(step.text for step in trajectory.steps)


def prose(trajectory: Trajectory) -> str:
    """What the policy wrote without its programs and calls: where an answer may stand.

    A step whose calls are not marked by a fence or a tag (bare JSON) has no prose.
    """
    bare = (s for s in trajectory.steps if not (s.calls and not _marked(s)))
    return without_calls("\n".join(step.text for step in bare))


def without_calls(text: str) -> str:
    """A text without the programs and calls that a fence or a tag marks."""
    return _CALLS.sub("\n", text)


def response(trajectory: Trajectory) -> str:
    """The whole response as long as it was, with blanks for programs, calls and results."""
    parts: list[str] = []
    for step in trajectory.steps:
        unmarked = step.calls and not _marked(step)
        parts.append(_blank(step.text) if unmarked else _CALLS.sub(_blanked, step.text))
        parts += [_blank(result.content) for result in step.results]
    return "".join(parts)


def _blanked(match: re.Match[str]) -> str:
    return _blank(match[0])


def _blank(text: str) -> str:
    return " " * len(text)


def executed(trajectory: Trajectory) -> list[ToolResult]:
    """Results of all calls that were executed, in order."""
    return [result for step in trajectory.steps for result in step.results]


def written(trajectory: Trajectory) -> int:
    """Calls that could be read, executed or not."""
    return sum(len(step.calls) for step in trajectory.steps)


def rounds(trajectory: Trajectory) -> int:
    """Generations after which tools were run."""
    return sum(bool(step.results) for step in trajectory.steps)


def ending(trajectory: Trajectory) -> Ending:
    """How the response ended.

    `finished`: the policy ended it by an answer. `truncated`: a limit of tokens cut it. `odd`:
    anything else (budget of calls spent, turn closed by force, last call malformed, nothing said).
    """
    last = trajectory.steps[-1] if trajectory.steps else None
    cut = last is not None and last.finish is FinishReason.LENGTH
    if cut or trajectory.stop in (StopReason.GENERATED, StopReason.CONTEXT):
        return "truncated"
    answered = last is not None and last.verdict is ParseVerdict.ANSWER
    return "finished" if answered and trajectory.stop is StopReason.DONE else "odd"


def call_offset(text: str) -> int:
    """Where the first call of a step's text begins, in characters; 0 if it is not marked."""
    return min((at for mark in OPENINGS if (at := text.find(mark)) >= 0), default=0)


def _marked(step: Step) -> bool:
    return any(mark in step.text for mark in _MARKS)
