"""Environment Tuning's diagnostic codes and the format reward that its released code makes of them.

Owns the reading of a trajectory as codes, one for each generation that the released loop answers:

    -3  a format error          -2  calls were run, one raised an error    -1  calls were run
     0  the turn was closed unsolved           1  the turn was closed solved

A turn is closed by an answer, or by its last step (`rollout.steps_per_turn`), which then has the
turn's code and none of its own. A turn that was cut by a budget has no such code, nor has an answer
to which a simulated user replies. Where nothing should be called the first well-formed generation
decides: 1 for an answer, 0 for calls. Whether a turn is solved is the world's verdict. From
Environment Tuning (arXiv 2510.10197; the code at 4aeef7b). The paper's forms are `progress`, with
the fixed denominator, and `format`.

    codes(trajectory)                                                  # (-1, 1, -3, 0)
    score(get_reward("envtuning_format"), task, trajectory).value      # in [0, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from rods.env import TurnVerdict
from rods.reward import Score
from rods.task import Task
from rods.trajectory import Step, Trajectory
from rods.types import ParseVerdict, StopReason

RAISED = "Error during execution:"
"""Beginning of a result that the released code counts as an error; one that is a dictionary with an
`error` counts as success there."""
_WHOLE = (StopReason.DONE, StopReason.TURNS, StopReason.STEPS)
_MALFORMED = (ParseVerdict.MALFORMED, ParseVerdict.TRUNCATED)


class Code(IntEnum):
    """Kind of one generation."""

    FORMAT = -3
    ERROR = -2
    RAN = -1
    FAILED = 0
    SOLVED = 1


def codes(trajectory: Trajectory) -> tuple[Code, ...]:
    """The codes of a trajectory, in order."""
    found: list[Code] = []
    last = len(trajectory.verdicts) - 1
    for index, verdict in enumerate(trajectory.verdicts):
        steps = [step for step in trajectory.steps if step.turn == index]
        answered = bool(steps) and steps[-1].verdict is ParseVerdict.ANSWER
        closed = index < last or trajectory.stop in _WHOLE or answered
        found += _turn_codes(steps, verdict, closed)
    return tuple(found)


def _turn_codes(steps: Sequence[Step], verdict: TurnVerdict, closed: bool) -> list[Code]:
    if not verdict.expects_calls:
        return _abstention_codes(steps, closed)
    last = [Code.SOLVED if verdict.solved else Code.FAILED] if closed else []
    if closed or (steps and steps[-1].verdict is ParseVerdict.TRUNCATED):
        steps = steps[:-1]  # what a budget cut is not answered any more
    return [*(_step_code(s) for s in steps if s.verdict is not ParseVerdict.ANSWER), *last]


def _abstention_codes(steps: Sequence[Step], closed: bool) -> list[Code]:
    """The first well-formed generation ends such a turn; what came after it has no code."""
    found: list[Code] = []
    for step in steps:
        if step.verdict is ParseVerdict.ANSWER:
            return [*found, Code.SOLVED]
        if step.verdict not in _MALFORMED:
            return [*found, Code.FAILED]
        found.append(Code.FORMAT)
    if closed:
        return [*found[:-1], Code.FAILED]
    cut = steps and steps[-1].verdict is ParseVerdict.TRUNCATED
    return found[:-1] if cut else found


def _step_code(step: Step) -> Code:
    """A generation that closed no turn; calls that were refused count as calls that raised."""
    if step.verdict in _MALFORMED:
        return Code.FORMAT
    refused = step.verdict is not ParseVerdict.CALLS
    raised = any(result.content.startswith(RAISED) for result in step.results)
    return Code.ERROR if refused or raised else Code.RAN


def envtuning_format(task: Task, trajectory: Trajectory) -> Score:
    """I * (F + Q) of the codes, in [0, 2]: the reward of the released first stage.

    F is the share of codes that are no format error, Q that of -1 among -1 and -2, I is 1 if there
    is any of these.
    """
    parts = _parts(codes(trajectory))
    value = parts["is_tool_call"] * (parts["format_reward"] + parts["tool_call_reward"])
    return Score(value, parts)


def _parts(found: Sequence[Code]) -> dict[str, float]:
    """Metrics of the released code, by its names."""
    ran, raised = found.count(Code.RAN), found.count(Code.ERROR)
    closed = [code for code in found if code in (Code.FAILED, Code.SOLVED)]
    return {
        "progress": sum(closed) / len(closed) if closed else 0.0,
        "format_reward": 1 - found.count(Code.FORMAT) / len(found) if found else 0.0,
        "tool_call_reward": ran / (ran + raised) if ran + raised else 0.0,
        "is_tool_call": float(ran + raised > 0),
        "total_interaction_rounds": float(len(found)),
    }
