"""The embedded engine: exact log-probabilities, batching, rows, cancellation, errors."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import pytest
import torch

from engine_cases import Played, play, play_many, text, worst_difference
from engine_counts import EngineCounts
from rods.engines.hf import HFPolicy, HFSession
from rods.errors import PolicyError
from rods.policy import Completion
from rods.trainers.checkpoint import ModelWeights
from rods.types import FinishReason
from tiny_models import VOCABULARY, build, shake

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama", "llama3-rope"])
def test_fast_path_equals_a_fresh_forward_pass_over_turns(kind: str) -> None:
    model = build(kind)
    policy = HFPolicy(model, [5], rows=8, max_context=128)
    played = play_many(policy, 8)
    assert policy.engine_name == "kv"
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_an_attention_kernel_may_lay_out_its_result_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the one of a GPU for float32 does: heads stand behind queries in memory."""
    attend = torch.nn.functional.scaled_dot_product_attention

    def elsewhere(*tensors: Any, **options: Any) -> torch.Tensor:
        return attend(*tensors, **options).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr("rods.engines.kv.F.scaled_dot_product_attention", elsewhere)
    model = build("qwen3")
    played = play_many(HFPolicy(model, [5], rows=8, max_context=128), 8)
    monkeypatch.undo()
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mistral-window", "moe"])
def test_other_architectures_go_to_the_fallback_and_say_so(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(kind)
    with caplog.at_level(logging.WARNING, "rods.engines"):
        policy = HFPolicy(model, [5], rows=4, max_context=128)
        played = play_many(policy, 6, group=3)
    assert policy.engine_name == "transformers"
    assert [r.name.split(".")[:2] for r in caplog.records] == [["rods", "engines"]]
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_both_paths_sample_the_same() -> None:
    model = build("qwen3")
    fast = HFPolicy(model, [5], rows=8, max_context=128)
    slow = HFPolicy(model, [5], rows=8, max_context=128, fast=False)
    counts = EngineCounts(slow)
    assert [p.ids for p in play_many(fast, 6)] == [p.ids for p in play_many(slow, 6)]
    assert counts.forked_tokens > 0


@pytest.mark.slow
def test_a_sample_does_not_depend_on_its_batch() -> None:
    model = build("qwen3")
    together = play_many(HFPolicy(model, [5], rows=3, max_context=128), 8)
    for i, played in enumerate(together[::2]):  # each of these by an engine of its own
        alone = asyncio.run(play(HFPolicy(model, [5], 1, 128), 2 * i, text(2 * i // 4, 30)))
        assert played.ids == alone.ids


@pytest.mark.slow
def test_the_same_run_twice_is_bitwise_the_same() -> None:
    policy = HFPolicy(build("qwen3"), [5], rows=5, max_context=128)
    assert play_many(policy, 8) == play_many(policy, 8)


@pytest.mark.slow
def test_seeds_differ_and_greedy_ignores_them() -> None:
    policy = HFPolicy(build("qwen3"), [], rows=4, max_context=128)

    async def sample(seed: int, temperature: float) -> tuple[int, ...]:
        return (await policy.open(seed).generate(text(0, 9), 12, temperature)).ids

    assert asyncio.run(sample(1, 1.0)) != asyncio.run(sample(2, 1.0))
    assert asyncio.run(sample(1, 0.0)) == asyncio.run(sample(2, 0.0))


@pytest.mark.slow
def test_logprobs_are_those_after_the_temperature() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [5], rows=8, max_context=128)
    played = play_many(policy, 4, temperature=1.7)
    assert worst_difference(model, played, temperature=1.7) < 1e-4
    assert worst_difference(model, played) > 1e-2


def test_a_shared_prompt_is_computed_once() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=8, max_context=128)
    counts = EngineCounts(policy)

    async def go() -> None:
        prompt = text(0, 40)
        sessions = [policy.open(i, prompt) for i in range(8)]
        await asyncio.gather(*(s.generate(prompt, 1, 1.0) for s in sessions))

    asyncio.run(go())
    assert counts.prefill_tokens == 40 + 7
    assert counts.forked_tokens == 7 * 39


@pytest.mark.slow
def test_a_prompt_outlives_the_session_that_computed_it() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [5], rows=2, max_context=128)
    counts = EngineCounts(policy)
    played = play_many(policy, 8, group=8)
    assert counts.forked_tokens == 7 * 29
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_more_groups_than_slots_copy_their_prompts() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [5], rows=8, max_context=128)
    counts = EngineCounts(policy)
    played = play_many(policy, 8, group=2)
    assert counts.forked_tokens == 4 * 29
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_half_precision_is_close() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [5], rows=8, max_context=128, dtype=torch.bfloat16)
    counts = EngineCounts(policy)
    played = play_many(policy, 8)
    assert counts.forked_tokens > 0
    assert 1e-4 < worst_difference(model, played) < 0.5


@pytest.mark.slow
def test_long_chunks_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.engines.kv._PIECE", 7)
    monkeypatch.setattr("rods.engines.scheduler._PREFILL_TOKENS", 40)
    model = build("qwen3")
    assert worst_difference(model, play_many(HFPolicy(model, [5], 8, 128), 8)) < 1e-4


