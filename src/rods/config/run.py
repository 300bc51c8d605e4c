"""Settings of a run that do not contradict each other, with their digest."""

from __future__ import annotations

import hashlib
import json
from typing import Self

from pydantic import model_validator

from rods.config.checks import faults
from rods.config.sections import Sections
from rods.infra.dotted import changes, flat


class RunConfig(Sections):
    """Settings of a run, checked for contradictions; `load_config` makes them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := faults(self, "settings"):
            raise ValueError("\n".join(found))
        return self

    def spent(self, updates: int, trajectories: int) -> bool:
        """Return true if this much training reaches `self.updates` or `self.trajectories`."""
        return 0 < self.updates <= updates or 0 < self.trajectories <= trajectories

    def digest(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of all settings; resume compares it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, other: RunConfig) -> list[str]:
        """Return the settings with different values, each as `key: ours -> theirs`."""
        return changes(flat(self.model_dump(mode="json")), flat(other.model_dump(mode="json")))
