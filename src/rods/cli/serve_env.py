"""`rods serve-env`: serve an environment by HTTP, for `env.name = "remote"` elsewhere."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

import typer

from rods.cli.common import overrides_of, refuse_unread, say
from rods.config import load_config
from rods.dialects import structured
from rods.envs import make_environment
from rods.errors import ConfigError
from rods.infra.guard import LOCAL, new_token
from rods.infra.install import needed
from rods.infra.service import read_key

TOKEN = "RODS_ENV_TOKEN"  # environment variable of the token that clients must show


def serve_env(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0: any free one.", min=0, max=65535)] = 8010,
    sessions: Annotated[int, typer.Option(help="Largest number of open worlds.", min=1)] = 1024,
    seconds: Annotated[float, typer.Option(help="Seconds that one action may take.", min=1)] = 60.0,
    idle: Annotated[
        float, typer.Option(help="Seconds until an idle world is closed.", min=1)
    ] = 600.0,
    body: Annotated[int, typer.Option(help="Largest request, in bytes.", min=1)] = 16 << 20,
    openenv: Annotated[bool, typer.Option("--openenv", help="Serve clients of OpenEnv.")] = False,
    dialect: Annotated[str, typer.Option(help="With --openenv: syntax of calls.")] = "hermes",
) -> None:
    """Serve an environment to runs on other machines.

    Its settings: --env.name NAME, --env.NAME.setting.

    Clients must send a token, the environment variable RODS_ENV_TOKEN. Without the variable, the
    service makes and prints a token, and listens only on this machine. With --openenv it also
    listens only on this machine, because the address contains the token.
    """
    asked = overrides_of(context.args, "serve-env")
    unread = ["seconds", "idle"] if openenv else ["dialect"]
    refuse_unread(context, unread, "with --openenv" if openenv else "without --openenv")
    given = read_key(TOKEN)
    if not given and host not in LOCAL:
        raise ConfigError(
            f"--host {host}: anybody on the network could run tools here. Put a token into the "
            f"environment variable {TOKEN}, or listen at 127.0.0.1."
        )
    token = given or new_token()
    if openenv and host not in LOCAL:
        raise ConfigError(
            f"--host {host}: the address of an OpenEnv service contains the token, and anybody "
            "with it could run tools. Listen at 127.0.0.1, behind a proxy that authenticates."
        )
    if openenv and not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        raise ConfigError(
            f"{TOKEN}: the address of an OpenEnv service contains the token. Use only letters, "
            "digits and . _ ~ - in it."
        )
    speech, settings = structured(dialect), load_config(overrides=asked).env
    if settings.tasks:
        raise ConfigError("--env.tasks has no effect: a run names its files itself. Leave it out.")
    with needed("rods serve-env needs {}", "openenv" if openenv else "serve"):
        from rods.infra.listen import MORE, address, bound, serve

        if openenv:
            from rods.integrations.openenv import openenv_app

            app_of = partial(openenv_app, dialect=speech, token=token, body=body)
            app_of = partial(app_of, held_out=settings.held_out, sessions=sessions)
        else:
            from rods.envs.remote.server import ServerLimits, environment_app

            limits = ServerLimits(sessions, body, seconds, idle)
            hosts = LOCAL if host in LOCAL else None  # elsewhere this machine has other names
            app_of = partial(environment_app, limits=limits, token=token, hosts=hosts)
    with bound(host, port) as listening:
        environment = make_environment(settings.name, settings.arguments)
        environment.warm_up()
        where = address(listening, host) + (f"/{token}" if openenv else "")
        say(f"{environment.name} at {where}, {sessions} worlds at once")
        if not openenv:
            say(f"clients need the token of {TOKEN}" if given else f"clients need {TOKEN}={token}")
        serve(app_of(environment), listening, sessions + MORE, body)
