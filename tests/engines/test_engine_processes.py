"""The embedded engine in several processes: samples, weights that are handed over, kills."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch

from places import SUPPORT
from process_cases import CONFIG, options_of
from rods.engines import processes
from rods.engines.hf import HFPolicy
from rods.engines.processes import Processes
from rods.errors import PolicyError
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model
from rods.types import FinishReason

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

PROMPTS = [list(range(10 * g, 10 * g + 60)) for g in range(3)]
SESSIONS = 12


@pytest.fixture(scope="module")
def parts() -> tuple[Any, ChatTemplate]:
    model, tokenizer = load_model(CONFIG.model)
    return model, ChatTemplate(tokenizer)


def embedded(parts: tuple[Any, ChatTemplate]) -> HFPolicy:
    model, template = parts
    decode, context = template.raw_decode, CONFIG.rollout.context_tokens
    return HFPolicy(model, template.stop_ids, SESSIONS, context, decode=decode)


async def play(engine: Engine, number: int) -> list[tuple[Any, ...]]:
    """Three turns of a session, sampled but for every fourth; members of a group share a prompt."""
    prompt = PROMPTS[number // 4]
    session = engine.open(number, prompt)
    new, made = prompt, list[tuple[Any, ...]]()
    for turn in range(3):
        done = await session.generate(new, 5 + number, float(number % 4 != 0))
        made.append((done.ids, done.logprobs, done.finish, done.version))
        new = [100 + number + turn, 7]
    session.close()
    return made


async def play_all(engine: Engine) -> list[list[tuple[Any, ...]]]:
    return await asyncio.gather(*(play(engine, number) for number in range(SESSIONS)))


def within(engine: Processes, do: Callable[[], Awaitable[None]], model: Any) -> None:
    async def go() -> None:
        try:
            await engine.start()
            await engine.sync(ModelWeights(model), 0)
            await do()
        finally:
            await engine.close()

    asyncio.run(go())


def alike(one: list[list[tuple[Any, ...]]], other: list[list[tuple[Any, ...]]]) -> None:
    """The same samples; one session may part from the other's where its noise met a boundary."""
    split = 0
    for mine, theirs in zip(one, other, strict=True):
        for (ids, logprobs, *rest), (wanted, expected, *others) in zip(mine, theirs, strict=True):
            pairs = zip(ids, wanted, strict=False)
            same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
            assert logprobs[:same] == pytest.approx(expected[:same], abs=1e-4)
            if ids != wanted:
                split += 1
                break
            assert rest == others
    assert split <= 1


async def errors_cancelled_generations_and_stop_strings(
    engine: Engine, reference: Engine, template: ChatTemplate
) -> None:
    """They are as in process."""
    with pytest.raises(PolicyError, match="the model knows 0") as raised:
        await engine.open(3).generate([10**6], 4, 1.0)
    with pytest.raises(PolicyError) as wanted:
        await reference.open(3).generate([10**6], 4, 1.0)
    assert str(raised.value) == str(wanted.value)
    session = engine.open(4)
    waiting = asyncio.create_task(session.generate(PROMPTS[0], 2000, 1.0))
    await asyncio.sleep(0)  # it is asked for, and not yet made
    session.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(PolicyError, match="is closed"):
        await session.generate([5], 4, 1.0)
    free = await reference.open(5).generate(PROMPTS[1], 12, 1.0)
    stop = template.raw_decode(free.ids[4:5])
    for policy in (engine, reference):
        session = policy.open(5)
        first = await session.generate(PROMPTS[1], 12, 1.0, (stop,))
        assert first.finish is FinishReason.STOP_STRING and len(first.ids) <= 5
        rest = await session.generate((), 12 - len(first.ids), 1.0)
        assert (*first.ids, *rest.ids)[: len(free.ids)] == free.ids


