"""Bases of all sections of a configuration: those of the core, and those that plug-ins add.

Owns the base classes and the readers of fields. It names no plug-in: the registry finds them.

    class MySettings(Settings): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, model_validator
from pydantic_core import PydanticKnownError

from rods.registry import declared

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Base of all sections: frozen, no unknown keys, field docstrings become descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    places: ClassVar[tuple[str, ...]] = ()
    """Settings that a resume may change: addresses and paths of the same thing."""
    data_files: ClassVar[tuple[str, ...]] = ()
    """Files of data: as `places`, but runs that are compared must have the same."""

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """Sections within this one, by name."""
        kinds = {name: field.annotation for name, field in cls.model_fields.items()}
        return {k: v for k, v in kinds.items() if isinstance(v, type) and issubclass(v, Settings)}

    @classmethod
    def walk(cls, at: str = "") -> Iterator[tuple[str, type[Settings]]]:
        """Yield this section and all within, each with the start of its keys, such as `train.`."""
        yield at, cls
        for name, kind in cls.sections().items():
            yield from kind.walk(f"{at}{name}.")


def _validated(value: object) -> Settings:
    """Validate a section that `Extended` has found a plug-in for, and refuse all else."""
    if isinstance(value, partial):
        return value()
    raise PydanticKnownError("extra_forbidden")


class Extended(Settings):
    """Base of a section to which plug-ins add sections of their own."""

    model_config = ConfigDict(extra="allow")
    if not TYPE_CHECKING:  # where it would be a field
        __pydantic_extra__: dict[
            str, SerializeAsAny[Annotated[Settings, BeforeValidator(_validated)]]
        ]
    place: ClassVar[str]
    """Dotted key of this section."""

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """Sections within this one by name, those of all plug-ins last."""
        return {**super().sections(), **declared(cls.place)}

    @classmethod
    def read(cls, data: Mapping[str, object]) -> Mapping[str, type[Settings]]:
        """Return the sections of plug-ins that are read with these settings."""
        return declared(cls.place)

    @model_validator(mode="before")
    @classmethod
    def _of_plugins(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        found = cls.read(data).items()
        return {**data, **{k: partial(v.model_validate, data.get(k, {})) for k, v in found}}

    def section(self, kind: type[S]) -> S:
        """Return the section of a plug-in's class; its defaults if it is not read here."""
        found = [v for v in (self.model_extra or {}).values() if isinstance(v, kind)]
        return found[0] if found else kind()


Share = Annotated[float, Field(ge=0, le=1)]


def one_or_many(value: object) -> object:
    """Read a single text or number as a list of one; an empty text gives an empty list."""
    return [value] * (value != "") if isinstance(value, str | int) else value


def span(value: object, expected: str, inside: bool = False) -> list[float]:
    """Return two numbers, which hold some of [0, 1] between them; `inside`: and nothing else.

    Raises `ValueError` for anything else, with what is `expected`.
    """
    pair = list(cast("Any", value)) if isinstance(value, list | tuple) else []
    numbers = [n for n in pair if isinstance(n, int | float) and not isinstance(n, bool)]
    low, high = numbers if len(pair) == len(numbers) == 2 else (1, 0)
    if max(0, low) >= min(1, high) or (inside and (low < 0 or high > 1)):
        raise ValueError(f"expected two numbers, {expected}. Got {value!r}")
    return pair


Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]
