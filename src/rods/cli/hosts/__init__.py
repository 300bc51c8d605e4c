"""Verbs that train inside another trainer (docs/guides/other-trainers.md), one file each."""
