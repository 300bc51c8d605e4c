"""`rods serve-policy`: a policy behind HTTP, for `engine.name = "openai"` in another process."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from rods.cli.common import LOOPBACK, say
from rods.errors import ConfigError, PrerequisiteError
from rods.infra.install import install_line
from rods.settings.engine import KEY_VARIABLE
from rods.synthesis.chat.settings import read_key


def serve_policy(
    model: Annotated[str, typer.Option(help="`tiny`, a folder, or a name on a hub.")] = "tiny",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.")] = 8000,
    rows: Annotated[int, typer.Option(help="Contexts that are cached at once.")] = 64,
    context: Annotated[int, typer.Option(help="Longest context in tokens.")] = 4096,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    dtype: Annotated[str, typer.Option(help="`auto`, `float32` or `bfloat16`.")] = "auto",
) -> None:
    """Serve a policy's token ids and log-probabilities; a trainer elsewhere may renew its weights.

    Clients must show the key that the environment variable RODS_ENGINE_KEY holds. Without one it
    listens on this machine alone.
    """
    key = read_key(KEY_VARIABLE)
    if not key and host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: whoever reaches it could read files and change the weights. Put a key "
            f"into the environment variable {KEY_VARIABLE}, or listen at 127.0.0.1."
        )
    app = _app(model, rows, context, {"device": device, "dtype": dtype}, key)
    server = _server(app, host, port)
    say(f"{model} at http://{host}:{port}/v1, {rows} rows of {context} tokens")
    asyncio.run(server.serve())


def _app(model: str, rows: int, context: int, how: dict[str, str], key: str) -> Any:
    import torch

    from rods.config import ModelSettings
    from rods.engines.hf import HFPolicy, generation_stops
    from rods.rollout.template import ChatTemplate
    from rods.trainers.loading import load_model, pick_device, uses_bfloat16

    settings = ModelSettings.model_validate({"name": model, **how})
    try:
        from rods.engines.serve import Limits, policy_app
    except ImportError as error:
        raise PrerequisiteError(
            f"rods serve-policy needs {error.name}: {install_line('serve')}."
        ) from error
    loaded, tokenizer = load_model(settings)
    template = ChatTemplate(tokenizer, generation_stops(loaded))
    at = pick_device(settings)
    engine = HFPolicy(
        loaded,
        template.stop_ids,
        rows,
        context,
        device=at,
        dtype=torch.bfloat16 if uses_bfloat16(settings, at) else torch.float32,
        share=True,
        decode=template.raw_decode,
    )
    return policy_app(engine, loaded, model, Limits(), key)


def _server(app: Any, host: str, port: int) -> Any:
    import uvicorn

    return uvicorn.Server(uvicorn.Config(app, host, port, log_level="warning"))
