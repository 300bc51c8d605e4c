"""Settings of who else is told of a run's figures.

TrackSettings(names="tensorboard").names        # ("tensorboard",)
"""

from __future__ import annotations

from rods.config.base import Settings, Texts


class TrackSettings(Settings):
    """Trackers, none by default; the run's own folder has all figures anyway."""

    names: Texts = ()
    """`tensorboard` (into the run's folder), `wandb`, `mlflow`, `trackio`: one or several. Each
    needs its extra of this name: `rods doctor` prints the line that installs it."""
    project: str = "rods"
    """Under which project or experiment they file the run."""
