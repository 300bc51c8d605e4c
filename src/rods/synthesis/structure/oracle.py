"""A ground truth as an agent would speak it: which calls go together, what is said without calls.

Owns the parting of a turn's calls into generations and three fixed answers. Executes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rods.synthesis.structure.trace import leaves
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult

DONE = "Done."
MISSING_TOOL = "I have no tool for that."
MISSING_VALUE = "Which one exactly? Please tell me more."


def steps(turn: Turn, results: Sequence[ToolResult], known: str) -> Iterator[list[ToolCall]]:
    """A turn's calls, split where a call needs what an earlier one of the turn returned.

    Args:
        turn: with at least one call.
        results: of its calls, in order.
        known: everything that the agent has read before the turn's first call.
    """
    step: list[ToolCall] = []
    unread = ""
    for call, result in zip(turn.ground_truth, results, strict=True):
        if step and any(w not in known and len(w) > 1 and w in unread for w in words_of(call)):
            yield step
            step, known, unread = [], known + unread, ""
        step.append(call)
        unread += "\n" + result.content
    yield step


def words_of(call: ToolCall) -> list[str]:
    """Texts and numbers among the arguments."""
    values = (leaf.value for leaf in leaves(dict(call.arguments)))
    return [str(v) for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]


def abstention(task: Task, index: int) -> str:
    """Answer to a turn where something is missing; a tool is given back without a word."""
    later = task.turns[index + 1] if index + 1 < len(task.turns) else Turn("")
    return MISSING_VALUE if later.user else MISSING_TOOL
