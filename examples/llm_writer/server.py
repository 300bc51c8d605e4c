"""A chat server that stands in for a language model: `python examples/llm_writer/server.py`.

It speaks the chat-completions protocol and answers the three questions that the writer `llm` asks
with `synthesis.llm.planner = "graph"`. Its sentences are dull: it is here so that you can see the
requests, and try the whole path without a GPU.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CRITERIA = ("matches", "values", "coherent", "natural", "gaps")
QUOTE = '"'


def message(prompt: str) -> str:
    """Say each thing that is wanted, with its values: what a language model would say better."""
    wanted = prompt.split("in this order:\n")[1].split("\nSay every value")[0]
    sentences: list[str] = []
    for block in re.split(r"\n(?=\d+\. )", wanted.strip()):
        summary, *rows = block.splitlines()
        named = re.findall(r"   - (.*?): (?!leave this open)(.*)", "\n".join(rows))
        said = ", ".join(f"the {noun} is {value.strip(QUOTE)}" for noun, value in named)
        text = re.sub(r"^\d+\. ", "", summary).rstrip(".")
        sentences.append(f"Please {text[0].lower()}{text[1:]}{': ' * bool(said)}{said}")
    answer = re.search(r"asked for what was left open: (.*)\.$", prompt.strip())
    tail = f"<answer>{answer[1][0].upper()}{answer[1][1:]}.</answer>" if answer else ""
    return f"<message>{'. Then '.join(sentences)}.</message>{tail}"


def answer(prompt: str) -> str:
    """Answer as a writer, an editor of the whole conversation, or a judge."""
    if prompt.startswith("You write what a person says"):
        return message(prompt)
    if prompt.startswith("Here is what a person says"):
        said = prompt.split("message by message.\n")[1].split("\nRewrite all messages")[0]
        return json.dumps({"messages": re.findall(r"^\d+\. (.*)$", said, re.M)})
    return json.dumps({**dict.fromkeys(CRITERIA, True), "problem": "", "fault": "none"})


class Handler(BaseHTTPRequestHandler):
    """The two addresses that the writer asks."""

    def do_GET(self) -> None:
        """List the one model."""
        self.reply({"data": [{"id": "stub"}]})

    def do_POST(self) -> None:
        """Answer a conversation."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = answer(body["messages"][-1]["content"])
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        self.reply({"choices": [choice], "usage": {"prompt_tokens": 0, "completion_tokens": 0}})

    def reply(self, data: Any) -> None:
        """Send JSON."""
        raw = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8123
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        server.serve_forever()
