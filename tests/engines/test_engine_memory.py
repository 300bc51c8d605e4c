"""The engine's memory: rows that grow by need within a budget, weights in one copy."""

from __future__ import annotations

import asyncio
import copy
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from engine_cases import Played, play_many, text, worst_difference
from engine_counts import EngineCounts
from memory_cases import paper
from rods.engines.hf import HFPolicy
from rods.engines.kv import RowCache
from rods.engines.prefix import PrefixStore
from rods.engines.storage import CALL, FIRST, KeyValues, runs_of, zeros
from rods.engines.weights import DecoderWeights, packs
from rods.errors import PolicyError
from rods.trainers.adapters import with_lora
from rods.trainers.checkpoint import load_checkpoint, save_checkpoint
from rods.trainers.memory import plan_of, shape_of
from tiny_models import build, shake
from trainer_cases import make_groups, make_model, make_scores, make_tokenizer, make_trainer, same
from trainer_cases import weights as weights_of

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
TOKEN = 2 * 2 * 2 * 16 * 4
"""Bytes of one token of `build("qwen3")` in float32: two layers, two key heads of 16."""


def kept(rows: int = 8, longest: int = 1000, budget: int | None = None) -> KeyValues:
    return KeyValues(2, 2, 16, rows, longest, CPU, torch.float32, budget)


def test_nothing_is_allocated_before_it_is_used() -> None:
    store = kept()
    assert store.bytes == 0
    store.reserve(1, 10)
    assert (store.rows, store.capacity, store.bytes) == (1, FIRST, FIRST * TOKEN)
    store.keys[1][0, :, 3] = 7.0
    store.reserve(3, 300)
    assert store.rows == 3 and store.capacity == 384
    assert float(store.keys[1][0, 0, 3, 0]) == 7.0 and float(store.keys[0].abs().sum()) == 0
    store.reserve(4, 2)
    assert store.rows == 6, "as many again, so that rows do not come one by one"
    store.reserve(8, 1000)
    assert (store.rows, store.capacity) == (8, 1000), "never more than was asked for at most"
    store.release()
    assert store.bytes == 0


def test_a_cache_that_grew_holds_only_its_new_rows() -> None:
    """The old ones stayed with glibc: 2 GB at the end of a rollout by SmolLM2-135M."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    blocks = [torch.zeros(7 * 2**20) for _ in range(2)]  # from now on, glibc keeps such blocks
    blocks.clear()
    store = KeyValues(4, 4, 64, 32, 2000, CPU, torch.float32)
    before = resident()
    for length in (384, 576, 864):
        store.reserve(32, length)
        for tensor in (*store.keys, *store.values):
            tensor.fill_(1.0)
    assert resident() - before < 1.2 * store.bytes


def test_a_budget_bounds_rows_by_their_length() -> None:
    store = kept(budget=4 * 384 * TOKEN)
    assert [store.limit(n) for n in (1, 256, 300, 1000)] == [6, 6, 4, 1]
    store.reserve(6, 100)
    store.reserve(4, 300)
    assert store.rows == 4 and store.bytes <= 4 * 384 * TOKEN
    assert kept(budget=1).limit() == 1, "one row is always allowed"


def test_a_longer_prompt_takes_the_place_of_none_that_is_in_use() -> None:
    """A slot that is dropped while rows refer to it ended all generations of the engine."""
    store = PrefixStore(kept(budget=4 * 384 * TOKEN), slots=8)
    for slot in range(6):
        assert store.take(200) == slot
        store.use(slot)
    store.leave(0)
    assert store.take(300) is None and store.kept.rows == 6, "four of that length fit"
    store.leave(5)
    store.leave(4)
    assert store.take(300) == 0 and store.kept.rows == 4


@pytest.mark.parametrize(("half", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
def test_the_plan_of_the_cache_is_what_is_allocated(half: bool, dtype: torch.dtype) -> None:
    model = build("llama")
    cache = RowCache(model, 3, 511, CPU, dtype)
    for row in range(3):
        cache.prefill([row], [text(row, 500)])
    plan = plan_of(
        shape_of(model.config),
        paper("rollout.context_tokens=511", "rollout.concurrency=3",
              f"model.dtype={'bfloat16' if half else 'float32'}"),
        on_gpu=half,
    )  # fmt: skip
    cache._kept.reserve(3, 512)
    assert cache._kept.bytes == plan.rows * plan.row == 3 * plan.row


# -- fewer rows than sessions want -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "dtype"), [(1.5, torch.float32), (3, torch.bfloat16)])
def test_samples_do_not_depend_on_the_memory(
    rows: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows start at 16 positions and grow to 128, so that some are taken away while they run."""
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    plenty = HFPolicy(model, [5], rows=8, max_context=128, dtype=dtype)
    budget = int(rows * 129 * TOKEN / (0.8 if dtype is torch.float32 else 2))
    scarce = HFPolicy(model, [5], rows=8, max_context=128, dtype=dtype, cache_bytes=budget)
    counts = EngineCounts(scarce)
    played = play_many(scarce, 8)
    assert scarce._backend._kept.bytes <= budget
    if dtype is torch.float32:
        assert [p.ids for p in played] == [p.ids for p in play_many(plenty, 8)]
        assert worst_difference(model, played) < 1e-4
    if rows < 2:
        assert counts.evictions > 0


