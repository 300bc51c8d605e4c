"""Settings of the writer `resample`.

rods train --synthesis.resample.share 0.3
"""

from pydantic import Field

from rods.config.base import Settings


class ResampleSettings(Settings):
    """The writer `resample` as a second writer."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the candidates that `resample` makes, in addition to `synthesis.writer`."""


SECTIONS = {"resample": ResampleSettings}
