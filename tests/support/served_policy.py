"""A test double of an inference server (vLLM, SGLang): token completions of the embedded engine.

It has SGLang's routes for all weights in a folder and vLLM's for LoRA adapters, of which it knows
the last ones alone. Sampling noise is a function of the session's
number and the position, as in process, so both give the same samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, HTTPException
from peft import set_peft_model_state_dict
from pydantic import BaseModel
from safetensors.torch import load_file
from torch import nn

from rods.config import ModelSettings
from rods.engines.hf import HFPolicy, generation_stops
from rods.engines.weights import base_of
from rods.errors import PolicyError
from rods.infra.guard import LOCAL, Guard
from rods.rollout.template import ChatTemplate
from rods.trainers.adapters import with_lora
from rods.trainers.loading import load_model
from rods.types import FinishReason

BODY = 16 << 20
"""Bytes of one request."""


class Asked(BaseModel):
    """What the double reads of a request for a completion."""

    prompt: list[int]
    model: str
    max_tokens: int
    temperature: float
    top_p: float
    stop: list[str] = []
    session_id: str = ""


def policy_app(
    engine: HFPolicy, model: nn.Module, name: str, key: str, requests: int = 1024
) -> Guard:
    """The server as an ASGI application.

    Args:
        engine: samples; it computes with `model`.
        model: takes new weights.
        name: what clients call it.
        key: what clients must show.
        requests: generations in work at once; above, HTTP 429.
    """
    app, running, names = FastAPI(), set[int](), {name}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": name, "owned_by": "rods", "max_model_len": engine.max_context}]}

    @app.post("/v1/completions")
    async def completions(asked: Asked) -> dict[str, Any]:
        if asked.model not in names:
            raise HTTPException(404, f"the model is {name!r}, not {asked.model!r}")
        if len(running) >= requests:
            raise HTTPException(429, "too many requests at once", {"Retry-After": "1"})
        running.add(id(asked))
        number = asked.session_id
        session = engine.open(int(number) if number.isdecimal() else 0, asked.prompt)
        try:
            done = await session.generate(
                asked.prompt, asked.max_tokens, asked.temperature, asked.stop, asked.top_p
            )
        except PolicyError as error:
            raise HTTPException(400, str(error)) from error
        finally:
            session.close()
            running.discard(id(asked))
        stopped = done.finish is FinishReason.STOP_STRING
        choice = {
            "token_ids": list(done.ids),
            "prompt_token_ids": asked.prompt,
            "logprobs": {"token_logprobs": list(done.logprobs)},
            "finish_reason": "stop" if stopped else done.finish.value,
            "stop_reason": "stop string" if stopped else None,
        }
        return {"choices": [choice]}

    @app.post("/pause_generation")
    @app.post("/continue_generation")
    async def nothing() -> dict[str, bool]:
        return {"success": True}

    @app.post("/update_weights_from_disk")
    async def update(body: dict[str, Any]) -> dict[str, bool]:
        files = Path(body["model_path"]).glob("*.safetensors")
        tensors = {name: t for file in files for name, t in load_file(file).items()}
        base = base_of(model)
        if base.state_dict().keys() - tensors.keys() - {"lm_head.weight"}:  # it may be tied
            raise HTTPException(400, "weights of another model")
        base.load_state_dict(tensors, strict=False)
        engine.reload(int(body["weight_version"]))
        return {"success": True}

    @app.post("/v1/load_lora_adapter")
    async def load(body: dict[str, Any]) -> dict[str, bool]:
        tensors = load_file(Path(body["lora_path"]) / "adapter_model.safetensors")
        set_peft_model_state_dict(cast("Any", model), tensors)
        names.add(body["lora_name"])
        engine.reload(engine.version + 1)
        return {"success": True}

    @app.post("/v1/unload_lora_adapter")
    async def unload(body: dict[str, Any]) -> dict[str, bool]:
        names.discard(body["lora_name"])
        return {"success": True}

    return Guard(app, key, LOCAL, BODY)


def served(
    settings: ModelSettings, rows: int, context: int, key: str, name: str = "start"
) -> Guard:
    """The server of a model that the settings name."""
    base, tokenizer = load_model(settings)
    template = ChatTemplate(tokenizer, generation_stops(base))
    model: Any = with_lora(base, settings.lora_rank, 0).eval() if settings.lora_rank else base
    engine = HFPolicy(
        model, template.stop_ids, rows, context, share=True, decode=template.raw_decode
    )
    return policy_app(engine, model, name, key)
