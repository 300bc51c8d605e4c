r"""Nemotron-Research-Tool-N1 (arXiv 2505.00024): 1 if thought and calls are right, else 0.

Owns the reward of that name and one ablation of its released code. Single steps only.

    tool_n1             1 iff both think tags stand somewhere and the last <tool_call> block holds
                        exactly the wanted calls; the order of calls and of keys does not matter
    tool_n1_names       partial credit: 0.2 for the think tags, and 0.8 for the calls or 0.2 where
                        only their names are right

A block is JSON: a call, a list of calls, or either once more as a JSON text. A call has `name` and
`arguments`. Values are compared as JSON texts: 1, 1.0, true and "1" all differ. No call is wanted
and the list is empty: right.

Where we differ from the code, by class: a bare number or truth value between the tags, JSON nested
too deep and numbers too long crash theirs and are wrong here; the response is what was generated
(theirs reads on from an assistant header that the policy writes itself); `form = "dialect"` is
ours: the calls that `model.dialect` read, where what can be read counts as a thought too.

What it leaves open, and the paper does not say: tags may nest and stand in any order, any text may
stand around them, of several blocks only the last counts. `tool_n1_names` pays 0.2 for two tags
and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rods.reward import Score
from rods.rewards import single_step
from rods.task import Task
from rods.trajectory import Step, Trajectory
from rods.types import ParseVerdict

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class ParsedResponse(NamedTuple):
    """Parts of a response."""

    thought: bool
    """Both think tags stand in it."""
    calls: Any
    """The block as JSON, calls in a list; None: nothing that can be read."""


@dataclass(frozen=True)
class ToolN1Reward(single_step.SingleStepReward):
    """The binary reward, and the base of its ablation."""

    form: single_step.Form = "text"

    def __call__(self, task: Task, trajectory: Trajectory) -> Score:
        """The score of one response."""
        wanted, response = single_step.wanted_of(task), single_step.response_of(task, trajectory)
        text = "" if response is None else response.text
        reply = read_reply(text) if self.form == "text" else _as_read(response)
        truth = [single_step.as_json(call, "arguments") for call in wanted.calls]
        names, exact = agreement(reply.calls, truth)
        parts = {"thought": float(reply.thought), "names": float(names)}
        value = self.value(reply, names, exact)
        return Score(value, {**parts, "correct": float(exact)})

    def value(self, reply: ParsedResponse, names: bool, exact: bool) -> float:
        """Value of a response.

        Args:
            reply: what the response says.
            names: its calls have the wanted names.
            exact: they are the wanted calls.
        """
        return float(reply.thought and exact)


class ToolN1Names(ToolN1Reward):
    """0.2, and 0.8 or 0.2."""

    def value(self, reply: ParsedResponse, names: bool, exact: bool) -> float:
        """The sum of both parts."""
        return 0.2 * reply.thought + (0.8 if exact else 0.2 * names)


def read_reply(text: str) -> ParsedResponse:
    """Parse a response as the released code does."""
    thought = "<think>" in text and "</think>" in text
    # A pattern would take time quadratic in what is opened and never closed.
    blocks = [part.partition(_OPEN)[2] for part in text.split(_CLOSE)[:-1] if _OPEN in part]
    if not blocks:
        return ParsedResponse(thought, None)
    calls = _loads(blocks[-1].strip())
    if isinstance(calls, str):
        calls = _loads(calls)
    return ParsedResponse(thought, [calls] if isinstance(calls, dict) else calls)


def _loads(text: str) -> Any:
    try:
        return single_step.read_json(text)
    except ValueError:
        return None


def _as_read(response: Step | None) -> ParsedResponse:
    """Calls that the dialect read: an answer calls nothing."""
    if response is None or response.verdict not in (*single_step.READ, ParseVerdict.ANSWER):
        return ParsedResponse(False, None)
    calls = [single_step.as_json(call, "arguments") for call in response.calls]
    return ParsedResponse(True, calls)


def agreement(calls: object, truth: Sequence[Mapping[str, object]]) -> tuple[bool, bool]:
    """Compare calls with the wanted ones: by their names, and wholly."""
    if not isinstance(calls, list):
        return False, False
    given: list[Any] = calls
    if not all(isinstance(call, dict) and {"name", "arguments"} <= call.keys() for call in given):
        return False, False
    if not given or not truth:
        return (same := len(given) == len(truth)), same
    try:
        exact = Counter(map(_key, given)) == Counter(map(_key, truth))
        return Counter(c["name"] for c in given) == Counter(c["name"] for c in truth), exact
    except TypeError:  # a name that is a list
        return False, False


def _key(call: Mapping[str, object]) -> tuple[object, str]:
    return call["name"], json.dumps(call["arguments"], sort_keys=True)
