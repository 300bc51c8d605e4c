"""What all sections of a configuration share.

Owns their base and what reads a field. Nothing here imports torch.

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
    """A list may be given as its one text or number; an empty text: none."""
    return [value] * (value != "") if isinstance(value, str | int) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]
