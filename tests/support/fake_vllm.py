"""A program that takes vLLM's command line and has its routes; it writes down what it was asked.

Started as `vllm serve MODEL --port N ...`. With `--die` it ends at once, with a last word.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

WORDS = sys.argv[1:]


def option(name: str) -> str:
    return WORDS[WORDS.index(name) + 1]


class Handler(BaseHTTPRequestHandler):
    asked: list[Any]

    @classmethod
    def note(cls, what: Any) -> None:
        cls.asked.append(what)
        Path(os.environ["FAKE_VLLM_NOTES"]).write_text(json.dumps(cls.asked))

    def _known(self) -> bool:
        """As vLLM: what lies below /v1 needs the key, if there is one."""
        key = os.environ.get("VLLM_API_KEY")
        shown = self.headers.get("Authorization")
        if not key or not self.path.startswith("/v1") or shown == f"Bearer {key}":
            return True
        self.send_error(401)
        return False

    def do_GET(self) -> None:
        if not self._known():
            return
        if self.path != "/v1/models":
            self.send_error(404)
            return
        longest = int(option("--max-model-len"))
        model = {"id": option("--served-model-name"), "owned_by": "vllm", "max_model_len": longest}
        self._answer({"data": [model]})

    def do_POST(self) -> None:
        if not self._known():
            return
        asked = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        named = body.get("model") or body.get("lora_name")
        self.note([asked.path[1:], dict(parse_qsl(asked.query)), named])
        choice = {
            "token_ids": [7],
            "logprobs": {"token_logprobs": [-0.5]},
            "finish_reason": "stop",
            "stop_reason": None,
        }
        self._answer({"choices": [choice]})

    def _answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    if "--die" in WORDS:
        sys.exit("no such GPU")
    Handler.asked = [WORDS, os.environ.get("VLLM_SERVER_DEV_MODE")]
    Handler.note("started")
    ThreadingHTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
