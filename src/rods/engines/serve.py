"""The embedded engine behind HTTP: what `engines/openai.py` asks for, answered by a model here.

Owns the routes, the sessions whose caches are kept from one request to the next, the key and the
limits. Sampling noise is a function of `session_id`, where that is a number, and of the position,
as it is in process; else of `seed`. Token ids alone go in: it has no chat and renders no template.

    app = policy_app(engine, model, "tiny", Limits(), key="secret")
    serve(app, bound("127.0.0.1", 8000), connections=1024, body=16 << 20)    # rods.infra.listen

Weights are read from a folder (SGLang's routes `pause_generation`, `update_weights_from_disk`,
`continue_generation`); `pause` and `resume` are vLLM's.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from rods.engines.hf import HFPolicy, HFSession
from rods.engines.weights import base_of
from rods.errors import PolicyError
from rods.infra.guard import LOCAL, Guard
from rods.policy import Completion
from rods.types import FinishReason


@dataclass(frozen=True)
class Limits:
    """What the server takes at once."""

    requests: int = 1024
    """Generations in work or waiting; above it, HTTP 429."""
    sessions: int = 4096
    """Contexts that are remembered; the one idle for longest is forgotten."""
    body: int = 16 << 20
    """Bytes of one request."""


class CompletionBody(BaseModel):
    """A request for a completion. Fields that would change the sampling in a way that the engine
    does not know are refused unless they ask for nothing."""

    prompt: Annotated[list[int], Field(min_length=1)]
    model: str = ""
    max_tokens: int = Field(default=16, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    stop: list[str] | str | None = None
    stop_token_ids: list[int] | None = None
    seed: int = 0
    session_id: str = ""
    n: int = Field(default=1, ge=1, le=1)
    top_k: int = Field(default=-1, ge=-1, le=0)
    min_p: float = Field(default=0.0, ge=0, le=0)
    repetition_penalty: float = Field(default=1.0, ge=1, le=1)
    presence_penalty: float = Field(default=0.0, ge=0, le=0)
    frequency_penalty: float = Field(default=0.0, ge=0, le=0)


class PauseBody(BaseModel):
    """How to pause: `retract` freezes what is in flight, `abort` ends it."""

    mode: Literal["retract", "abort"] = "abort"


class WeightsBody(BaseModel):
    """Where new weights are, on this machine, and what version they are."""

    model_path: str
    weight_version: int = Field(ge=0)


class _Context:
    """A session and the ids that it has seen."""

    def __init__(self, session: HFSession) -> None:
        self.session, self.ids, self.busy = session, list[int](), False


class _Service:
    """The engine with the sessions that its clients go on with."""

    def __init__(self, engine: HFPolicy, model: nn.Module, name: str, limits: Limits) -> None:
        self.engine, self.name, self.limits = engine, name, limits
        self._model = model
        self._contexts: OrderedDict[str, _Context] = OrderedDict()
        self._running = 0

    async def complete(self, body: CompletionBody) -> Completion:
        """One generation; raises `HTTPException` where it is refused."""
        if body.model != self.name:
            raise HTTPException(404, f"the model is {self.name!r}, not {body.model!r}")
        asked, ends = body.stop_token_ids, self.engine.stop_ids
        if asked is not None and frozenset(asked) != ends:
            raise HTTPException(400, f"generations end at {sorted(ends)} here, not at {asked}")
        if self._running >= self.limits.requests:
            raise HTTPException(429, "too many requests at once", {"Retry-After": "1"})
        self._running += 1
        try:
            return await self._generate(body)
        except PolicyError as error:
            raise HTTPException(400, str(error)) from error
        finally:
            self._running -= 1

    async def _generate(self, body: CompletionBody) -> Completion:
        context, new = self._context(body)
        stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
        context.busy, done = True, False
        try:
            completion = await context.session.generate(
                new, body.max_tokens, body.temperature, stops, body.top_p
            )
            context.ids, done = [*body.prompt, *completion.ids], True
            return completion
        finally:
            context.busy = False
            if not done or self._contexts.get(body.session_id) is not context:
                self._forget(context)

    def _context(self, body: CompletionBody) -> tuple[_Context, list[int]]:
        """The session whose context the prompt continues, else a new one; and the new ids."""
        known = self._contexts.get(body.session_id) if body.session_id else None
        if known is not None and not known.busy:
            seen = len(known.ids)
            if body.prompt[:seen] == known.ids and (
                len(body.prompt) > seen or known.session.goes_on
            ):
                self._contexts.move_to_end(body.session_id)
                return known, body.prompt[seen:]
            self._forget(known)
        number = body.session_id
        seed = int(number) if number.isdecimal() and len(number) < 20 else body.seed
        made = _Context(self.engine.open(seed, body.prompt))
        if body.session_id and (known is None or not known.busy):
            self._contexts[body.session_id] = made
            while len(self._contexts) > self.limits.sessions:
                idle = (c for c in self._contexts.values() if not c.busy and c is not made)
                self._forget(next(idle, made))
        return made, body.prompt

    def _forget(self, context: _Context) -> None:
        context.session.close()
        for name in [n for n, c in self._contexts.items() if c is context]:
            del self._contexts[name]

    def load(self, folder: Path, version: int) -> None:
        """Read new weights; contexts are computed again under them when next used.

        Raises:
            PolicyError: they are not those of this model; it is as it was.
        """
        try:
            files = sorted(folder.glob("*.safetensors"))
            if not files:
                raise PolicyError(f"{str(folder)!r}: there are no weights (*.safetensors).")
            tensors = {name: t for file in files for name, t in load_file(file).items()}
        except (OSError, ValueError, SafetensorError) as error:
            raise PolicyError(f"{folder}: the weights cannot be read: {error}.") from error
        own = base_of(self._model).state_dict()
        given = {own[name].data_ptr() for name in tensors.keys() & own.keys()}
        unlike = {n for n in tensors.keys() & own.keys() if own[n].shape != tensors[n].shape}
        missing = {n for n, t in own.items() if t.data_ptr() not in given}
        if wrong := sorted({*(tensors.keys() - own.keys()), *unlike, *missing}):
            raise PolicyError(f"{folder}: weights of another model: {', '.join(wrong[:3])} differ.")
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)
        self.engine.reload(version)


def policy_app(
    engine: HFPolicy,
    model: nn.Module,
    name: str,
    limits: Limits,
    key: str,
    hosts: frozenset[str] | None = LOCAL,
) -> Guard:
    """The server, an ASGI application.

    Args:
        engine: samples; it computes with `model`.
        model: takes over new weights.
        name: what clients call it.
        limits: what is taken at once.
        key: what clients must show as a bearer token.
        hosts: what clients may call this machine; None: anything.
    """
    service = _Service(engine, model, name, limits)
    app = FastAPI(title="rods serve-policy", openapi_url=None)

    @app.exception_handler(RequestValidationError)
    async def refuse(_: Request, error: RequestValidationError) -> Response:
        # FastAPI's own answer repeats the request, half characters included
        said = "; ".join(
            f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()
        )
        return Response(
            json.dumps({"message": "; ".join(said)}), 422, media_type="application/json"
        )

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        entry = {"id": name, "object": "model", "owned_by": "rods"}
        return {"object": "list", "data": [{**entry, "max_model_len": engine.max_context}]}

    @app.post("/v1/completions")
    async def completions(body: CompletionBody, request: Request) -> dict[str, Any]:
        work = asyncio.ensure_future(service.complete(body))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise HTTPException(499, "the client went away")
            return _answer(name, body, work.result())
        finally:
            work.cancel()
            gone.cancel()

    _add_control(app, service)
    return Guard(app, key, hosts, limits.body)


def _add_control(app: FastAPI, service: _Service) -> None:
    """Routes of a trainer: pausing, going on, new weights."""
    engine = service.engine

    @app.post("/pause")
    async def pause(mode: Annotated[Literal["keep", "abort"], Query()] = "abort") -> dict[str, str]:
        engine.pause(abort=mode == "abort")
        return {"status": "paused"}

    @app.post("/pause_generation")
    async def pause_generation(body: PauseBody) -> dict[str, str]:
        engine.pause(abort=body.mode == "abort")
        return {"status": "paused"}

    @app.post("/resume")
    @app.post("/continue_generation")
    async def resume() -> dict[str, str]:
        engine.resume()
        return {"status": "resumed"}

    @app.get("/is_paused")
    async def is_paused() -> dict[str, bool]:
        return {"is_paused": engine.paused}

    @app.post("/update_weights_from_disk")
    async def update(body: WeightsBody) -> dict[str, Any]:
        try:
            service.load(Path(body.model_path), body.weight_version)
        except PolicyError as error:
            raise HTTPException(400, str(error)) from error
        return {"success": True, "message": f"version {body.weight_version}"}


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(name: str, body: CompletionBody, completion: Completion) -> dict[str, Any]:
    ended = completion.finish
    choice: dict[str, Any] = {
        "index": 0,
        "text": "",
        "token_ids": list(completion.ids),
        "prompt_token_ids": body.prompt,
        "logprobs": {"token_logprobs": list(completion.logprobs)},
        "finish_reason": "stop" if ended is FinishReason.STOP_STRING else ended.value,
        "stop_reason": "stop string" if ended is FinishReason.STOP_STRING else None,
    }
    metadata = {"weight_version": str(completion.version)}
    return {"object": "text_completion", "model": name, "choices": [choice], "metadata": metadata}
