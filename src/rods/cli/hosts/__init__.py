"""Verbs that train inside another trainer (docs/guides/other-trainers.md), one file each."""

from rods.errors import StoreError


def require_meant(folder: str, resume: bool, saved: bool) -> None:
    """Raise `StoreError` unless a folder with checkpoints is resumed, and no other one is."""
    if resume and not saved:
        raise StoreError(f"{folder}: there is no checkpoint to resume. Begin with --out {folder}.")
    if saved and not resume:
        raise StoreError(
            f"{folder}: a training has checkpoints there. Continue from the last one with --resume "
            f"{folder}, or choose another --out."
        )
