"""Settings of what runs on the machines of a Ray.

RaySettings(worlds=64, writers=4).address       # "auto": the Ray that runs here
"""

from __future__ import annotations

from pydantic import Field

from rods.config.base import Settings


class RaySettings(Settings):
    """Worlds and synthesis on other machines (docs/scale.md); rollout and training stay here."""

    address: str = "auto"
    """Of the Ray: `auto`, the one that this machine belongs to (`ray start`), or HOST:PORT;
    `local`: one of this machine alone, for a trial, that ends with the run."""
    worlds: int = Field(default=0, ge=0)
    """Worlds that are played at once, each in an actor of its own; 0: in this process."""
    writers: int = Field(default=0, ge=0)
    """Actors that make variants; 0: the synthesis worker makes them itself."""
    cpus: float = Field(default=0.5, gt=0)
    """Processors that Ray sets aside for one actor; worlds mostly wait for the policy."""
