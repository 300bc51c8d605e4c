"""Settings that were given and that nothing would read.

Owns how they are found; what is read where is known to who reads it.

    given_but_unread(config, {"train.local": ("memory_gib",)})     # ["train.local.memory_gib"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from pydantic import BaseModel


def given_but_unread(config: BaseModel, unread: Mapping[str, Sequence[str]]) -> list[str]:
    """Dotted names of those that are not at their defaults.

    Args:
        config: all settings.
        unread: names of settings, by section.
    """
    default = type(config)()
    return [
        f"{section}.{name}"
        for section, names in unread.items()
        for name in names
        if attrgetter(f"{section}.{name}")(config) != attrgetter(f"{section}.{name}")(default)
    ]
