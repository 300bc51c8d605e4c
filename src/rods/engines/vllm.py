"""vLLM in a process of its own, started and ended by the run.

Owns the command line and the process. Everything else is `openai.py`. It takes LoRA adapters,
or keeps the weights that it was started with. vLLM is never imported, so it may live in another
environment (`engine.vllm.command`).

    engine = VllmEngine(options)                 # engine.name = "vllm"
    await engine.start()                         # waits until the server answers
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

import torch

from rods.config.engine import KEY_VARIABLE
from rods.engines.openai import OpenAIEngine
from rods.engines.options import EngineOptions
from rods.errors import ConfigError, PolicyError, PrerequisiteError
from rods.infra.guard import new_token
from rods.infra.leash import leashed
from rods.infra.service import read_key

_LOG = logging.getLogger(__name__)

VERSIONS = "0.29 to 0.33"
"""Versions of vLLM whose options and routes these are."""
HOST, NAME = "127.0.0.1", "policy"
"""Where it listens, and what it calls the model."""
PATIENCE = 1800.0
"""Seconds until the server must answer: it loads weights and may compile."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Largest ranks of LoRA adapters that it can be made for."""
LOG = "vllm.log"
LORA = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
ROUTES = {"VLLM_SERVER_DEV_MODE": "1"}
"""Sleeping and waking."""


class VllmEngine(OpenAIEngine):
    """`vllm serve` and its model as a policy."""

    def __init__(self, options: EngineOptions) -> None:
        """Work out the command; nothing is started before `start`.

        Raises:
            ConfigError: vLLM takes no adapters of this rank.
        """
        config, settings = options.config, options.config.engine
        rank = config.model.lora_rank
        way = settings.way(rank)
        if way == "lora" and not 0 < rank <= RANKS[-1]:
            raise ConfigError(
                f"model.lora_rank = {rank}: vLLM takes adapters of rank 1 to {RANKS[-1]}."
            )
        with socket.socket() as probe:  # a port at which nobody listens
            probe.bind((HOST, 0))
            self._port = int(probe.getsockname()[1])
        self._folder = Path(tempfile.mkdtemp(prefix="rods-vllm-"))
        # Whatever ends first: the run (`close`), this object, or the program.
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        update = {"url": f"http://{HOST}:{self._port}/v1", "folder": str(self._folder)}
        its = settings.model_copy(update=update | {"model": NAME, "weights": way})
        super().__init__(its, options.template, config.rollout, options.half)
        # Pages that are open in a browser can send requests to loopback, and would get answers.
        self._key = settings.vllm.options.get("api-key") or read_key(KEY_VARIABLE) or new_token()
        self._command = _command(options, way, self._port)
        self._allowed = LORA.copy() if way == "lora" else {}
        self._allowed |= ROUTES if settings.vllm.sleep else {}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the server, wait until it answers, and look at what it can do."""
        log = self._folder / LOG
        if shutil.which(self._command[0]) is None:
            raise PrerequisiteError(
                f"engine.vllm.command: there is no program {self._command[0]!r}. Install vLLM "
                f"{VERSIONS} (here or in another environment), or set engine.name."
            )
        with log.open("wb") as out:
            self._process = await asyncio.create_subprocess_exec(
                *leashed(self._command),
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                env={**os.environ, **self._allowed, "VLLM_API_KEY": self._key},
                start_new_session=True,  # Ctrl-C is for the run, which then ends it
            )
        await self._answering(log)
        await super().start()

    async def sleep(self) -> None:
        """Give its memory back, if the settings ask for it."""
        if self.settings.vllm.sleep:
            await self.connection.control("sleep", {"level": 1, "mode": "wait"})

    async def wake(self) -> None:
        """Take it again, and what updates left reserved of the device before."""
        if self.settings.vllm.sleep:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            await self.connection.control("wake_up")

    async def close(self) -> None:
        """End the server and everything that it started."""
        await super().close()
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is not None:
                code, words = process.returncode, _last_words(self._folder / LOG)
                _LOG.warning("vLLM had ended by itself (%s). Its last words:\n%s", code, words)
            with suppress(ProcessLookupError):  # all that it started is gone, too
                os.killpg(process.pid, signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 30)
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        self._remove()

    async def _answering(self, log: Path) -> None:
        """Wait until somebody listens at the port."""
        assert self._process is not None
        waited, step = 0.0, 0.2
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, self._port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(step)
                waited += step
            if self._process.returncode is not None or waited > PATIENCE:
                code = self._process.returncode
                how = f"does not answer after {waited:.0f} s" if code is None else f"ended ({code})"
                raise PolicyError(
                    f"vLLM {how}. Its command: {' '.join(self._command)}\n"
                    f"Its last words:\n{_last_words(log)}"
                )


def _last_words(log: Path) -> str:
    return log.read_bytes()[-2000:].decode(errors="replace").strip()


def _command(options: EngineOptions, way: str, port: int) -> list[str]:
    """The command line of the server."""
    config, settings = options.config, options.config.engine.vllm
    values: dict[str, str] = {
        "served-model-name": NAME,
        "host": HOST,
        "port": str(port),
        "max-model-len": str(config.rollout.context_tokens),
        "max-num-seqs": str(config.rollout.concurrency),
        "dtype": "bfloat16" if options.half else "float32",
        "logprobs-mode": "processed_logprobs",
        "allowed-origins": "[]",
        "generation-config": "vllm",  # else the model's own sampling defaults come in
    }
    if options.device.startswith("cuda"):
        values["gpu-memory-utilization"] = str(settings.memory)
    flags = ["--enable-prefix-caching"]
    if way == "lora":
        rank = next(rank for rank in RANKS if rank >= config.model.lora_rank)
        values |= {"max-lora-rank": str(rank), "max-loras": "2"}
        flags.append("--enable-lora")
    if settings.sleep:
        flags.append("--enable-sleep-mode")
    values |= settings.options
    named = [word for name, value in values.items() for word in (f"--{name}", value) if word]
    return [settings.command, "serve", str(options.model.name_or_path), *named, *flags]
