"""`rods serve-env`: an environment behind HTTP, for `env.name = "remote"` on another machine."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from rods.cli.common import LOOPBACK, overrides, say
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.install import install_line

TOKEN = "RODS_ENV_TOKEN"
"""Environment variable of the token that clients must show."""


def serve_env(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.")] = 8010,
    sessions: Annotated[int, typer.Option(help="Worlds open at once.")] = 1024,
    seconds: Annotated[float, typer.Option(help="Seconds of one action.")] = 60.0,
    idle: Annotated[float, typer.Option(help="Seconds until an idle world is closed.")] = 600.0,
    body: Annotated[int, typer.Option(help="Bytes of one request.")] = 4 << 20,
) -> None:
    """Play the worlds of an environment (--env.name NAME, --env.NAME.setting) for others.

    Clients must show the token that the environment variable RODS_ENV_TOKEN holds. Without one it
    listens on this machine alone.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token and host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: whoever reaches it could run tools here. Put a token into the "
            f"environment variable {TOKEN}, or listen at 127.0.0.1."
        )
    try:
        import uvicorn

        from rods.envs.elsewhere.server import ServerLimits, environment_app
    except ImportError as error:
        raise PrerequisiteError(
            f"rods serve-env needs {error.name}: {install_line('serve')}."
        ) from error
    from rods.config import load_config
    from rods.envs import make_environment

    settings = load_config(overrides=overrides(context.args)).env
    environment = make_environment(settings.name, settings.arguments)
    environment.warm_up()
    app = environment_app(environment, ServerLimits(sessions, body, seconds, idle), token)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    say(f"{environment.name} at http://{host}:{port}, {sessions} worlds at once")
    asyncio.run(server.serve())
