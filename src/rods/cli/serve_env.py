"""`rods serve-env`: serve an environment by HTTP, for `env.name = "remote"` elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import typer

from rods.cli.common import overrides_of, say
from rods.config import EnvSettings, load_config
from rods.dialects import structured
from rods.env import Environment
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.guard import LOCAL, new_token
from rods.infra.install import install_line
from rods.infra.service import read_key

App: TypeAlias = Callable[[Environment, EnvSettings, int], Any]
"""Makes the service of an environment for a number of sessions."""
TOKEN = "RODS_ENV_TOKEN"
"""Environment variable of the token that clients must show."""


def serve_env(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0: any free one.", min=0, max=65535)] = 8010,
    sessions: Annotated[int, typer.Option(help="Largest number of open worlds.")] = 1024,
    seconds: Annotated[float, typer.Option(help="Seconds that one action may take.")] = 60.0,
    idle: Annotated[float, typer.Option(help="Seconds until an idle world is closed.")] = 600.0,
    body: Annotated[int, typer.Option(help="Largest request, in bytes.")] = 16 << 20,
    openenv: Annotated[bool, typer.Option("--openenv", help="Serve clients of OpenEnv.")] = False,
    dialect: Annotated[str, typer.Option(help="With --openenv: syntax of calls.")] = "hermes",
) -> None:
    """Serve an environment to runs on other machines.

    Its settings: --env.name NAME, --env.NAME.setting.

    Clients must send a token, the environment variable RODS_ENV_TOKEN. Without the variable, the
    service makes and prints a token, and listens only on this machine. With --openenv it also
    listens only on this machine, because the address contains the token.
    """
    asked = overrides_of(context.args, "serve-env", "env")
    given = read_key(TOKEN)
    if not given and host not in LOCAL:
        raise ConfigError(
            f"--host {host}: anybody on the network could run tools here. Put a token into the "
            f"environment variable {TOKEN}, or listen at 127.0.0.1."
        )
    token = given or new_token()
    if openenv:
        _require_openenv(host, token)
    try:
        from rods.infra.listen import MORE, address, bound, serve

        app_of = _for_openenv(dialect, token, body) if openenv else None
        app_of = app_of or _for_us(seconds, idle, body, token, host)
    except ImportError as error:
        extra = "openenv" if openenv else "serve"
        raise PrerequisiteError(
            f"rods serve-env needs {error.name}: {install_line(extra)}."
        ) from error
    from rods.envs import make_environment

    settings = load_config(overrides=asked).env
    with bound(host, port) as listening:
        environment = make_environment(settings.name, settings.arguments)
        environment.warm_up()
        app = app_of(environment, settings, sessions)
        where = address(listening, host) + (f"/{token}" if openenv else "")
        say(f"{environment.name} at {where}, {sessions} worlds at once")
        if not openenv:
            say(f"clients need the token of {TOKEN}" if given else f"clients need {TOKEN}={token}")
        serve(app, listening, sessions + MORE, body)


def _require_openenv(host: str, token: str) -> None:
    if host not in LOCAL:
        raise ConfigError(
            f"--host {host}: the address of an OpenEnv service contains the token, and anybody "
            "with it could run tools. Listen at 127.0.0.1, behind a proxy that authenticates."
        )
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        raise ConfigError(
            f"{TOKEN}: the address of an OpenEnv service contains the token. Use only letters, "
            "digits and . _ ~ - in it."
        )


def _for_us(seconds: float, idle: float, body: int, token: str, host: str) -> App:
    from rods.envs.remote.server import ServerLimits, environment_app

    hosts = LOCAL if host in LOCAL else None  # elsewhere clients may call this machine anything
    return lambda environment, _, sessions: environment_app(
        environment, ServerLimits(sessions, body, seconds, idle), token, hosts
    )


def _for_openenv(dialect: str, token: str, body: int) -> App:
    from rods.integrations.openenv import openenv_app

    speech = structured(dialect)
    return lambda environment, settings, sessions: openenv_app(
        environment, speech, token, body=body, held_out=settings.held_out, sessions=sessions
    )
