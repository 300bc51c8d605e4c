"""Repairing repositories: a working copy, a shell and an editor, and tests that nobody shows.

Owns nothing itself: `repositories/` are small repositories of our own, `mutations.py` and
`plant.py` put bugs into them, `checks.py` are the hidden tests, `world.py` is the working copy,
`environment.py` brings it together.

    environment = RepoEnvironment()         # env.name = "repo"
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, one_or_many


class RepoSettings(Settings):
    """`env.name = "repo"`."""

    count: int = Field(default=50, ge=1)
    """Largest number of planted bugs in both splits together."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3, 4, 5)
    """Levels from 1 to 5: they set the detail of the report and the number of bugs."""
    apart: Literal["repositories", "bugs"] = "repositories"
    """Unit that the splits do not share: whole repositories, or bugs in the same code."""
    seconds: float = Field(default=30.0, gt=0)
    """Seconds that one command of the agent may take."""
    memory_mb: int = Field(default=1024, ge=64)
    """MiB that the commands of a workplace may use together."""


SECTIONS = {"repo": RepoSettings}
