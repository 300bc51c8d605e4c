"""Verbs that train inside another trainer (docs/hosts.md), one file each."""
