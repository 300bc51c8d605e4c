"""A server of verl's on a CPU: our engine behind the interface that its vLLM and SGLang have.

verl imports it where it makes the model (`actor_rollout_ref.model.external_lib`), by when its own
registries can be written to; `verl_cpu.py` does in workers that train. The noise of a sample is a
function of the request's id (our session's seed) and of the position, so that runs repeat each
other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import ray
import torch
import verl.workers.engine.fsdp.transformer_impl as engines
from transformers import AutoModelForTokenClassification
from verl.workers.engine.base import EngineRegistry
from verl.workers.rollout import base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from verl_watch import fail_once, watch

NAME = "rods_cpu"
BOTH = ["fsdp", "fsdp2"]


@EngineRegistry.register(model_type="language_model", backend=BOTH, device=["cpu"])
class CPUEngine(engines.FSDPEngineWithLMHead):
    pass


@EngineRegistry.register(model_type="value_model", backend=BOTH, device=["cpu"])
class CPUCritic(engines.FSDPEngineWithValueHead):
    pass


@ray.remote(num_cpus=0, max_concurrency=1000)
class Server:
    def __init__(self, path: str, longest: int) -> None:
        from rods.assemble.engines import template_of
        from rods.config import ModelSettings
        from rods.engines.hf import HFPolicy
        from rods.trainers.loading import load_model

        self.model, tokenizer = load_model(ModelSettings(name=path, threads=1))
        stop = template_of(self.model, tokenizer).stop_ids
        self.engine = HFPolicy(self.model, stop, rows=16, max_context=longest)
        self.step = self.aborts = self.running = 0
        self.goes, self.idle = asyncio.Event(), asyncio.Event()
        self.goes.set()

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        await asyncio.sleep(float(os.environ.get("RODS_SLOW", "0")))
        await self.goes.wait()
        self.running += 1
        self.idle.clear()
        try:
            return await self.sample(request_id, prompt_ids, sampling_params)
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()

    async def sample(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]
    ) -> TokenOutput:
        aborts = self.aborts
        session = self.engine.open(int(request_id), prompt_ids)
        made = await session.generate(
            prompt_ids,
            sampling_params["max_tokens"],
            sampling_params["temperature"],
            (),
            sampling_params["top_p"],
        )
        session.close()
        # An abort takes the second half back: the engine here cannot be broken off in between.
        broken = self.aborts > aborts and len(made.ids) > 1
        kept = len(made.ids) // 2 if broken else len(made.ids)
        return TokenOutput(
            token_ids=list(made.ids[:kept]),
            log_probs=list(made.logprobs[:kept]),
            stop_reason="aborted" if broken else "completed",
            num_preempted=0,
            extra_fields={"global_steps": self.step},
        )

    async def abort_all_requests(self, **_: Any) -> None:
        self.aborts += 1
        self.goes.clear()
        if self.running:
            await self.idle.wait()

    async def resume_generation(self, **_: Any) -> None:
        self.goes.set()

    async def load(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        self.model.load_state_dict(weights, strict=False)
        self.step = step or 0
        self.engine.reload(self.step)

    async def nothing(self, **_: Any) -> None:
        pass

    wake_up = sleep = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class Replica(RolloutReplica):
    async def launch_servers(self) -> None:
        name = f"{NAME}_{self.replica_rank}"
        path = self.model_config["path"]
        server = Server.options(name=name).remote(path, self.config.max_model_len)
        self.servers, self._server_handle, self._server_address = [server], server, name


class Adapter(BaseRollout):
    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", **others: Any
    ) -> None:
        held = {name: value.detach().cpu().clone() for name, value in weights}
        server = ray.get_actor(f"{NAME}_0")
        await server.load.remote(ray.put(held), others.get("global_steps"))


RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[(NAME, "async")] = "verl_server.Adapter"

if "RODS_WATCH" in os.environ and "rods.integrations.verl.trainer" in sys.modules:  # task runner
    watch(Path(os.environ["RODS_WATCH"]))

if "RODS_FAIL_ONCE" in os.environ:
    fail_once(Path(os.environ["RODS_FAIL_ONCE"]))


def without_flash(**options: Any) -> Any:
    """verl's critic asks for an attention that only GPUs have."""
    return LOAD(**{**options, "attn_implementation": "sdpa"})


LOAD = AutoModelForTokenClassification.from_pretrained
AutoModelForTokenClassification.from_pretrained = staticmethod(without_flash)