@pytest.mark.slow
def test_sparse_batches_are_compacted_and_stay_exact() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=24, max_context=160)
    counts = EngineCounts(policy)

    async def one(number: int) -> Played:
        prompt = text(number // 8, 20)
        session = policy.open(number, prompt)
        first = await session.generate(prompt, 50 if number % 4 == 3 else 2, 1.0)
        for _ in range(60 if number % 4 == 1 else 0):
            await asyncio.sleep(0)
        second = await session.generate([1, 2], 40 if number % 4 == 3 else 3, 1.0)
        start = len(prompt) + len(first.ids) + 2
        positions = [*range(20, 20 + len(first.ids)), *range(start, start + len(second.ids))]
        logprobs = [*first.logprobs, *second.logprobs]
        return Played([*prompt, *first.ids, 1, 2, *second.ids], positions, logprobs)

    async def go() -> list[Played]:
        return await asyncio.gather(*(one(i) for i in range(24)))

    played = asyncio.run(go())
    assert counts.moves > 0
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_sessions_that_wait_for_each_other_do_not_deadlock() -> None:
    """Eight sessions meet at a barrier between their turns, with rows for three of them."""
    model = build("qwen3")
    policy = HFPolicy(model, [5], rows=3, max_context=128)
    counts = EngineCounts(policy)

    async def one(number: int, met: list[int], go_on: asyncio.Event) -> Played:
        prompt = text(number, 20)
        session = policy.open(number)
        first = await session.generate(prompt, 4, 1.0)
        met.append(number)
        if len(met) == 8:
            go_on.set()
        await go_on.wait()
        second = await session.generate([1, 2], 4, 1.0)
        session.close()
        ids = [*prompt, *first.ids, 1, 2, *second.ids]
        return Played(ids, [*range(20, 20 + len(first.ids))], list(first.logprobs))

    async def go() -> list[Played]:
        go_on, met = asyncio.Event(), list[int]()
        meeting = asyncio.gather(*(one(i, met, go_on) for i in range(8)))
        return await asyncio.wait_for(meeting, 20)

    played = asyncio.run(go())
    assert counts.evictions > 0
    assert worst_difference(model, played) < 1e-4


def test_stop_id_ends_a_generation_and_belongs_to_it() -> None:
    model = build("qwen3")

    async def run(stop: list[int], limit: int):
        return await HFPolicy(model, stop, 1, 64).open(3).generate(text(0, 9), limit, 1.0)

    free = asyncio.run(run([], 10))
    assert free.finish is FinishReason.LENGTH and len(free.ids) == 10
    stopped = asyncio.run(run([free.ids[4]], 10))
    end = free.ids.index(free.ids[4]) + 1
    assert stopped.finish is FinishReason.STOP
    assert stopped.ids == free.ids[:end] and len(stopped.logprobs) == end


def test_context_end_cuts_a_generation_then_refuses() -> None:
    policy = HFPolicy(build("qwen3"), [], rows=1, max_context=24)

    async def go() -> None:
        session = policy.open(1)
        done = await session.generate(text(0, 20), 50, 1.0)
        assert len(done.ids) == 4 and done.finish is FinishReason.LENGTH
        with pytest.raises(PolicyError, match=r"seed 1, 24 tokens.*context of 24"):
            await session.generate([1], 1, 1.0)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("ids", "limit", "temperature", "message"),
    [
        ([], 3, 1.0, "0 new ids"),
        ([1], 0, 1.0, "max_tokens=0"),
        ([1], 3, -1.0, "temperature=-1.0"),
        ([1], 3, math.nan, "temperature=nan"),
        ([VOCABULARY], 3, 1.0, "do not belong together"),
        ([-1], 3, 1.0, "do not belong together"),
    ],
)
def test_bad_input_is_refused(ids: list[int], limit: int, temperature: float, message: str) -> None:
    policy = HFPolicy(build("qwen3"), [], rows=1, max_context=24)
    with pytest.raises(PolicyError, match=message):
        asyncio.run(policy.open(1).generate(ids, limit, temperature))


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(PolicyError, match="rows=0"):
        HFPolicy(build("qwen3"), [], rows=0, max_context=24)


def test_a_model_without_a_cache_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("qwen3")
    monkeypatch.setattr(model, "forward", lambda input_ids: input_ids)
    with pytest.raises(PolicyError, match="Qwen3ForCausalLM takes no past_key_values"):
        HFPolicy(model, [], rows=1, max_context=24, fast=False)


