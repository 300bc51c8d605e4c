"""Every path of one GPU: `pytest -n 0 -m gpu`. With RODS_TEST_DEVICE=cpu the same on a CPU."""

from __future__ import annotations

import asyncio
import copy
import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from engine_cases import Played, play_many, worst_difference
from memory_cases import paper
from odd_models import odd
from rods.assemble.engines import template_of
from rods.config import ModelSettings, parse_config
from rods.engines.attention import after
from rods.engines.hf import HFPolicy
from rods.engines.options import EngineOptions
from rods.engines.vllm import VllmEngine
from rods.policy import Engine
from rods.trainers.loading import load_model
from rods.trainers.local import LocalTrainer
from rods.trainers.memory import RESERVE, plan_of, shape_of
from tiny_models import build
from trainer_cases import (
    make_groups,
    make_model,
    make_scores,
    make_trainer,
    same,
    train_settings,
    weights,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*determinis:UserWarning"),
]
MODES = ["full", "8bit", "offload"]


@pytest.fixture(scope="module")
def device() -> torch.device:
    asked = os.environ.get("RODS_TEST_DEVICE", "cuda")
    if asked == "cuda" and not torch.cuda.is_available():
        pytest.fail("there is no CUDA device; RODS_TEST_DEVICE=cpu runs these tests on the CPU")
    return torch.device(asked)


def half(device: torch.device, rank: int = 0) -> ModelSettings:
    kind: Any = device.type
    return ModelSettings(device=kind, dtype="bfloat16", lora_rank=rank)


def trainer_on(device: torch.device, mode: str = "full", rank: int = 0, **changes: Any) -> Any:
    model = make_model().to(device, torch.bfloat16)
    model.model.rotary_emb = make_model().model.rotary_emb.to(device)  # in float32, as loaded
    return make_trainer(
        model, model_settings=half(device, rank), optimizer_memory=mode, lr=1e-3, **changes
    )


def updated(trainer: Any, updates: int = 2) -> Any:
    groups = make_groups(make_model(), prompt=20)
    for _ in range(updates):
        report = trainer.update(groups, make_scores(groups))
        assert report.trained > 0 and report.grad_norm > 0
    return trainer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_updates_change_the_weights(
    device: torch.device, mode: str, rank: int, checkpointing: bool
) -> None:
    trainer = trainer_on(device, mode, rank, gradient_checkpointing=checkpointing, kl=0.01)
    before = weights(trainer.model)
    updated(trainer)
    after_ = weights(trainer.model)
    assert not same(before, after_)
    assert all(bool(value.isfinite().all()) for value in after_.values())


@pytest.mark.parametrize("rank", [0, 4])
def test_states_in_the_hosts_memory_change_nothing(device: torch.device, rank: int) -> None:
    if rank:
        pytest.xfail("adapters are float32, whose full optimizer is torch's fused one")
    away, here = (updated(trainer_on(device, mode, rank)) for mode in ("offload", "full"))
    assert same(weights(away.model), weights(here.model))
    state = next(iter(away._optimizer.state.values()))
    assert all(v.device.type == "cpu" for v in state.values() if torch.is_tensor(v))


def test_checkpointing_changes_nothing_but_rounding(device: torch.device) -> None:
    plain = weights(updated(trainer_on(device), 1).model)
    again = weights(updated(trainer_on(device, gradient_checkpointing=True), 1).model)
    assert all(torch.allclose(v, again[k], atol=2e-2) for k, v in plain.items())


