"""`rods serve-env`: an environment behind HTTP, for `env.name = "remote"` on another machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rods.cli.common import LOOPBACK, overrides_of, say
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.install import install_line

if TYPE_CHECKING:
    from rods.config import EnvSettings
    from rods.env import Environment

App: TypeAlias = "Callable[[Environment, EnvSettings, int], Any]"
"""Makes the service of an environment for so many sessions."""
TOKEN = "RODS_ENV_TOKEN"
"""Environment variable of the token that clients must show."""


def serve_env(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.")] = 8010,
    sessions: Annotated[int, typer.Option(help="Worlds open at once.")] = 1024,
    seconds: Annotated[float, typer.Option(help="Seconds of one action.")] = 60.0,
    idle: Annotated[float, typer.Option(help="Seconds until an idle world is closed.")] = 600.0,
    body: Annotated[int, typer.Option(help="Bytes of one request.")] = 16 << 20,
    openenv: Annotated[bool, typer.Option("--openenv", help="For clients of OpenEnv.")] = False,
    dialect: Annotated[str, typer.Option(help="Of OpenEnv's texts.")] = "hermes",
) -> None:
    """Play the worlds of an environment (--env.name NAME, --env.NAME.setting) for others.

    Clients must show the token that the environment variable RODS_ENV_TOKEN holds. Without one it
    listens on this machine alone, and so it does with --openenv, whose clients show none.
    """
    asked = overrides_of(context.args, "serve-env", "env")
    if openenv and host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: clients of OpenEnv show no token, so whoever reaches it could run "
            "tools here. Listen at 127.0.0.1, behind a proxy that asks who comes."
        )
    token = os.environ.get(TOKEN, "").strip()
    if not token and host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: whoever reaches it could run tools here. Put a token into the "
            f"environment variable {TOKEN}, or listen at 127.0.0.1."
        )
    try:
        import uvicorn

        app_of = _for_openenv(dialect) if openenv else _for_us(seconds, idle, body, token)
    except ImportError as error:
        extra = "openenv" if openenv else "serve"
        raise PrerequisiteError(
            f"rods serve-env needs {error.name}: {install_line(extra)}."
        ) from error
    from rods.config import load_config
    from rods.envs import make_environment

    settings = load_config(overrides=asked).env
    environment = make_environment(settings.name, settings.arguments)
    environment.warm_up()
    app = app_of(environment, settings, sessions)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    say(f"{environment.name} at http://{host}:{port}, {sessions} worlds at once")
    asyncio.run(server.serve())


def _for_us(seconds: float, idle: float, body: int, token: str) -> App:
    from rods.envs.elsewhere.server import ServerLimits, environment_app

    return lambda environment, _, sessions: environment_app(
        environment, ServerLimits(sessions, body, seconds, idle), token
    )


def _for_openenv(dialect: str) -> App:
    from rods.dialects import structured
    from rods.envs.elsewhere.openenv import openenv_app

    speech = structured(dialect)
    return lambda environment, settings, sessions: openenv_app(
        environment, speech, held_out=settings.held_out, sessions=sessions
    )
