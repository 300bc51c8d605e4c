"""What both rewards of ARTIST share (arXiv 2505.01441): what the form of a response is worth.

There is no released code, and the paper leaves the worth of the form open. Ours is
`rewards.artist.form_weight` (0.5), paid in parts; `rewards.artist.partial = false`: whole or not at
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

FORM = 0.5


@dataclass(frozen=True)
class ArtistScoring:
    """What both rewards share."""

    form_weight: Annotated[float, Field(ge=0)] = FORM
    partial: bool = True

    def form(self, share: float) -> float:
        """What a share of the form is worth."""
        return self.form_weight * (share if self.partial else float(share >= 1))