@pytest.mark.slow
def test_a_cancelled_generation_frees_its_row_and_others_go_on() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=2, max_context=128)

    async def go() -> list[Played]:
        sessions = [policy.open(i) for i in range(2)]
        tasks = [asyncio.create_task(s.generate(text(0, 9), 100, 1.0)) for s in sessions]
        waiting = asyncio.create_task(policy.open(9).generate(text(0, 9), 100, 1.0))
        for _ in range(8):
            await asyncio.sleep(0)
        for task in (*tasks, waiting):
            task.cancel()
        await asyncio.gather(*tasks, waiting, return_exceptions=True)
        assert all(t.cancelled() for t in (*tasks, waiting))
        with pytest.raises(PolicyError, match="cancelled"):
            await sessions[0].generate([1], 1, 1.0)
        for session in sessions:
            session.close()
        return list(await asyncio.gather(*(play(policy, i, text(i, 30)) for i in range(4))))

    played = asyncio.run(go())
    assert worst_difference(model, played) < 1e-4


@pytest.mark.slow
def test_cancelling_at_any_moment_hurts_nobody_else() -> None:
    """The canceller runs right before the driver, which must not resolve a cancelled future."""
    policy = HFPolicy(build("qwen3"), [], rows=2, max_context=64)

    async def cancel_after(task: asyncio.Task[Any], turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()

    async def go(turns: int) -> int:
        victim: asyncio.Task[Any] = asyncio.Task(policy.open(1).generate([1, 2], 5, 1.0))
        canceller = asyncio.create_task(cancel_after(victim, turns))
        other = policy.open(2).generate([1, 2], 6, 1.0)
        done, _, _ = await asyncio.gather(other, victim, canceller, return_exceptions=True)
        assert not isinstance(done, BaseException), done
        return len(done.ids)

    assert [asyncio.run(go(turns)) for turns in range(16)] == [6] * 16


def test_closing_a_session_cancels_its_generation() -> None:
    policy = HFPolicy(build("qwen3"), [], rows=1, max_context=128)

    async def go() -> None:
        session: HFSession = policy.open(1)
        task = asyncio.create_task(session.generate(text(0, 9), 100, 1.0))
        for _ in range(6):
            await asyncio.sleep(0)
        session.close()
        session.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(PolicyError, match="closed"):
            await session.generate([1], 1, 1.0)
        assert len((await policy.open(2).generate([1], 3, 1.0)).ids) == 3

    asyncio.run(go())


@pytest.mark.slow
@pytest.mark.parametrize("fast", [True, False])
def test_sync_takes_new_weights_also_for_open_sessions(fast: bool) -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=2, max_context=128, fast=fast)

    async def go() -> Played:
        prompt = text(0, 20)
        session = policy.open(1)
        first = await session.generate(prompt, 5, 1.0)
        shake(model, 99)
        await policy.sync(ModelWeights(model), 4)
        second = await session.generate([1, 2], 5, 1.0)
        assert (first.version, second.version, policy.version) == (0, 4, 4)
        return Played(
            [*prompt, *first.ids, 1, 2, *second.ids], list(range(27, 32)), list(second.logprobs)
        )

    assert worst_difference(model, [asyncio.run(go())]) < 1e-4


@pytest.mark.slow
def test_sync_in_the_middle_of_a_generation_goes_on() -> None:
    model = build("qwen3")
    policy = HFPolicy(model, [], rows=2, max_context=128)

    async def go() -> Completion:
        task = asyncio.create_task(policy.open(1).generate(text(0, 20), 30, 1.0))
        for _ in range(10):
            await asyncio.sleep(0)
        await policy.sync(ModelWeights(model), 1)
        return await task

    done = asyncio.run(go())
    assert len(done.ids) == 30 and done.version == 0  # that of its first token


def test_training_mode_of_the_model_is_kept() -> None:
    model = build("moe").train()
    policy = HFPolicy(model, [], rows=1, max_context=64)
    asyncio.run(policy.open(1).generate([1, 2], 2, 1.0))
    assert model.training


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_lora_adapters_count_as_merged() -> None:
    from peft import LoraConfig, get_peft_model

    base = build("qwen3")
    plain = play_many(HFPolicy(base, [], 4, 128), 4)
    model: Any = get_peft_model(
        base, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.1)
    )
    shake(model, 7, 0.05)
    model.eval()
    policy = HFPolicy(model, [], rows=4, max_context=128)
    played = play_many(policy, 4)
    assert policy.engine_name == "kv"
    assert worst_difference(model, played) < 1e-4
    assert [p.ids for p in played] != [p.ids for p in plain]


def test_broken_weights_are_an_error_not_a_sample() -> None:
    model = build("qwen3")
    model.model.norm.weight.data.fill_(math.nan)
    policy = HFPolicy(model, [], rows=1, max_context=24)
    with pytest.raises(PolicyError, match="NaN"):
        asyncio.run(policy.open(1).generate([1], 3, 1.0))


@pytest.mark.parametrize("where", ["prefill", "decode"])
def test_an_engine_failure_reaches_every_session(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = HFPolicy(build("qwen3"), [], rows=2, max_context=64)

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(f"rods.engines.kv.RowCache.{where}", fail)

    async def go() -> list[Any]:
        both = (policy.open(i).generate([1, 2], 5, 1.0) for i in range(2))
        return await asyncio.wait_for(asyncio.gather(*both, return_exceptions=True), 30)

    failures = asyncio.run(go())
    assert all(isinstance(f, PolicyError) and "MemoryError: no room" in str(f) for f in failures)
