"""A server as an engine: the same samples as in process, hand-over, aborts, limits, refusals."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from fastapi.responses import Response

from engine_cases import play, text
from engine_counts import EngineCounts
from policy_server import (
    TEMPLATE,
    Scripted,
    SomeAdapters,
    letters,
    local,
    policy_server,
    remote,
    serving,
)
from rods.config import parse_config
from rods.engines import require_trainable
from rods.engines.connection import Connection
from rods.engines.openai import OpenAIEngine
from rods.errors import ConfigError, PolicyError
from rods.policy import Completion, Engine
from rods.trainers.checkpoint import ModelWeights
from rods.types import FinishReason
from tiny_models import build, shake

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with policy_server(build("qwen3")) as (url, _):
        yield url


def run(engine: Engine, work: Callable[[Engine], Any]) -> Any:
    """Work on a started engine."""

    async def go() -> Any:
        try:
            await engine.start()
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(go())


async def many(engine: Any, temperature: float) -> list[Any]:
    prompts = [text(i // 4, 30) for i in range(8)]
    return await asyncio.gather(*(play(engine, i, prompts[i], temperature) for i in range(8)))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.slow
def test_samples_are_those_of_the_engine_in_process(server: str, temperature: float) -> None:
    mine = run(local(build("qwen3")), lambda e: many(e, temperature))
    theirs = run(remote(server, temperature), lambda e: many(e, temperature))
    assert [p.ids for p in theirs] == [p.ids for p in mine]
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(torch.tensor(a.logprobs), torch.tensor(b.logprobs))


@pytest.mark.slow
def test_stop_strings_and_top_p_reach_the_server(server: str) -> None:
    async def go(engine: Engine) -> list[Completion]:
        session = engine.open(5)
        free = await engine.open(5).generate([3, 1, 4], 12, 0.0)
        stop = letters(free.ids)[6:9]
        one = await session.generate([3, 1, 4], 12, 0.0, [stop])
        two = await session.generate([], 12, 0.0)
        narrow = await engine.open(6).generate([3, 1, 4], 12, 1.0, top_p=1e-6)
        return [free, one, two, narrow]

    free, one, two, narrow = run(remote(server), go)
    end = len(one.ids)
    assert one.finish is FinishReason.STOP_STRING and one.ids == free.ids[:end]
    assert two.ids[: 12 - end] == free.ids[end:]
    assert narrow.ids == free.ids


def test_a_context_that_is_full_is_said_before_it_is_sent(server: str) -> None:
    async def go(engine: Engine) -> Completion:
        session = engine.open(1)
        done = await session.generate(text(0, 120), 50, 0.0)
        with pytest.raises(PolicyError, match="leave no room for a sampled token"):
            await session.generate(text(1, 9), 5, 0.0)
        with pytest.raises(PolicyError, match="at least one id"):
            await session.generate([], 5, 0.0)
        return done

    done = run(remote(server), go)
    assert done.finish in (FinishReason.LENGTH, FinishReason.STOP) and len(done.ids) <= 8


@pytest.mark.slow
def test_new_weights_come_as_a_file_while_sessions_stay_open(tmp_path: Path) -> None:
    model = build("qwen3")
    with policy_server(copy.deepcopy(model)) as (url, _):
        mine, theirs = local(model), remote(url, weights="folder", folder=str(tmp_path))

        async def go(engine: Engine) -> tuple[Any, Any]:
            a, b = mine.open(3), engine.open(3)
            first = [await s.generate(text(0, 20), 6, 1.0) for s in (a, b)]
            shake(model, 99)
            for e in (mine, engine):
                await e.sync(ModelWeights(model), 4)
            second = [await s.generate([1, 2], 6, 1.0) for s in (a, b)]
            return first, second

        first, second = run(theirs, go)
        for a, b in (first, second):
            assert (a.ids, a.version, a.finish) == (b.ids, b.version, b.finish)
        assert (first[1].version, second[1].version) == (0, 4)
        assert list(tmp_path.iterdir()) == []  # nothing is left behind

        other = build("llama")
        with pytest.raises(PolicyError, match="weights of another model"):
            run(theirs, lambda e: e.sync(ModelWeights(other), 5))


def test_a_generation_in_flight_goes_on_under_the_new_weights(tmp_path: Path) -> None:
    model = build("qwen3")
    with policy_server(model) as (url, engine):
        counts = EngineCounts(engine)

        async def go(client: Engine) -> Completion:
            running = asyncio.create_task(client.open(1).generate(text(0, 20), 100, 1.0))
            while counts.decode_steps < 3:
                await asyncio.sleep(0.001)
            await client.sync(ModelWeights(copy.deepcopy(model)), 1)
            return await running

        done = run(remote(url, weights="folder", folder=str(tmp_path)), go)
        assert done.version == 0 and done.finish in (FinishReason.LENGTH, FinishReason.STOP)
        free = asyncio.run(local(model).open(1).generate(text(0, 20), 100, 1.0))
        assert done.ids == free.ids  # the weights were equal


def test_a_server_that_breaks_off_is_asked_for_the_rest() -> None:
    ids = [*[10] * 18, *range(18, 30)]
    stop, parts = letters(ids[18:25]), [(ids[:20], "abort"), (ids[20:], "length")]

    def part(body: dict[str, Any]) -> dict[str, Any]:
        some, why = parts[len(body["prompt"]) > 2]
        told = {"token_logprobs": [-0.5] * len(some)}
        return {"token_ids": some, "logprobs": told, "finish_reason": why}

    async def go(client: Engine) -> list[Completion]:
        session = client.open(1)
        first = await session.generate([3, 4], 30, 1.0, [stop])
        return [first, await session.generate([], 10, 1.0, [stop])]

    script = Scripted()
    script.choice = part  # type: ignore[assignment]
    with serving(script.app()) as url:
        first, second = run(remote(url), go)
    assert (list(first.ids), first.finish) == (ids[:20], FinishReason.ABORT)
    # The stop string began in the part before, which the server no longer looks at.
    assert (list(second.ids), second.finish) == (ids[20:25], FinishReason.STOP_STRING)
    assert script.asked[-1][1]["prompt"] == [3, 4, *ids[:20]]


def test_a_server_that_samples_on_is_cut_behind_the_stop_string() -> None:
    """It may sample several tokens at once, heed no stop strings, or not name the one it found."""
    ids = list(range(10, 40))
    given = {"token_logprobs": [-0.5] * len(ids)}
    script = Scripted(token_ids=ids, logprobs=given, finish_reason="stop")

    async def go(client: Engine) -> list[Completion]:
        session = client.open(1)
        first = await session.generate([3, 4], 40, 1.0, [letters(ids[8:15])])
        return [first, await session.generate([], 40, 1.0)]

    with serving(script.app()) as url:
        first, second = run(remote(url), go)
    assert (list(first.ids), first.finish) == (ids[:15], FinishReason.STOP_STRING)
    assert len(first.logprobs) == 15 and second.finish is FinishReason.STOP
    assert script.asked[-1][1]["prompt"] == [3, 4, *ids[:15]]


@pytest.mark.parametrize(
    ("ids", "logprobs", "counts"),
    [
        ("[5, 6]", "[-0.5, NaN]", "2 ids and 0"),
        ("[5, 6]", "[-0.5, -Infinity]", "2 ids and 0"),
        ("[5, 6]", '[-0.5, "-0.5"]', "2 ids and 0"),
        ("[5, NaN]", "[-0.5, -0.5]", "0 ids and 2"),
        ("[]", "[]", "0 ids and 0"),
    ],
)
def test_what_could_not_be_trained_on_is_the_server_s_fault(
    ids: str, logprobs: str, counts: str
) -> None:
    app = FastAPI()
    choice = f'{{"token_ids": {ids}, "logprobs": {{"token_logprobs": {logprobs}}}'

    @app.post("/v1/completions")
    async def complete() -> Response:
        body = f'{{"choices": [{choice}, "finish_reason": "stop"}}]}}'
        return Response(body, media_type="application/json")

    async def go(url: str) -> None:
        engine: Any = remote(url, model="tiny")
        engine._connection = Connection(url, 30)
        with pytest.raises(PolicyError, match=f"{counts} log-probabilities"):
            await engine.open(1).generate(text(0, 20), 10, 1.0)
        await engine.close()

    with serving(app) as url:
        asyncio.run(go(url))


@pytest.mark.parametrize(
    ("body", "words"),
    [('{"choices": [', "not its answer"), ('{"choices": ["x"]}', "not a completion")],
)
def test_a_broken_answer_is_the_server_s_fault(body: str, words: str) -> None:
    app = FastAPI()

    @app.post("/v1/completions")
    async def complete() -> Response:
        return Response(body, media_type="application/json")

    async def go(url: str) -> None:
        connection = Connection(url, 30)
        try:
            with pytest.raises(PolicyError, match=words):
                await connection.complete({}, "session")
        finally:
            await connection.close()

    with serving(app) as url:
        asyncio.run(go(url))


def test_a_session_that_is_closed_ends_its_request() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        arrived.set()
        await reader.read()  # until the client goes away
        gone.set()
        writer.close()

    async def go() -> None:
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        engine: Any = remote(f"http://127.0.0.1:{port}/v1", model="tiny")
        engine._connection = Connection(engine.settings.url, 30)
        session = engine.open(1)
        running = asyncio.create_task(session.generate(text(0, 20), 100, 1.0))
        await asyncio.wait_for(arrived.wait(), 30)
        session.close()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.wait_for(gone.wait(), 30)
        with pytest.raises(PolicyError, match="open=False"):
            await session.generate([1], 5, 1.0)
        await engine.close()
        server.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"token_ids": None}, r"lack ids of the sampled tokens \(return_token_ids\)\. vLLM"),
        ({"logprobs": None, "token_ids": None}, "lack ids .* and log-probabilities"),
        ({"logprobs": {"token_logprobs": [None]}}, "lack log-probabilities"),
        ({"prompt_token_ids": [1, 5]}, r"of the prompt \[5\] it read \[1, 5\]"),
        ({}, r"before the temperature, and rollout.temperature is 0\.7"),
    ],
)
def test_a_server_that_is_no_engine_is_refused_at_the_start(
    choice: dict[str, Any], words: str
) -> None:
    async def nothing(engine: Engine) -> None:
        raise AssertionError("it was not refused")

    with serving(Scripted(**choice).app()) as url, pytest.raises(PolicyError, match=words):
        run(remote(url, temperature=0.7), nothing)


@pytest.mark.slow
def test_what_it_serves_must_be_what_is_asked_for(server: str) -> None:
    async def nothing(engine: Engine) -> str:
        return engine.model  # type: ignore[attr-defined]

    assert run(remote(server), nothing) == "tiny"
    with pytest.raises(PolicyError, match=r"no model 'big' \(engine\.model\), but 'tiny'"):
        run(remote(server, model="big"), nothing)
    with pytest.raises(PolicyError, match=r"context of 128 tokens, fewer than .* = 129"):
        run(remote(server, context=129), nothing)
    with pytest.raises(PolicyError, match=r"cannot be reached .*correct engine\.url"):
        run(remote("http://127.0.0.1:9/v1"), nothing)
    with pytest.raises(PolicyError, match="HTTP 404"):
        run(remote(server.replace("/v1", "/v2")), nothing)
    with pytest.raises(ConfigError, match=r"engine\.url: 'localhost:8000'"):
        run(remote("localhost:8000"), nothing)


def test_fixed_weights_evaluate_and_do_not_train(server: str) -> None:
    engine = remote(server)
    assert engine.capabilities.weights == "fixed"

    async def go(engine: Engine) -> None:
        await engine.sync(ModelWeights(build("qwen3")), 0)  # what it has
        with pytest.raises(PolicyError, match=r"weights are fixed .*version 1"):
            await engine.sync(ModelWeights(build("qwen3")), 1)

    run(engine, go)


@pytest.mark.parametrize(
    ("owner", "prefix", "base"), [("vllm", "v1/", ""), ("sglang", "", "tiny:")]
)
def test_adapters_get_a_name_for_each_version_and_old_ones_go(
    tmp_path: Path, owner: str, prefix: str, base: str
) -> None:
    script = Scripted()
    script.model["owned_by"] = owner

    async def go(engine: Any) -> list[str]:
        session, names = engine.open(1), []
        for version in range(4):
            await engine.sync(SomeAdapters(), version)
            await engine.sync(SomeAdapters(), version)  # after an update that learned nothing
            await session.generate([1], 1, 1.0)
            names.append(script.asked[-1][1]["model"])
        assert len(list(next(tmp_path.iterdir()).iterdir())) == 2
        script.refused[f"{prefix}load_lora_adapter"] = (404, "no such route")
        with pytest.raises(PolicyError, match=rf"no /{prefix}load_lora_adapter\. Start it so"):
            await engine.sync(SomeAdapters(), 4)
        full: Any = ModelWeights(build("qwen3"))
        with pytest.raises(PolicyError, match=r"all weights are trained\. Set model\.lora_rank"):
            await engine.sync(full, 4)
        return names

    with serving(script.app()) as url:
        names = run(remote(url, weights="lora", folder=str(tmp_path)), go)
    assert len(set(names)) == 4 and names[3].endswith("-3")
    loaded, gone = (
        [f"{base}{b['lora_name']}" for route, b in script.asked if route == f"{prefix}{way}"]
        for way in ("load_lora_adapter", "unload_lora_adapter")
    )
    assert loaded[:4] == names and set(gone) == set(names)
    assert gone[:2] == names[:2] and list(tmp_path.iterdir()) == []


def test_a_pause_that_a_killed_run_left_is_ended_before_anything_is_asked(tmp_path: Path) -> None:
    script = Scripted()

    async def nothing(engine: Any) -> None:
        return

    with serving(script.app()) as url:
        run(remote(url, weights="folder", folder=str(tmp_path)), nothing)
    assert script.asked[0][0] == "continue_generation"


def test_every_request_says_what_servers_would_take_from_the_model() -> None:
    script = Scripted()

    async def go(engine: Engine) -> None:
        for seed in (1, 1, 2):
            session = engine.open(seed)
            await session.generate([1, 2], 1, 1.0)
            await session.generate([3], 1, 1.0)

    with serving(script.app()) as url:
        run(remote(url), go)
    bodies = [body for route, body in script.asked if route == "v1/completions"][1:]
    for body in bodies:
        assert (body["top_k"], body["top_p"], body["min_p"]) == (-1, 1.0, 0.0)
        assert body["skip_special_tokens"] is False and body["stop_token_ids"] == [5]
    assert bodies[1]["prompt"] == [1, 2, 7, 3]
    seeds = [body["seed"] for body in bodies]
    assert seeds[:2] == seeds[2:4] and len(set(seeds)) == 4  # by session and position
    assert [body["session_id"] for body in bodies] == ["1", "1", "1", "1", "2", "2"]


@pytest.mark.slow
def test_a_server_s_key_is_shown_and_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(engine: Engine) -> Completion:
        return await engine.open(1).generate([1, 2], 2, 1.0)

    with policy_server(build("qwen3"), key="secret-of-the-server") as (url, _):
        monkeypatch.setenv("RODS_ENGINE_KEY", "another-secret")
        with pytest.raises(PolicyError, match=r"HTTP 401.*RODS_ENGINE_KEY") as refused:
            run(remote(url), go)
        monkeypatch.setenv("RODS_ENGINE_KEY", "secret-of-the-server")
        assert len(run(remote(url), go).ids) > 0
        assert "secret" not in str(refused.value)


@pytest.mark.slow
def test_too_many_requests_are_repeated_later() -> None:
    with policy_server(build("qwen3"), requests=1) as (url, _):

        async def go(engine: Engine) -> list[Completion]:
            return await asyncio.gather(
                *(engine.open(i).generate(text(i, 9), 4, 1.0) for i in range(3))
            )

        assert all(done.ids for done in run(remote(url), go))


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"name": "openai"}, "needs the address of a server"),
        ({"name": "openai", "url": "http://x/v1", "weights": "lora"}, "to a folder, and none"),
        ({"name": "vllm", "weights": "folder"}, "Leave engine.weights out"),
        ({"url": "http://x/v1"}, 'name = "auto" uses none'),
        ({"name": "vllm", "model": "m"}, 'name = "vllm" uses none'),
        ({"name": "hf", "weights": "lora"}, "samples from the trainer's weights"),
        ({"name": "openai", "url": "http://x/v1", "key": "s"}, r"no setting 'engine\.key'"),
    ],
)
def test_settings_that_cannot_work_are_refused(engine: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config({"engine": engine}, "here")


def test_training_is_refused_where_nothing_can_be_learned() -> None:
    def require(**rollout: float) -> None:
        engine = {"name": "openai", "url": "http://x/v1", "weights": rollout.pop("weights", "")}
        if engine["weights"]:
            engine["folder"] = "somewhere"
        config = parse_config({"engine": engine, "rollout": rollout}, "here")
        require_trainable(config, OpenAIEngine(config.engine, TEMPLATE, config.rollout))

    with pytest.raises(ConfigError, match=r"can only be evaluated \(rods eval\)"):
        require()
    with pytest.raises(ConfigError, match=r"rollout\.top_p = 0\.9: .*within the nucleus"):
        require(weights="folder", top_p=0.9)  # type: ignore[arg-type]
    require(weights="folder")  # type: ignore[arg-type]


def test_a_server_that_hangs_is_asked_once() -> None:
    asked, gone = list[bytes](), list[bool]()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        await reader.read()  # until the client goes away
        writer.close()
        await writer.wait_closed()
        gone.append(True)

    async def go() -> float:
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = Connection(f"http://127.0.0.1:{port}/v1", seconds=0.3)
        began = time.monotonic()
        for ask in (connection.models(), connection.complete({}, "session")):
            with pytest.raises(PolicyError, match=r"no answer within 0\.3 s\. Raise engine"):
                await ask
        seconds = time.monotonic() - began
        await connection.close()
        server.close()
        while len(gone) < len(asked):
            await asyncio.sleep(0.01)
        return seconds

    seconds = asyncio.run(go())
    assert [line.split()[1] for line in asked] == [b"/v1/models", b"/v1/completions"]
    assert 0.6 <= seconds < 3
