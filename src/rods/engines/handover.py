"""How a server gets new weights: as a file, as LoRA adapters, or by vLLM's interface between GPUs.

Owns the files, in a folder of its own that the server must see too, and the routes of each way. It
samples nothing, and what goes between GPUs is sent by vLLM's own sender.

    handover = Folder(connection, Path("/shared"), half=False)
    await handover.send(trainer.weights(), version=3)
    handover.model                     # what completions must ask for from now on; empty: no change
"""

from __future__ import annotations

import asyncio
import importlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import torch
from safetensors.torch import save_file

from rods.engines.connection import Connection
from rods.errors import PolicyError, PrerequisiteError
from rods.policy import Weights

KEPT = 2
"""Versions that are kept: generations in flight may still read the one before."""
VERSIONS = "0.29 to 0.33"
"""Of vLLM whose options and routes these are."""


class Handover(Protocol):
    """One way to hand weights over."""

    model: str
    """What the server calls the policy since the last hand-over; empty: as it always did."""

    async def send(self, weights: Weights, version: int) -> None:
        """Hand them over; generations that begin afterwards are sampled from them.

        Raises:
            PolicyError: the server does not take them.
        """
        ...

    async def close(self) -> None:
        """Remove what it left on the server and on the disk. May be called more than once."""
        ...


class Folder:
    """All weights as a file; the server freezes what is in flight, reads it and goes on.

    The routes are SGLang's. What is in flight is computed again
    under the new weights (`retract`), so that no context mixes the caches of two policies.
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


class Adapters:
    """LoRA adapters, under a new name for each version that completions then ask for.

    What is in flight ends under the adapters with which it began.
    """

    def __init__(
        self, connection: Connection, folder: Path, prefix: str = "v1/", base: str = ""
    ) -> None:
        """Make a folder in `folder`.

        Args:
            connection: the server.
            folder: which it sees, too.
            prefix: of its routes; vLLM has them below `v1/`, SGLang beside it.
            base: what the name of an adapter must begin with when a completion asks for it
                (SGLang: the model's name and a colon).
        """
        self._connection, self._folder = connection, _own_folder(folder)
        self._prefix, self._base = prefix, base
        self._loaded: list[str] = []
        self.model = ""

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


class Transfer:
    """All weights from the trainer's GPU into the server's: its own memory, or a broadcast.

    Generations in flight are frozen (`keep`), not aborted; what was cached under the old weights is
    computed again. Needs vLLM in this environment, too.
    """

    model = ""

    def __init__(
        self, connection: Connection, url: str, half: bool, *, apart: bool = False
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            connection: the server.
            url: its base URL.
            half: the server computes in bfloat16.
            apart: it computes on other GPUs, to which weights go by NCCL.
        """
        self._connection, self._url, self._half, self._apart = connection, url, half, apart
        self._workers = 0
        self._sender: Any = None
        self._weights: Weights | None = None

    async def send(self, weights: Weights, version: int) -> None:
        """Freeze, share, forget the caches, go on."""
        self._weights = weights
        if self._apart and not self._workers:
            self._workers = await self._connection.workers()
        await self._connection.control("pause", {"mode": "keep"})
        try:
            await asyncio.to_thread(self._send)
            query = {"reset_running_requests": "true"}
            await self._connection.control("reset_prefix_cache", query)
        finally:
            self._weights = None
            await self._connection.control("resume")

    async def go_on(self) -> None:
        """End a pause that a killed run may have left in a server that is not its own."""
        if self._apart:
            await self._connection.control("resume")

    async def close(self) -> None:
        """Nothing is left behind."""

    def _send(self) -> None:
        if self._sender is None:
            self._sender = self._make_sender()
        self._sender.send_weights()

    def _make_sender(self) -> Any:
        way = "nccl" if self._apart else "transfer"
        try:
            package = importlib.import_module("vllm.distributed.weight_transfer")
            base = importlib.import_module("vllm.distributed.weight_transfer.base")
            info = self._info()
        except ImportError as error:
            raise PrerequisiteError(
                f'engine.weights = "{way}" needs vLLM {VERSIONS} in this environment, too '
                f"({error}). Install it, or train LoRA adapters (model.lora_rank)."
            ) from error
        handing_over = self

        class Source(base.WeightSource):
            """The trainer's weights, as vLLM asks for them."""

            def metadata(self) -> list[Any]:
                return [base.ParamMeta(n, t.dtype, tuple(t.shape)) for n, t in self]

            def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
                return handing_over.tensors()

        return package.WeightTransferTrainerFactory.trainer_init(
            init_info=info,
            client=package.HTTPVLLMWeightSyncClient(self._url.removesuffix("/v1")),
            source=Source(),
        )

    def _info(self) -> Any:
        """What vLLM's sender is made from."""
        if not self._apart:
            ipc = importlib.import_module("vllm.distributed.weight_transfer.ipc_engine")
            return ipc.IPCTrainerInitInfo(rank=0, packed=True)
        nccl = importlib.import_module("vllm.distributed.weight_transfer.nccl_engine")
        address = _address_towards(self._url)
        return nccl.NCCLTrainerInitInfo(
            rank=0,
            packed=True,
            master_address=address,
            master_port=free_port(address),
            world_size=1 + self._workers,
        )

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The weights that are being handed over, in the numbers in which the server computes."""
        assert self._weights is not None
        for name, tensor in self._weights.tensors():
            kind = torch.bfloat16 if self._half else tensor.dtype
            yield name, tensor.detach().to(kind).contiguous()


def _own_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix="rods-", dir=parent)).resolve()
        path.chmod(0o755)  # the server may run as another user
    except OSError as error:
        raise PolicyError(f"engine.folder: {parent} cannot be written: {error}.") from error
    return path


def free_port(host: str) -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _address_towards(url: str) -> str:
    """This machine's address, as a server sees it."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with socket.create_connection((str(parts.hostname), port), 30) as reached:
        return str(reached.getsockname()[0])
