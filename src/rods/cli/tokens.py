"""The token of a service that a verb starts: where it comes from, and how clients learn it.

Owns both for `serve-env`. Never checks a request (`rods.infra.guard`).

    token, made = token_of("RODS_ENV_TOKEN", "127.0.0.1", "run tools")
    say(token_line("RODS_ENV_TOKEN", made))
"""

from __future__ import annotations

from rods.cli.common import LOOPBACK
from rods.errors import ConfigError
from rods.infra.guard import LOCAL, new_token
from rods.infra.service import read_key


def token_of(variable: str, host: str, danger: str) -> tuple[str, str]:
    """The token of an environment variable, else a new one; and the new one, else nothing.

    Raises:
        ConfigError: others may reach the service, and there is no token that they could know.
    """
    token = read_key(variable)
    if token:
        return token, ""
    if host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: whoever reaches it could {danger} here. Put a token into the "
            f"environment variable {variable}, or listen at 127.0.0.1."
        )
    made = new_token()
    return made, made


def token_line(variable: str, made: str) -> str:
    """How clients show the token, as a line to print."""
    return f"clients need {variable}={made}" if made else f"clients need the token of {variable}"


def names(host: str) -> frozenset[str] | None:
    """What clients may call this machine: on loopback its own names, elsewhere any."""
    return LOCAL if host in LOOPBACK else None
