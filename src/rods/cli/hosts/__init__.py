"""Verbs that train inside another trainer (docs/guides/other-trainers.md), one file each."""

from rods.errors import Interrupted, StoreError


def require_meant(folder: str, resume: bool, saved: bool) -> None:
    """Raise `StoreError` unless a folder with checkpoints is resumed, and no other one is."""
    if resume and not saved:
        raise StoreError(f"{folder}: there is no checkpoint to resume. Begin with --out {folder}.")
    if saved and not resume:
        raise StoreError(
            f"{folder}: a training has checkpoints there. Continue from the last one with --resume "
            f"{folder}, or choose another --out."
        )


def left_off(verb: str, folder: str, saved: bool) -> Interrupted:
    """Return what Ctrl-C ends a training with: how it continues."""
    again = f"Continue from the last checkpoint: rods {verb} --resume {folder}"
    return Interrupted(f"interrupted. {again if saved else 'There is no checkpoint yet.'}")
