"""The writer `resample`: human language renamed and recombined, without a model.

from rods.writers.resample.writer import ResampleWriter
"""

from pydantic import Field

from rods.config.base import Settings


class ResampleSettings(Settings):
    """The writer `resample` as a second writer."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the candidates that `resample` makes, in addition to `synthesis.writer`."""


SECTIONS = {"resample": ResampleSettings}
