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

from rods.dialects.marks import ITEM, PYTHON, closes, mention_end, next_tag, opening
from rods.dialects.programs import MARKS, dedented, parsed, program_end
from rods.trajectory import Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolResult

Ending = Literal["finished", "truncated", "odd"]

_FORMS = ("code", "tool_call", "python", "search")
_LANGUAGE = opening(rf"{PYTHON}|json")
_BEGIN = re.compile(
    # amid words a fence is a mention, but for a block in one line
    rf"^[ \t]*(?:{ITEM})?[`~]*{_LANGUAGE}"
    rf"|{_LANGUAGE}(?:(?=[^\n`~]*(?:```|~~~))|(?![ \t]+\w|[ \t]*[.,;:)?!]))"
    rf"|^[ \t]*(?:{ITEM})?(?P<other>```|~~~)[`~]*(?P<language>[^\n`~]*)$"
    rf"|<(?P<tag>{'|'.join(_FORMS)})>",
    re.MULTILINE,
)
_CLOSING = {
    **{mark: re.compile(rf"^[ \t]*{mark}[`~]*(?:output|(\S?))", re.MULTILINE) for mark in MARKS},
    **{form: re.compile(f"</{form}>") for form in _FORMS},
}
_SAME_LINE = re.compile(r"[^\n`~]*(?:```|~~~)[`~]*")


def sampled(trajectory: Trajectory) -> str:
    """All text that the policy wrote, steps joined by line breaks."""
    return "\n".join(step.text for step in trajectory.steps)


def prose(trajectory: Trajectory) -> str:
    """What the policy wrote without its programs and calls: where an answer may stand.

    A step whose calls are not marked by a fence or a tag (bare JSON) has no prose.
    """
    marks = (*MARKS, *(f"{form}>" for form in _FORMS))
    steps = (s for s in trajectory.steps if not s.calls or any(mark in s.text for mark in marks))
    return "\n".join(without_calls(step.text) for step in steps)


def without_calls(text: str) -> str:
    """A text without the programs and calls that a fence or a tag marks.

    What is not closed ends where it is no program any more, or else at once: it hides no answer. A
    tag that is only mentioned marks nothing, and neither does a block without a program.
    """
    return "\n".join(words for words, _ in _split(text))


def _split(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, each with the program or call that follows; the last has none."""
    at = place = 0
    closings: dict[str, re.Match[str] | None] = {}
    while found := _BEGIN.search(text, place):
        if found["tag"] and (place := mention_end(found, found["tag"])):
            continue
        form, start = found["tag"] or MARKS["~~~" in found[0]], found.end()
        closing = closings.get(form, found)
        if closing and closing.start() < start:  # the next one, which is looked for once
            closing = closings[form] = _CLOSING[form].search(text, start)
        inner, place = _block(found, form, closing)
        program = not found["other"] or parsed(dedented(text[start:inner]))[0]
        if program and not (found["language"] or "").strip():
            yield text[at : found.start()], text[found.start() : place]
            at = place
    yield text[at:], ""


def _block(found: re.Match[str], form: str, closing: re.Match[str] | None) -> tuple[int, int]:
    """Where the block that a fence or tag opens ends, without and with what closes it."""
    text, start = found.string, found.end()
    if found["tag"]:
        again = next_tag(text, form, start)
        again = None if again and closes(again) else again
        if closing and not (again and again.start() < closing.start()):
            return closing.span()
        end = program_end(text, start, again.start() if again else len(text))
        return end, end
    if (found["language"] or "").strip():
        return closing.span() if closing and not closing[1] else (start, start)
    if not found["other"] and (same_line := _SAME_LINE.match(text, start)):
        return same_line.span()
    if closing and not closing[1]:
        return closing.span()
    ends = (text.find(form, start), text.find("\n", start))
    following, line = (len(text) if end < 0 else end for end in ends)
    end = max(program_end(text, start, following), line)  # a fence's own line is no prose
    return end, end


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