@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_run_equals_one_that_was_not_killed(
    device: torch.device, mode: str, tmp_path: Any
) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    through = updated(trainer_on(device, mode), 3)
    killed = updated(trainer_on(device, mode), 2)
    killed.save(tmp_path / "c")
    resumed = trainer_on(device, mode)
    resumed.load(tmp_path / "c")
    updated(resumed, 1)
    torch.use_deterministic_algorithms(False)
    for name, value in weights(through.model).items():
        assert torch.allclose(value, weights(resumed.model)[name], atol=1e-3), name


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("past", [1, 300])
def test_attention_without_masks(device: torch.device, groups: int, past: int) -> None:
    generator = torch.Generator(device).manual_seed(0)

    def some(heads: int, count: int) -> torch.Tensor:
        found = torch.randn(1, heads, count, 64, device=device, generator=generator)
        return found.bfloat16().requires_grad_()

    inputs = [some(8, 70), some(8 // groups, past), some(8 // groups, past)]
    inputs += [some(8 // groups, 70), some(8 // groups, 70)]
    ours = after(*inputs, 0.125)
    q, pk, pv, k, v = (t.float() for t in inputs)
    mask = torch.ones(70, past + 70, dtype=torch.bool, device=device).tril(past)
    theirs = scaled_dot_product_attention(
        q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), mask, scale=0.125, enable_gqa=True
    )
    assert float((ours.detach().float() - theirs.detach()).abs().max()) < 0.03
    slope = torch.randn_like(theirs)
    mine = torch.autograd.grad(ours, inputs, slope.bfloat16())
    for one, other in zip(mine, torch.autograd.grad(theirs, inputs, slope), strict=True):
        assert float((one.float() - other.float()).norm() / other.float().norm()) < 0.03


@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama", "mistral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [False, True])
def test_the_fast_engine(device: torch.device, kind: str, dtype: torch.dtype, share: bool) -> None:
    model = build(kind).to(device)
    if dtype is torch.bfloat16:
        rotary = build(kind).model.rotary_emb.to(device)
        model = model.to(dtype)
        model.model.rotary_emb = rotary
    policy = HFPolicy(model, [5], 8, 128, device, dtype, share=share)
    played = play_many(policy, 8)
    assert policy.engine_name == "kv"
    gap = worst_difference_on(model, played, device)
    assert gap < (1e-3 if dtype is torch.float32 else 0.6), gap


def worst_difference_on(model: Any, played: Any, device: torch.device) -> float:
    return worst_difference(lambda ids: model(ids.to(device)), played)


@pytest.mark.parametrize("kind", ["gemma3", "moe", "mistral-window", "gpt_neox"])
def test_other_architectures_are_batched(device: torch.device, kind: str) -> None:
    model = odd(kind).to(device)
    policy = HFPolicy(model, [5], 8, 128, device)
    played = play_many(policy, 8)
    assert policy.engine_name == "transformers"
    assert worst_difference_on(model, played, device) < 1e-3


def test_adapters_reach_the_engine(device: torch.device) -> None:
    trainer = updated(trainer_on(device, rank=4), 3)
    policy = HFPolicy(trainer.model, [5], 8, 128, device, torch.bfloat16, share=True)
    played = [p._replace(ids=[i % 32 for i in p.ids]) for p in play_many_small(policy)]
    assert worst_difference_on(trainer.model, played, device) < 0.6


def play_many_small(policy: HFPolicy) -> Any:
    return asyncio.run(play_small(policy))


async def play_small(policy: Engine) -> list[Played]:
    async def one(number: int) -> Any:
        session = policy.open(number)
        done = await session.generate([1, 2, 3, number + 4], 12, 1.0)
        return Played(
            [1, 2, 3, number + 4, *done.ids], [*range(4, 4 + len(done.ids))], [*done.logprobs]
        )

    return await asyncio.gather(*(one(i) for i in range(8)))


def test_vllm_samples_from_what_it_was_handed(device: torch.device) -> None:
    """Adapters; it sleeps while they change."""
    if device.type != "cuda" or find_spec("vllm") is None:
        pytest.skip("vLLM is not installed here, or there is no GPU to hand weights over on")
    gaps = asyncio.run(vllm_gaps(device, rank=4))
    assert max(gaps.start, gaps.updated) < 0.6 < gaps.stale, gaps


class Gaps(NamedTuple):
    """Largest differences of what vLLM told from a fresh pass."""

    start: float
    updated: float
    stale: float
    """Of what was sampled after the update, from the model before it."""


async def vllm_gaps(device: torch.device, rank: int) -> Gaps:
    settings = half(device, rank).model_copy(update={"name": "tiny"})
    model, tokenizer = load_model(settings)
    template = template_of(model, tokenizer)
    trainer = LocalTrainer(model, tokenizer, train_settings(lr=3e-2, kl=0.0), settings, 10, 0)
    values = {
        "engine": {"name": "vllm", "vllm": {"sleep": True, "memory": 0.2}},
        "model": settings.model_dump(),
        "rollout": {"context_tokens": 512, "concurrency": 8},
    }
    config = parse_config(values, "test")
    engine = VllmEngine(
        EngineOptions(config, template, trainer.model, str(device), True, None, share=True)
    )
    try:
        await engine.start()
        await engine.sync(trainer.weights(), 0)
        start = worst_difference_on(trainer.model, await play_small(engine), device)
        before = copy.deepcopy(trainer.model)
        await engine.sleep()
        groups = make_groups(lambda input_ids: trainer.model(input_ids.to(device)), prompt=20)
        assert trainer.update(groups, make_scores(groups)).trained > 0
        await engine.wake()
        await engine.sync(trainer.weights(), trainer.version)
        played = await play_small(engine)
    finally:
        await engine.close()
    assert trainer.version == 1
    fresh, stale = (worst_difference_on(m, played, device) for m in (trainer.model, before))
    return Gaps(start, fresh, stale)


def test_a_sleeping_cache_is_free(device: torch.device) -> None:
    model = build("qwen3").to(device)
    policy = HFPolicy(model, [], 64, 512, device, cache_bytes=1 << 22)

    async def go() -> tuple[int, int]:
        sessions = [policy.open(i) for i in range(16)]
        await asyncio.gather(*(s.generate([1, 2, 3], 20, 1.0) for s in sessions))
        held = policy._backend._kept.bytes
        await policy.sleep()
        return held, policy._backend._kept.bytes

    held, left = asyncio.run(go())
    assert 0 < held <= 1 << 22 and left == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_plan_covers_what_is_allocated(
    device: torch.device, mode: str, checkpointing: bool
) -> None:
    """Of a model large enough that its weights and activations are most of it."""
    if device.type != "cuda":
        pytest.xfail("a CPU counts no allocations")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    settings = half(device)
    config = copy.deepcopy(make_model().config)
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = 1024, 3072, 8
    config.layer_types, config.max_position_embeddings = None, 4096
    model = type(make_model())(type(config)(**config.to_dict())).to(device, torch.bfloat16)
    trainer = make_trainer(
        model, model_settings=settings, optimizer_memory=mode, microbatch_tokens=8192,
        gradient_checkpointing=checkpointing,
    )  # fmt: skip
    groups = make_groups(make_model(), groups=4, k=8, prompt=2000)
    trainer.update(groups, make_scores(groups))
    asked = paper(
        "model.dtype=bfloat16", "train.kl=0", f"train.local.optimizer_memory={mode}",
        f"train.local.gradient_checkpointing={str(checkpointing).lower()}",
        "train.local.microbatch_tokens=8192", "rollout.context_tokens=8192",
    )  # fmt: skip
    plan = plan_of(shape_of(model.config), asked, on_gpu=True)
    planned = plan.total("always", "update") - RESERVE[True]
    assert torch.cuda.max_memory_allocated() - start <= planned