@pytest.mark.slow
@pytest.mark.parametrize("fast", [True, False])
def test_a_long_result_leaves_room_for_fewer_rows(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are long only with what a tool answered, which no decode step has seen yet."""
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    budget = 6 * 64 * TOKEN
    scarce = HFPolicy(model, [], rows=6, max_context=400, cache_bytes=budget, fast=fast)
    counts = EngineCounts(scarce)
    plenty = HFPolicy(model, [], rows=6, max_context=400, fast=fast)

    async def one(policy: HFPolicy, number: int) -> list[int]:
        session = policy.open(number)
        first = await session.generate(text(number, 20), 5, 1.0)
        results = text(number + 50, 4 + 40 * number)
        second = await session.generate(results, 9, 1.0)
        session.close()
        return [*first.ids, *second.ids]

    async def go(policy: HFPolicy) -> list[list[int]]:
        return list(await asyncio.gather(*(one(policy, number) for number in range(6))))

    found = asyncio.run(go(scarce))
    assert counts.evictions > 0
    assert found == asyncio.run(go(plenty))


@pytest.mark.slow
def test_running_generations_are_taken_out_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    budget = int(3 * 129 * TOKEN / 0.8)
    policy = HFPolicy(model, [], rows=8, max_context=128, cache_bytes=budget)
    counts = EngineCounts(policy)

    async def one(number: int) -> Played:
        session = policy.open(number)
        prompt = text(number, 9)
        done = await session.generate(prompt, 90, 1.0)
        session.close()
        return Played([*prompt, *done.ids], [*range(9, 99)], list(done.logprobs))

    async def go() -> list[Played]:
        return list(await asyncio.gather(*(one(i) for i in range(8))))

    played = asyncio.run(go())
    assert counts.evictions > 0
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("tensor", [0, 3])
def test_a_cache_that_could_not_grow_works_again(
    tensor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that others fill: keys of one layer had grown, and every later call failed."""
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=4, max_context=128)
    calls = list[int]()

    def scarce(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        if shape[2] == 24:  # the first growth of rows
            calls.append(0)
            if len(calls) == tensor + 1:
                raise MemoryError("no room")
        return zeros(shape, like)

    async def go() -> list[Played]:
        session, prompt = policy.open(0), text(0, 9)
        first = await session.generate(prompt, 3, 1.0)
        monkeypatch.setattr("rods.engines.storage.zeros", scarce)
        with pytest.raises(PolicyError, match="no room"):
            await policy.open(1).generate(text(1, 9), 20, 1.0)
        monkeypatch.undo()
        monkeypatch.setattr("rods.engines.storage.FIRST", 16)
        second = await session.generate([1, 2], 20, 1.0)
        ids = [*prompt, *first.ids, 1, 2, *second.ids]
        fresh = policy.open(2)
        third = await fresh.generate(text(2, 9), 20, 1.0)
        return [
            Played(ids, list(range(14, 34)), list(second.logprobs)),
            Played([*text(2, 9), *third.ids], list(range(9, 29)), list(third.logprobs)),
        ]

    assert worst_difference(model, asyncio.run(go())) < 1e-4


@pytest.mark.parametrize("bounded", [False, True])
def test_a_cache_is_freed_for_an_update(bounded: bool) -> None:
    model = build("qwen3")
    budget = int(3 * 129 * TOKEN / 0.8) if bounded else None
    policy = HFPolicy(model, [], rows=8, max_context=128, cache_bytes=budget)

    async def go() -> Played:
        session, prompt = policy.open(1), text(0, 20)
        first = await session.generate(prompt, 5, 1.0)
        await policy.sleep()
        assert policy._backend._kept.bytes == 0
        await policy.wake()
        second = await session.generate([1, 2], 5, 1.0)
        ids = [*prompt, *first.ids, 1, 2, *second.ids]
        return Played(ids, list(range(27, 32)), list(second.logprobs))

    assert worst_difference(model, [asyncio.run(go())]) < 1e-4


def test_a_high_row_is_moved_down_though_its_memory_was_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    budget = int(3 * 129 * TOKEN / 0.8)
    policy = HFPolicy(model, [], rows=4, max_context=128, cache_bytes=budget)
    prompts = [text(number, 9) for number in range(4)]

    async def go() -> Played:
        sessions = [policy.open(number) for number in range(4)]
        jobs = (one.generate(ids, 3, 1.0) for one, ids in zip(sessions, prompts, strict=True))
        last = (await asyncio.gather(*jobs))[3]
        for session in sessions[:3]:
            session.close()
        await policy.sleep()
        more = text(9, 80)  # so long that there may be three rows, and this is the fourth
        done = await sessions[3].generate(more, 5, 1.0)
        ids = [*prompts[3], *last.ids, *more, *done.ids]
        return Played(ids, list(range(92, 97)), list(done.logprobs))

    assert worst_difference(model, [asyncio.run(go())]) < 1e-4


def test_a_session_that_ended_makes_the_cache_of_others_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its row was one token short of full, and nobody looked whether longer ones were allowed."""
    monkeypatch.setattr("rods.engines.storage.FIRST", 16)
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=4, max_context=128, cache_bytes=70 * TOKEN, fast=False)

    async def one(number: int, length: int, count: int) -> Played:
        session, prompt = policy.open(number), text(number, length)
        done = await session.generate(prompt, count, 1.0)
        session.close()
        ids = [*prompt, *done.ids]
        return Played(ids, list(range(length, len(ids))), list(done.logprobs))

    async def go() -> list[Played]:
        return list(await asyncio.gather(one(0, 9, 7), *(one(i, 3, 12) for i in range(1, 4))))

    assert worst_difference(model, asyncio.run(go())) < 1e-4


# -- one copy of the weights -----------------------------------------------------------------------


def storages(tensors: Any) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in tensors}


def engine_bytes(model: Any, weights: DecoderWeights) -> int:
    """Bytes of matrices that the engine holds beside the model."""
    own = storages(model.parameters())
    mine = [f.weight for layer in weights.layers
            for f in (layer.qkv, layer.out, layer.gate_up, layer.down)]  # fmt: skip
    mine += [weights.head.weight, weights.embedding]
    return sum(
        t.untyped_storage().nbytes() for t in mine if t.untyped_storage().data_ptr() not in own
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen3", "qwen2"])
@pytest.mark.parametrize(("rank", "dtype"), [(0, torch.bfloat16), (4, torch.float32)])
def test_weights_are_there_once(kind: str, rank: int, dtype: torch.dtype) -> None:
    model = build(kind).to(dtype)
    if rank:
        with_lora(model, rank, seed=0)
    before = weights_of(model)
    weights = DecoderWeights(model, CPU, dtype, share=True)
    assert same(before, weights_of(model))
    merged = bool(rank) and dtype is torch.float32
    assert (engine_bytes(model, weights) > 0) == merged


@pytest.mark.slow
def test_an_update_shows_without_a_copy() -> None:
    model = build("qwen2")
    policy = HFPolicy(model, [5], rows=4, max_context=128, share=True)
    play_many(policy, 4)
    shake(model, 9)
    asyncio.run(policy.sync(None, 1))
    assert worst_difference(model, play_many(policy, 4)) < 1e-4
    for parameter in model.parameters():  # as `load_state_dict(assign=True)` does
        parameter.data = parameter.data + 0.01
    asyncio.run(policy.sync(None, 2))
    assert worst_difference(model, play_many(policy, 4)) < 1e-4
    assert engine_bytes(model, policy._backend._w) == 0


HALF = torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize("dtype", [torch.float32, *([torch.bfloat16] if HALF else [])])
@pytest.mark.parametrize("rank", [0, 4])
def test_a_small_model_is_packed_and_a_large_one_is_not(
    rank: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, near = build("qwen2"), 1e-5 if dtype is torch.float32 else 2e-2  # with biases
    if rank:
        with_lora(model, rank, seed=0)
    assert packs(model, CPU, dtype) and not packs(model, CPU, torch.float16)
    packed = DecoderWeights(model, CPU, dtype)
    monkeypatch.setattr("rods.engines.weights.PACKED", 0)
    assert not packs(model, CPU, dtype)
    plain = DecoderWeights(model, CPU, dtype)
    states = torch.randn(5, int(plain.layers[0].qkv.weight.shape[1])).to(dtype)
    for _ in range(2):
        for a, b in zip(packed.layers, plain.layers, strict=True):
            assert torch.allclose(a.qkv(states), b.qkv(states), atol=near, rtol=near)
        before = packed.layers[0].qkv(states)
        shake(model, 9)
        assert torch.equal(before, packed.layers[0].qkv(states)), "nothing changes before a sync"
        packed.sync()
        plain.sync()
        assert not torch.allclose(before, packed.layers[0].qkv(states), atol=1e-3)


def test_runs_hold_each_row_once_and_little_else() -> None:
    def read(runs: list[Any]) -> int:
        return sum((run.end - run.begin) * run.span for run in runs)

    draw = random.Random(0)
    for _ in range(300):
        lengths = [draw.choice((0, 30, 800)) + draw.randrange(100) for _ in range(40)]
        rows = draw.sample(range(40), draw.randrange(1, 41))
        runs = runs_of(rows, lengths, width=128)
        assert all(a.end <= b.begin for a, b in pairwise(runs))
        homes = [[run for run in runs if run.begin <= row < run.end] for row in rows]
        assert all(len(home) == 1 for home in homes)
        assert all(lengths[row] < home[0].span for row, home in zip(rows, homes, strict=True))
        needed = sum(lengths[row] + 1 for row in rows)
        assert needed <= read(runs) <= needed + len(rows) * CALL // 128
    assert len(runs_of(range(8), [50] * 8, width=128)) == 1
    assert [tuple(run) for run in runs_of([0, 1, 5], [40, 44, 0, 0, 0, 700], width=128)] == [
        (0, 2, 45),
        (5, 6, 701),
    ]


@pytest.mark.slow
def test_a_copy_keeps_what_it_was_until_it_is_synced() -> None:
    model = build("qwen2")
    before = copy.deepcopy(model)
    policy = HFPolicy(model, [5], rows=4, max_context=128)
    shake(model, 9)
    assert worst_difference(before, play_many(policy, 4)) < 1e-4


@pytest.mark.slow
def test_shared_weights_are_trained_saved_and_loaded(tmp_path: Any) -> None:
    def played(share: bool) -> tuple[Any, Any]:
        model = make_model()
        trainer = make_trainer(model)
        if share:
            DecoderWeights(model, CPU, torch.float32, share=True)
        groups = make_groups(make_model())
        for _ in range(2):
            trainer.update(groups, make_scores(groups))
        return model, trainer

    (alone, _), (shared, trainer) = played(False), played(True)
    assert same(weights_of(alone), weights_of(shared))
    save_checkpoint(tmp_path / "c", shared, make_tokenizer(), trainer._optimizer, {"step": 2})
    other, optimizer = make_model(seed=3), make_trainer(make_model())._optimizer
    DecoderWeights(other, CPU, torch.float32, share=True)
    assert load_checkpoint(tmp_path / "c", other, optimizer) == {"step": 2}
    assert same(weights_of(other), weights_of(alone))
