"""A program that takes vLLM's command line and has its routes; it writes down what it was asked.

Started as `vllm serve MODEL --port N ...`. With `--die` it ends at once, with a last word.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request


def main() -> None:
    words = sys.argv[1:]
    notes = Path(os.environ["FAKE_VLLM_NOTES"])
    if "--die" in words:
        sys.exit("no such GPU")
    asked: list[Any] = [words, os.environ.get("VLLM_SERVER_DEV_MODE")]
    app = FastAPI()

    def note(what: Any) -> None:
        asked.append(what)
        notes.write_text(json.dumps(asked))

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        name = words[words.index("--served-model-name") + 1]
        longest = int(words[words.index("--max-model-len") + 1])
        return {"data": [{"id": name, "owned_by": "vllm", "max_model_len": longest}]}

    @app.post("/{route:path}")
    async def post(route: str, request: Request) -> dict[str, Any]:
        body = json.loads(await request.body() or b"{}")
        note([route, dict(request.query_params), body.get("model") or body.get("lora_name")])
        choice = {
            "token_ids": [7],
            "logprobs": {"token_logprobs": [-0.5]},
            "finish_reason": "stop",
            "stop_reason": None,
        }
        return {"choices": [choice]}

    note("started")
    uvicorn.run(app, port=int(words[words.index("--port") + 1]), log_level="critical")


if __name__ == "__main__":
    main()
