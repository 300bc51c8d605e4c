r"""ToolRL (arXiv 2504.13958): R = format + correctness, as its released code computes them.

Owns the reward of the name `toolrl`; `rewards.toolrl` chooses its variants. Single steps only.

    format          1 if the whole response has the shape of the ground truth, else 0: <think>, then
                    <tool_call> if there are calls, then <response> if words are wanted
    correctness     -3 to 3; 0 where no call is wanted (so such steps span 0 to 1)
    length          (variant) 0 to 1 by the words of the thought, rounded to hundredths

Correctness is 3 for a list of calls that equals the ground truth's, -3 where the tags are missing
or a line between them is not a call, else 6 S / S_max - 3 with

    S     = J(names) + sum over wanted g of max over unused p of the same name
            [ J(parameters of g, of p) + number of equal values ]
    S_max = 1 + sum over g (1 + number of parameters)

J is the Jaccard index of multisets. Values are compared as Python does: 1, 1.0 and True are equal.
Calls may come in any order, keys too. A call that is too much costs only through J of the names.

Variants: `grain` "refined" (J is 1 for equal lists, else 0, order included), "intermediate" (a
point for each wanted call that is there exactly), "coarse" (3 or -3); `scale` "equal" (correctness
-1 to 1), "two_stage" (correctness a third before step 30, format a half from then on), "scheduled"
(format from 2 down to 1, correctness from 2 up to 3 over 150 steps); `length` "fixed" (512 words),
"scheduled" (384 growing by 256 in 105 steps). The step is one more than the updates of the policy
that began the response.

Where we differ from the code, by class:

* A ground truth that is not a list of calls is refused when it is read; theirs crashes, or gives -3
  to every response.
* The response is what was generated. Where a policy writes an assistant header itself, theirs reads
  on from there.
* A line that is nested deeper or is larger than any dialect reads is not a call.
* `form = "dialect"` is ours: shape and calls as `model.dialect` read them. A response with calls
  has the shape of both calls and words there.

What it leaves open, and the paper does not say: think tags are not counted, so several thoughts
pass; tags of what is not wanted may stand inside of the thought; keys beside `name` and
`parameters` cost nothing once a value differs; a call beyond the wanted ones costs little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from rods.reward import Score
from rods.rewards import single_step
from rods.task import Task
from rods.trajectory import Step, Trajectory
from rods.types import ParseVerdict

Grain: TypeAlias = Literal["jaccard", "refined", "intermediate", "coarse"]
Scale: TypeAlias = Literal["fixed", "equal", "two_stage", "scheduled"]
Length: TypeAlias = Literal["none", "fixed", "scheduled"]

_THINK = "<think>.*?</think>"
_CALLS = "<tool_call>\n.*?\n</tool_call>"
_WORDS = "<response>.*?</response>"


class Range(NamedTuple):
    """Range of a part."""

    low: float
    high: float


class Ranges(NamedTuple):
    """Ranges of both parts."""

    format: Range
    correctness: Range


@dataclass(frozen=True)
class ToolRlReward(single_step.SingleStepReward):
    """ToolRL's reward, in [-3, 4] without variants."""

    grain: Grain = "jaccard"
    scale: Scale = "fixed"
    length: Length = "none"
    form: single_step.Form = "text"

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one response."""
        wanted, response = single_step.wanted_of(task), single_step.response_of(task, trajectory)
        step = trajectory.policy_version + 1
        reaches = ranges(self.scale, step)
        text = "" if response is None else response.text.strip()
        read = self._read(response, text)
        formed = self._formed(wanted, response, text)
        parts = {
            "format": reaches.format.high if formed else reaches.format.low,
            "correctness": self._correctness(wanted, read, reaches.correctness),
            "length": thought_length(text, self.length, step),
        }
        correct = _exact(wanted, read) if wanted.calls else formed and read is None
        return Score(sum(parts.values()), {**parts, "correct": float(correct)})

    def _formed(self, wanted: single_step.Wanted, response: Step | None, text: str) -> bool:
        if self.form == "text":
            return has_shape(text, bool(wanted.calls), wanted.response)
        if response is None:
            return False
        if wanted.calls:
            return response.verdict in single_step.READ
        return response.verdict is ParseVerdict.ANSWER and bool(text)

    def _read(self, response: Step | None, text: str) -> list[Any] | None:
        """The calls of a response; None: there is no form that holds calls, or it is broken."""
        if self.form == "text":
            return read_lines(text)
        if response is None or response.verdict not in single_step.READ:
            return None
        return [single_step.as_json(call, "parameters") for call in response.calls]

    def _correctness(
        self, wanted: single_step.Wanted, read: list[object] | None, reach: Range
    ) -> float:
        if not wanted.calls:
            return 0.0
        truth = [single_step.as_json(call, "parameters") for call in wanted.calls]
        if read is None:
            return reach.low
        if truth == read:
            return reach.high
        if self.grain == "coarse":
            return reach.low
        try:
            earned = matched(truth, read, self.grain)
        except (KeyError, TypeError, AttributeError):  # a call without its parts, as theirs has it
            return reach.low
        whole = self.grain == "intermediate"
        most = 1.0 + sum(1.0 if whole else 1.0 + len(call.arguments) for call in wanted.calls)
        return (reach.high - reach.low) * earned / most + reach.low


def ranges(scale: Scale, step: int) -> Ranges:
    """Largest format and correctness at a step, counted from 1."""
    form, calls = Range(0.0, 1.0), Range(-3.0, 3.0)
    if scale == "equal":
        calls = Range(-1.0, 1.0)
    elif scale == "two_stage" and step < 30:
        calls = Range(calls.low / 3, calls.high / 3)
    elif scale == "two_stage":
        form = Range(form.low / 2, form.high / 2)
    elif scale == "scheduled":
        form = Range(min(-2 + 2 * step / 150, -1.0), max(2 - step / 150, 1.0))
        calls = Range(max(-2 - step / 150, -3.0), min(2 + step / 150, 3.0))
    return Ranges(form, calls)


def has_shape(text: str, calls: bool, words: bool) -> bool:
    """True if a whole response is a thought, then calls and words exactly where they are wanted."""
    pieces = [_THINK, *([_CALLS] if calls else []), *([_WORDS] if words else [])]
    tags = [*(["tool_call"] if calls else []), *(["response"] if words else [])]
    once = all(text.count(f"<{tag}>") == 1 == text.count(f"</{tag}>") for tag in tags)
    return once and re.fullmatch("\n".join(pieces), text, re.DOTALL) is not None


def read_lines(text: str) -> list[Any] | None:
    """Text of the first `<tool_call>`, a JSON value a line; None if it is not that."""
    if "<tool_call>" not in text or "</tool_call>" not in text:
        return None
    body = text.split("<tool_call>")[1].split("</tool_call>")[0].strip()
    try:
        return [single_step.read_json(line) for line in body.split("\n")]
    except ValueError:
        return None


def thought_length(text: str, length: Length, step: int) -> float:
    """Words of the last thought over those that are wanted, at most 1; 0 without its tags."""
    if length == "none" or "<think>" not in text or "</think>" not in text:
        return 0.0
    most = 512 if length == "fixed" else (640 - 384) * step / 105 + 384
    words = text.split("<think>")[-1].split("</think>")[0].split()
    return min(round(len(words) / most, 2), 1.0)


def overlap(wanted: Sequence[object], given: Sequence[object], refined: bool = False) -> float:
    """Jaccard index of two lists as multisets; `refined`: 1 for equal lists, else 0.

    Raises:
        TypeError: something in them cannot be counted.
    """
    if wanted == given:
        return 1.0
    if refined or not wanted or not given:
        return 0.0
    left, right = Counter(wanted), Counter(given)
    common = (left & right).total()
    return common / (len(wanted) + len(given) - common)


def matched(truth: Sequence[Mapping[str, Any]], read: Sequence[Any], grain: Grain) -> float:
    """S: what the given calls earn against the wanted ones, each used once, greedily.

    Raises:
        KeyError, TypeError, AttributeError: a given call has not the parts that are looked at.
    """
    earned = overlap([g["name"] for g in truth], [p["name"] for p in read], grain == "refined")
    used: set[int] = set()
    for g in truth:
        best, at = 0.0, -1
        for index, p in enumerate(read):
            if index in used or p["name"] != g["name"]:
                continue
            worth = float(g == p) if grain == "intermediate" else _worth(g, p, grain == "refined")
            if worth > best:
                best, at = worth, index
        if at >= 0:
            used.add(at)
            earned += best
    return earned


def _worth(g: Mapping[str, Any], p: Mapping[str, Any], refined: bool) -> float:
    wanted: dict[str, object] = g["parameters"]
    given: dict[str, object] = p["parameters"]
    names = overlap(list(wanted.keys()), list(given.keys()), refined)
    return names + sum(1.0 for k, v in wanted.items() if k in given and given[k] == v)


def _exact(wanted: single_step.Wanted, read: list[object] | None) -> bool:
    """True if the calls are those that are wanted, in any order."""
    left: list[object] = [single_step.as_json(call, "parameters") for call in wanted.calls]
    for call in read or ():
        if call not in left:
            return False
        left.remove(call)
    return not left
