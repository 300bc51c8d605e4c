"""New weights for a server: LoRA adapters, or all weights as a file.

Owns the files, in a folder of its own that the server must see too, and the routes of each way. It
samples nothing. Generations that begin after `send` are sampled from what it handed over; where the
server does not take it, `PolicyError` is raised. `close` may be called more than once.

    handover = Folder(connection, Path("/shared"), half=False)
    await handover.send(trainer.weights(), version=3)
    handover.model                     # what completions must ask for from now on; empty: no change
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from safetensors.torch import save_file

from rods.engines.connection import Connection
from rods.errors import PolicyError
from rods.infra.files import open_to_readers
from rods.policy import Weights

KEPT = 2
"""Versions that are kept: generations in flight may still read the one before."""


class Folder:
    """All weights as a file; the server freezes what is in flight, reads it and goes on.

    The routes are SGLang's. What is in flight is computed again under the new weights (`retract`),
    so that no context mixes the caches of two policies.
    """

    model = ""

    def __init__(self, connection: Connection, folder: Path, half: bool) -> None:
        """Make a folder in `folder`; `half`: write bfloat16, in which the engine computes."""
        self._connection, self._half = connection, half
        self._folder = _own_folder(folder)

    async def send(self, weights: Weights, version: int) -> None:
        """Write them, then have them read."""
        path = self._folder / f"{version}"
        await asyncio.to_thread(self._write, weights, path)
        try:
            await self._connection.control("pause_generation", body={"mode": "retract"})
            body = {"model_path": str(path), "weight_version": str(version)}
            await self._connection.control("update_weights_from_disk", body=body)
        finally:
            await self.go_on()
        shutil.rmtree(path)

    async def go_on(self) -> None:
        """End a pause; a run that was killed while it handed over may have left one."""
        await self._connection.control("continue_generation")

    async def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, weights: Weights, path: Path) -> None:
        kind = torch.bfloat16 if self._half else None
        tensors = {name: t.detach().to("cpu", kind).contiguous() for name, t in weights.tensors()}
        path.mkdir(exist_ok=True)
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        open_to_readers(path)


class Adapters:
    """LoRA adapters, under a new name for each version that completions then ask for.

    What is in flight ends under the adapters with which it began.
    """

    def __init__(
        self, connection: Connection, folder: Path, prefix: str = "v1/", base: str = ""
    ) -> None:
        """Make a folder in `folder`, which the server sees, too.

        `prefix` is that of its routes: vLLM has them below `v1/`, SGLang beside it. A completion
        asks for `base` and the adapter's name (SGLang: the model's name and a colon).
        """
        self._connection, self._folder = connection, _own_folder(folder)
        self._prefix, self._base, self.model = prefix, base, ""
        self._loaded: list[str] = []

    async def send(self, weights: Weights, version: int) -> None:
        """Write them, have them loaded, and drop those that nobody uses any more."""
        if not weights.adapters:
            raise PolicyError(
                'engine.weights = "lora" hands adapters over, but all weights are trained. Set '
                "model.lora_rank, or another engine.weights."
            )
        name = f"{self._folder.name}-{version}"
        await asyncio.to_thread(weights.save, self._folder / name)
        body = {"lora_name": name, "lora_path": str(self._folder / name)}
        await self._connection.control(f"{self._prefix}load_lora_adapter", body=body)
        self._loaded.append(name)
        self.model = f"{self._base}{name}"
        while len(self._loaded) > KEPT:
            await self._unload(self._loaded.pop(0))

    async def close(self) -> None:
        """Unload all of them; a server that is gone already has none."""
        while self._loaded:
            with suppress(PolicyError):
                await self._unload(self._loaded.pop())
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _unload(self, name: str) -> None:
        route = f"{self._prefix}unload_lora_adapter"
        await self._connection.control(route, body={"lora_name": name})
        shutil.rmtree(self._folder / name)


def _own_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix="rods-", dir=parent)).resolve()
        path.chmod(0o755)  # the server may run as another user
    except OSError as error:
        raise PolicyError(f"engine.folder: {parent} cannot be written: {error}.") from error
    return path
