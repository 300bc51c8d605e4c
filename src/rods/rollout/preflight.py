"""A look at the first groups of a run, before anything is learned from them.

Owns the refusal of a policy whose calls nobody understands. It plays nothing.

    preflight(groups)
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.errors import PolicyError
from rods.trajectory import Group
from rods.types import ParseVerdict


def preflight(groups: Sequence[Group]) -> None:
    """Refuse to train a policy whose calls nobody understands.

    Raises:
        PolicyError: not one call was parsed in the first step; the message shows what was read.
    """
    valid = [t for g in groups for t in g.trajectories if t.valid]
    if any(v.correct is not None for t in valid for v in t.verdicts):
        return  # questions: a policy may answer them without a call
    steps = [s for t in valid for s in t.steps]
    if not any(s.verdict is ParseVerdict.CALLS for s in steps):
        seen = next((s for s in steps if s.verdict.is_error), steps[0] if steps else None)
        what = (
            f"{seen.text[:200]!r} was read as {seen.verdict}" if seen else "nothing was generated"
        )
        raise PolicyError(
            f"not one tool call was parsed in the {len(steps)} generations of the first step; "
            f"{what}. Is model.dialect the one that this model speaks? `rods check --template` "
            "compares its chat template with ours."
        )
