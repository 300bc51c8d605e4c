"""Tokens of a trajectory with a color each. Owns how mask and log-probability become colors."""

from __future__ import annotations

from collections.abc import Iterator

from rods.report.viewer import Decode
from rods.trajectory import Trajectory
from rods.types import Json

MOST = 6000
"""Tokens of one trajectory that are drawn; the page states how many are left out."""
UNLIKELY = 5.0
"""Negative log-probability, in nats, from which a color is at its strongest."""


def token_spans(trajectory: Trajectory, decode: Decode | None, color: str) -> dict[str, Json]:
    """Tokens as rows of text, title, class and strength of the color in [0, 1].

    Args:
        decode: tokens to text; None: each is shown by its id.
        color: `mask` (sampled tokens carry loss) or `logprob` (unlikely tokens stand out).
    """
    rows: list[Json] = []
    total = sum(len(span.ids) for span in trajectory.spans)
    for number, logprob, sampled in _tokens(trajectory):
        if len(rows) == MOST:
            break
        text = decode([number]) if decode else f"{number} "
        title = f"token {number}, {'sampled' if sampled else 'from the environment'}"
        strength = 1.0 if sampled else 0.0
        if logprob is not None:
            title += f", log-probability {logprob:.3f}"
            if color == "logprob":
                strength = round(min(1.0, -logprob / UNLIKELY), 3)
        rows.append([text, title, "policy" if sampled else "env", strength])
    known = any(span.logprobs for span in trajectory.spans)
    return {"rows": rows, "total": total, "logprobs": known, "decoded": decode is not None}


def _tokens(trajectory: Trajectory) -> Iterator[tuple[int, float | None, bool]]:
    for span in trajectory.spans:
        for i, number in enumerate(span.ids):
            yield number, span.logprobs[i] if span.logprobs else None, span.sampled