def test_samples_are_those_of_the_embedded_engine_also_after_new_weights_and_moves(
    parts: tuple[Any, ChatTemplate],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model, template = parts
    engine, reference = Processes(options_of(parts), 2), embedded(parts)
    moves: list[object] = []
    entered = processes.Replica.enter
    monkeypatch.setattr(processes.Replica, "enter", lambda *a: (moves.append(a), entered(*a))[1])

    async def go() -> None:
        monkeypatch.setattr(processes, "UNEVEN", 100)
        before = await play_all(engine)
        alike(before, await play_all(reference))
        assert len(moves) == SESSIONS and {row[3] for made in before for row in made} == {0}
        for replica in engine._replicas:  # pyright: ignore[reportPrivateUsage]
            assert replica.open == 0 and not replica.prompts
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.mul_(1.02)
        for policy in (engine, reference):
            await policy.sync(ModelWeights(model), 1)
        monkeypatch.setattr(processes, "UNEVEN", 1)  # they move as often as they can
        after = await play_all(engine)
        alike(after, await play_all(reference))
        assert {row[3] for made in after for row in made} == {1} and after != before
        assert len(moves) > 2 * SESSIONS
        await errors_cancelled_generations_and_stop_strings(engine, reference, template)

    within(engine, go, model)
    assert "exception" not in capfd.readouterr().err.lower(), "a process met a closed session"
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.div_(1.02)


def test_a_process_that_is_killed_costs_its_generations_and_is_replaced(
    parts: tuple[Any, ChatTemplate], caplog: pytest.LogCaptureFixture
) -> None:
    model, _ = parts
    engine = Processes(options_of(parts), 2)

    async def go() -> None:
        pids = [replica.pid for replica in engine._replicas]  # pyright: ignore
        sessions = [engine.open(number) for number in range(2)]
        playing = [asyncio.create_task(s.generate(PROMPTS[0], 2000, 1.0)) for s in sessions]
        await asyncio.sleep(0)
        os.kill(pids[0], signal.SIGKILL)
        done = await asyncio.gather(*playing, return_exceptions=True)
        assert [isinstance(one, PolicyError) for one in done] == [True, False], done
        assert "a process of the engine ended with 1 sessions" in caplog.text
        assert (await sessions[0].generate([5], 4, 1.0)).ids  # goes on elsewhere
        await engine.sync(ModelWeights(model), 1)
        again = [replica.pid for replica in engine._replicas]  # pyright: ignore
        assert again[1] == pids[1] and again[0] != pids[0]
        assert len(await play_all(engine)) == SESSIONS
        for pid in again:
            os.kill(pid, signal.SIGKILL)
        while any(replica.running for replica in engine._replicas):  # pyright: ignore
            await asyncio.sleep(0.01)
        with pytest.raises(PolicyError, match="no process of the engine runs"):
            await engine.open(1).generate([5], 4, 1.0)

    within(engine, go, model)
    gc.collect()  # a socket left open is an error, where it is collected


RUN = """
import asyncio, sys
from rods.engines.processes import Processes
from process_cases import CONFIG, options_of
from rods.rollout.template import ChatTemplate
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model

async def go():
    model, tokenizer = load_model(CONFIG.model)
    engine = Processes(options_of((model, ChatTemplate(tokenizer))), 2)
    await engine.start()
    await engine.sync(ModelWeights(model), 0)
    made = [engine.open(n).generate(range(9), 20 + n, 1.0) for n in range(200)]
    first, *_ = [asyncio.create_task(one) for one in made]
    await first
    print(*(replica.pid for replica in engine._replicas), flush=True)
    await asyncio.sleep(600)

asyncio.run(go())
"""


def test_processes_end_silently_with_a_run_that_is_killed() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=SUPPORT,
        text=True,
    )
    assert run.stdout is not None and run.stderr is not None
    pids = [int(word) for word in run.stdout.readline().split()]
    assert len(pids) == 2 and all(Path(f"/proc/{pid}").exists() for pid in pids)
    run.kill()
    run.wait()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert run.stderr.read() == ""
    run.stdout.close()
    run.stderr.close()
