"""Base of all sections of a configuration.

Owns the base class and the readers of fields. Nothing here imports torch.

    class MySettings(Settings): ...
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Settings(BaseModel):
    """Base of all sections: frozen, no unknown keys, field docstrings become descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


Share = Annotated[float, Field(ge=0, le=1)]


def one_or_many(value: object) -> object:
    """Read a single text or number as a list of one; an empty text gives an empty list."""
    return [value] * (value != "") if isinstance(value, str | int) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]
