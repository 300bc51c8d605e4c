"""`rods serve-policy`: a policy behind HTTP, for `engine.name = "openai"` in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods.cli.common import say
from rods.cli.tokens import names, token_line, token_of
from rods.errors import PrerequisiteError
from rods.infra.install import install_line
from rods.settings.engine import KEY_VARIABLE

if TYPE_CHECKING:
    from rods.engines.serve import Limits


def serve_policy(
    model: Annotated[str, typer.Option(help="`tiny`, a folder, or a name on a hub.")] = "tiny",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0: any free one.", min=0, max=65535)] = 8000,
    rows: Annotated[int, typer.Option(help="Contexts that are cached at once.")] = 64,
    context: Annotated[int, typer.Option(help="Longest context in tokens.")] = 4096,
    device: Annotated[str, typer.Option(help="`auto`, `cpu` or `cuda`.")] = "auto",
    dtype: Annotated[str, typer.Option(help="`auto`, `float32` or `bfloat16`.")] = "auto",
) -> None:
    """Serve a policy's token ids and log-probabilities; a trainer elsewhere may renew its weights.

    Clients must show a key: that of the environment variable RODS_ENGINE_KEY, else one that is
    made and printed. Without the variable it listens on this machine alone.
    """
    key, made = token_of(KEY_VARIABLE, host, "read files and change the weights")
    try:
        from rods.engines.serve import Limits
        from rods.infra.listen import MORE, address, bound, serve
    except ImportError as error:
        raise PrerequisiteError(
            f"rods serve-policy needs {error.name}: {install_line('serve')}."
        ) from error
    limits = Limits()
    with bound(host, port) as listening:
        app = _app(
            model, rows, context, {"device": device, "dtype": dtype}, limits, key, names(host)
        )
        say(f"{model} at {address(listening, host)}/v1, {rows} rows of {context} tokens")
        say(token_line(KEY_VARIABLE, made))
        serve(app, listening, limits.requests + MORE, limits.body)


def _app(
    model: str,
    rows: int,
    context: int,
    how: dict[str, str],
    limits: Limits,
    key: str,
    hosts: frozenset[str] | None,
) -> Any:
    import torch

    from rods.config import ModelSettings
    from rods.engines.hf import HFPolicy, generation_stops
    from rods.engines.serve import policy_app
    from rods.rollout.template import ChatTemplate
    from rods.trainers.loading import load_model, pick_device, uses_bfloat16

    settings = ModelSettings.model_validate({"name": model, **how})
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
    return policy_app(engine, loaded, model, limits, key, hosts)
