"""A served policy on loopback in a thread, and a server of scripted answers beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from rods.config import EngineSettings, RolloutSettings
from rods.engines.hf import HFPolicy
from rods.engines.openai import OpenAIEngine
from served_policy import policy_app

LETTERS = "abcdefghij"
KEY = "key-of-the-tests"


def letters(ids: Any) -> str:
    """A decoder for the tiny random models, whose ids mean nothing."""
    return "".join(LETTERS[i % 10] for i in ids)


TEMPLATE: Any = SimpleNamespace(stop_ids=(5,), raw_decode=letters)
"""What an engine needs of a chat template."""


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The base URL of an application; clients show `KEY` unless the environment has another."""
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    own = "RODS_ENGINE_KEY" not in os.environ
    if own:
        os.environ["RODS_ENGINE_KEY"] = KEY
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        if own:
            os.environ.pop("RODS_ENGINE_KEY", None)
        server.should_exit = True
        thread.join()


def local(model: Any, rows: int = 4) -> HFPolicy:
    """The embedded engine over a tiny model."""
    return HFPolicy(model, TEMPLATE.stop_ids, rows, 128, decode=letters)


@contextmanager
def policy_server(
    model: Any, key: str = KEY, requests: int = 1024
) -> Iterator[tuple[str, HFPolicy]]:
    """A served copy of a model: the URL, and the engine behind it."""
    engine = local(model)
    with serving(policy_app(engine, model, "tiny", key, requests)) as url:
        yield url, engine


def remote(url: str, temperature: float = 1.0, context: int = 128, **settings: Any) -> OpenAIEngine:
    """An engine that asks a server."""
    rollout = RolloutSettings(temperature=temperature, context_tokens=context)
    return OpenAIEngine(
        EngineSettings(name="openai", url=url, timeout=30, **settings), TEMPLATE, rollout
    )


class Scripted:
    """A server that answers what it is told to, and remembers what it was asked."""

    def __init__(self, **choice: Any) -> None:
        self.choice = {
            "token_ids": [7],
            "logprobs": {"token_logprobs": [-0.5]},
            "finish_reason": "length",
            **choice,
        }
        self.model: dict[str, Any] = {"id": "tiny"}
        self.asked: list[tuple[str, Any]] = []
        self.refused: dict[str, tuple[int, str]] = {}
        """State and words by route."""

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/v1/models")
        async def models() -> dict[str, Any]:
            return {"data": [self.model]}

        @app.post("/{route:path}")
        async def post(route: str, request: Request) -> Any:
            body = await request.json()
            self.asked.append((route, {**request.query_params, **body}))
            if route in self.refused:
                state, words = self.refused[route]
                return JSONResponse({"message": words}, state)
            answer = self.choice(body) if callable(self.choice) else self.choice
            return {"choices": [answer], "success": True}

        return app


class SomeAdapters:
    """Weights of which only `save` matters."""

    adapters = True

    def save(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"x")
