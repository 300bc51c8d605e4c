"""Settings of the environment and its tasks; each environment declares its own section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, JsonValue

from rods.config.base import Extended, Settings, Texts
from rods.registry import declared


class EnvSettings(Extended):
    """The environment and its original tasks."""

    place: ClassVar[str] = "env"

    name: str = "bfcl"
    """Short name, or `module:attribute` or `FILE.py:attribute` of an `Environment` or a factory of
    one."""
    tasks: Texts = ()
    """Files of original tasks (JSON lines), `FOLDER:SPLIT` of a data set, or `hf:OWNER/NAME:SPLIT`.
    `python_tool`, `search` and `function_call` also read published data sets (JSON, JSON lines,
    Parquet, Arrow). Empty: the tasks of the benchmark, or generated ones."""
    held_out: float = Field(default=0.25, ge=0, lt=1)
    """Held-out share of the scenarios in `tasks` or of your own environment, or of generated
    questions. The benchmark always holds out a half. 0: train on all tasks; `rods train`
    and `rods eval` then need `evaluation.files`."""
    train_tasks: int = Field(default=0, ge=0)
    """Number of original tasks to train on, stratified by category; 0: the whole training split."""
    options: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Keyword arguments for your own factory (`module:attribute`), or further ones for a bundled
    environment, such as `masked` of `function_call` and `container` of `repo`."""

    @classmethod
    def read(cls, data: Mapping[str, object]) -> Mapping[str, type[Settings]]:
        """Return the named environment's sections, and those of one that its own names."""
        name = str(data.get("name", cls.model_fields["name"].default))
        found = declared(cls.place, name)
        other = found[name].model_fields.get("environment") if name in found else None
        if other is None:
            return found
        own: Any = data.get(name)
        given = own if isinstance(own, Mapping) else dict(own) if isinstance(own, Settings) else {}
        return {**found, **declared(cls.place, str(given.get("environment", other.default)))}

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """Keyword arguments of the environment's factory: its sections, and `options`."""
        made = self._given(self.name, self.options)
        own = declared(self.place, self.name).get(self.name)
        other = own and getattr(self.section(own), "environment", None)
        if other in (None, self.name):
            return made
        return {**made, "arguments": self._given(other, {})}

    def _given(self, name: str, options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return arguments of one environment: its own section, `options`, other sections."""
        kinds = declared(self.place, name)
        whole = {key: self.section(kind).model_dump(mode="json") for key, kind in kinds.items()}
        return {**whole.pop(name, {}), **options, **whole}
