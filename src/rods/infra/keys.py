"""Keys of servers, from environment variables.

Owns the check that an HTTP header can carry one. It never prints a key.

    key = read_key("RODS_WRITER_KEY")
"""

from __future__ import annotations

import os

from rods.errors import ConfigError


def read_key(variable: str) -> str:
    """The key that an environment variable holds; empty where it is not set.

    Raises:
        ConfigError: no HTTP header can carry it.
    """
    key = os.environ.get(variable, "").strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise ConfigError(
            f"environment variable {variable}: the key holds a space or a character that no "
            "HTTP header can carry. Set it again, without quotes."
        )
    return key
