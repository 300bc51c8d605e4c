"""Adapters to trainers, protocols, trackers and file formats that others own.

The core never imports them; each is loaded when a command or a setting names it.
"""

from rods.config.base import Settings, Texts


class TrackSettings(Settings):
    """Experiment trackers, none by default; the run's folder holds all metrics anyway."""

    names: Texts = ()
    """One or several of `tensorboard` (in the run's folder), `wandb`, `mlflow`, `trackio`. Each
    needs the extra of its name: `rods doctor` prints the line that installs it."""
    project: str = "rods"
    """Project or experiment of the run in the trackers."""

    places = ("names", "project")


SECTIONS = {"track": TrackSettings}
