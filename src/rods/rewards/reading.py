r"""What a trajectory of a question task says: its words, its calls, and how it ended.

Owns how the rewards and metrics of tool-integrated reasoning read a `Trajectory`. Only what the
policy sampled is read as words, so a box that a tool printed is not an answer, and neither is
one in the source of a program. Both forms of an environment read alike: calls as messages of
their own, or code fences inside one response.

    prose(trajectory)           # the sampled text without programs and calls
    executed(trajectory)        # the results of the calls that ran
    ending(trajectory)          # "finished", "truncated" or "odd"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from rods.dialects.marks import mention_end
from rods.trajectory import Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolResult

Ending = Literal["finished", "truncated", "odd"]

_FORMS = ("code", "tool_call", "python", "search")
_LANGUAGE = r"```[ \t]*(?i:py(?:thon3?)?|json)"
_BEGIN = re.compile(
    # amid words a fence is a mention, but for a block in one line
    rf"^[ \t]*(?:(?:[-*+>]|\d+[.)])[ \t]*)?{_LANGUAGE}\b"
    rf"|{_LANGUAGE}\b(?:(?=[^\n`]*```)|(?![ \t]+\w|[ \t]*[.,;:)?!]))"
    rf"|<(?P<tag>{'|'.join(_FORMS)})>",
    re.MULTILINE,
)
_FENCE_END = re.compile(r"[^\n`]*```|.*?(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def sampled(trajectory: Trajectory) -> str:
    """All text that the policy wrote, steps joined by line breaks."""
    return "\n".join(step.text for step in trajectory.steps)


def prose(trajectory: Trajectory) -> str:
    """What the policy wrote without its programs and calls: where an answer may stand.

    A step whose calls are not marked by a fence or a tag (bare JSON) has no prose.
    """
    bare = (s for s in trajectory.steps if not (s.calls and not _marked(s)))
    return "\n".join(without_calls(step.text) for step in bare)


def without_calls(text: str) -> str:
    """A text without the programs and calls that a fence or a tag marks.

    What is not closed goes on to the end of the text. A tag that is only mentioned marks nothing.
    """
    return "\n".join(words for words, _ in _split(text))


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, each with the program or call that follows; the last has none."""
    at = place = 0
    while found := _BEGIN.search(text, place):
        tag = found["tag"]
        if tag is None:
            fenced = _FENCE_END.match(text, found.end())
            place = fenced.end() if fenced else len(text)
        elif place := mention_end(found, tag):
            continue
        else:
            close = text.find(f"</{tag}>", found.end())
            place = close + len(f"</{tag}>") if close >= 0 else len(text)
        yield text[at : found.start()], text[found.start() : place]
        at = place
    yield text[at:], ""


def executed(trajectory: Trajectory) -> list[ToolResult]:
    """Results of all calls that were executed, in order."""
    return [result for step in trajectory.steps for result in step.results]


def written(trajectory: Trajectory) -> int:
    """Calls that could be read, executed or not."""
    return sum(len(step.calls) for step in trajectory.steps)


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
    words, call = next(_split(text))
    return len(words) if call else 0


def _marked(step: Step) -> bool:
    return any(mark in step.text for mark in ("```", *(f"{form}>" for form in _FORMS)))
