"""The chat client against a real HTTP server: every failure, every hostile mode, no call twice."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopback import MODES, Body, Loopback, broken
from places import SUPPORT
from rods.errors import ConfigError, SynthesisError, WriterError
from rods.synthesis.chat import LlmWriterSettings, split_address
from rods.synthesis.chat.client import RETRIES, WRITING, ChatClient
from rods.synthesis.chat.replies import find_json, is_refusal, strip_thinking

ASK = [{"role": "user", "content": "Say it."}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
KEY = "sk-loopback-0123456789"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.delenv("RODS_WRITER_KEY", raising=False)


def echo(body: Body) -> str:
    return f"You said: {body['messages'][-1]['content']}"


def as_json(body: Body) -> str:
    return json.dumps({"function": "lock_door", "a": 1})


def client(server: Loopback, cache: Path | None = None, **settings: Any) -> ChatClient:
    retries = settings.pop("retries", RETRIES)
    sampling = settings.pop("sampling", WRITING)
    chosen = LlmWriterSettings(url=server.url, **{"timeout": 60.0, **settings})
    chat = ChatClient(chosen, cache, sampling)
    chat._api.max_retries = retries
    return chat


def failing(server: Loopback, **settings: Any) -> WriterError:
    with client(server, **settings) as chat, pytest.raises(WriterError) as caught:
        chat.ask("plan", ASK, schema=SCHEMA)
    assert f"step of synthesis 'plan', {server.url}: " in str(caught.value)
    return caught.value


def test_a_question_is_answered_as_the_settings_say() -> None:
    settings: dict[str, Any] = {
        "model": {"judge": "large"},
        "max_tokens": 77,
    }
    with Loopback(echo, models=["small", "large"]) as server, client(server, **settings) as chat:
        assert chat.ask("plan", ASK, seed=5).text == "You said: Say it."
        reply = chat.ask("judge", ASK, seed=2**40 + 3)
        usage = chat.usage()["judge"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], reply.data) == (2, 4, None)
    first, second = server.requests
    assert (first["model"], first["temperature"], first["seed"]) == ("small", 1.0, 5)
    assert (second["model"], second["temperature"], second["seed"]) == ("large", 1.0, 3)
    assert all(body["top_p"] == 0.7 and body["max_tokens"] == 77 for body in server.requests)
    assert first["messages"] == ASK and "response_format" not in first


def test_a_schema_is_sent_and_its_json_found() -> None:
    with Loopback(as_json) as server, client(server) as chat:
        assert chat.ask("re write", ASK, schema=SCHEMA).data == {"function": "lock_door", "a": 1}
    wanted = server.requests[0]["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"] == {"name": "re_write", "schema": SCHEMA}


def test_a_server_without_schemas_is_remembered() -> None:
    with Loopback(as_json, ["no_schema"]) as server, client(server) as chat:
        for _ in range(3):
            assert chat.ask("plan", ASK, schema=SCHEMA).data == {"function": "lock_door", "a": 1}
        assert chat.usage()["plan"]["calls"] == 3
    assert ["response_format" in body for body in server.requests] == [True, False, False, False]


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("Extra inputs are not permitted: seed", "seed"),
        ("'max_tokens' is unsupported here. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("json_schema is not supported by this backend", "response_format"),
    ],
)
def test_fields_that_a_server_does_not_know_are_left_out(
    status: int, words: str, field: str
) -> None:
    def refuses(body: Body) -> tuple[int, str] | None:
        return (status, words) if field in body else None

    with Loopback(as_json, refuses=refuses) as server, client(server) as chat:
        for number in range(2):
            chat.ask("plan", ASK, seed=number, schema=SCHEMA)
    assert [field in body for body in server.requests] == [True, False, False]
    assert all(
        len(body) == len(server.requests[0]) - (field != "max_tokens")
        for body in server.requests[1:]
    )


def test_a_field_that_is_refused_though_it_is_left_out_is_an_error() -> None:
    with Loopback(as_json, refuses=lambda body: (400, "what seed?")) as server:
        assert "what seed?" in str(failing(server))
    assert server.count == 2


@pytest.mark.parametrize("mode", ["http_429", "http_500", "dropped"])
def test_passing_failures_are_asked_again_and_then_given_up(mode: str) -> None:
    with Loopback(as_json, [mode]) as server:
        error = failing(server, retries=3)
    assert server.count == 4 and not error.fatal
    words = {
        "http_429": "HTTP 429: .*Rate limit.*concurrency",
        "http_500": "HTTP 500: .*Internal.*log",
        "dropped": "the connection failed.*Start the server",
    }
    assert re.search(words[mode], str(error))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["http_429", "http_500", "dropped", "refusal", "empty", "slow"])
def test_a_share_of_failures_costs_no_answer(mode: str) -> None:
    settings: dict[str, Any] = {"timeout": 0.4, "retries": 12} if mode == "slow" else {}
    server = Loopback(echo, [mode], share=0.3, seed=3, delay=60)
    with server, client(server, **settings) as chat:
        asked = [[{"role": "user", "content": f"Say {n}."}] for n in range(6)]
        texts = [chat.ask("plan", question).text for question in asked]
        assert chat.usage()["plan"]["calls"] == 6
    assert texts == [f"You said: Say {n}." for n in range(6)]
    again = server.count - 6
    assert again >= server.modes[mode] > 0
    assert again == server.modes[mode] or mode == "slow"  # a slow machine is slow, too


@pytest.mark.parametrize(("mode", "words"), [("refusal", "refused"), ("empty", "empty")])
def test_refused_and_empty_answers_get_another_seed(mode: str, words: str) -> None:
    with Loopback(as_json, [mode]) as server:
        error = failing(server)
    assert words in str(error) and not error.fatal
    assert server.count == len({body["seed"] for body in server.requests}) == 3


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with Loopback(as_json, ["slow"], delay=60) as server:
        start = time.monotonic()
        error = failing(server, model="loopback", timeout=0.1, retries=1)
        assert 0.2 <= time.monotonic() - start < 30
    assert "no answer within 0.1 s" in str(error) and not error.fatal
    assert "Raise synthesis.llm.timeout" in str(error) and server.count == 2


def test_a_truncated_answer_is_passed_on() -> None:
    with Loopback(as_json, ["truncated"]) as server, client(server) as chat:
        reply = chat.ask("plan", ASK, schema=SCHEMA)
    assert reply.text and reply.data is None


def test_thinking_is_no_part_of_the_answer() -> None:
    with Loopback(as_json, ["thinking"]) as server, client(server) as chat:
        reply = chat.ask("plan", ASK, schema=SCHEMA)
    assert reply.text == as_json({}) and reply.data == json.loads(as_json({}))


@pytest.mark.parametrize(
    ("mode", "data"),
    [
        ("invalid_json", None),
        ("wrong_function", {"function": "conjure_result", "a": 1}),
        ("no_tags", None),
    ],
)
def test_an_answer_of_no_use_is_passed_on(mode: str, data: Any) -> None:
    author = (lambda _: "<plan>lock_door()</plan>") if mode == "no_tags" else as_json
    with Loopback(author, [mode]) as server, client(server) as chat:
        reply = chat.ask("plan", ASK, schema=SCHEMA)
    assert reply.data == data and reply.text == broken(mode, author({})) and server.count == 1


def test_hostile_texts_differ_from_the_authors() -> None:
    text = '<plan>[lock_door(door="a")]</plan> {"functions": ["lock_door"]}'
    changed = [mode for mode in MODES if broken(mode, text) != text]
    assert changed == [
        "invalid_json", "no_tags", "wrong_function",
        "refusal", "empty", "truncated", "thinking",
    ]  # fmt: skip
    assert "lock_door" not in broken("wrong_function", text)
    with pytest.raises(ValueError, match="unknown modes"):
        Loopback(echo, ["rude"])


def test_a_server_that_is_not_there_is_fatal() -> None:
    with Loopback(echo) as server:
        url = server.url
    errors: list[WriterError] = []
    for model in ("m", ""):  # without a name it is asked for its list
        settings = LlmWriterSettings(url=url, model=model, timeout=2)
        with ChatClient(settings) as chat, pytest.raises(WriterError) as caught:
            chat.ask("plan", ASK)
        errors.append(caught.value)
        assert re.search("ConnectError: .*refused.*Start the server", str(caught.value))
    assert errors[0].fatal and errors[1].fatal and url in str(errors[0])
    assert isinstance(errors[0], SynthesisError)
    copy = pickle.loads(pickle.dumps(errors[0]))
    assert copy.fatal and str(copy) == str(errors[0])


def test_a_wrong_key_is_fatal_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RODS_WRITER_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "someone")
    with Loopback(as_json, key="another") as server:
        with client(server, model="loopback") as chat, pytest.raises(WriterError) as caught:
            chat.ask("plan", ASK)
        with client(server) as chat, pytest.raises(WriterError) as listed:
            chat.ask("plan", ASK)
    for error in (caught.value, listed.value):
        assert error.fatal and "401" in str(error) and "RODS_WRITER_KEY" in str(error)
        assert "Bearer ***" in str(error)  # the server repeats what it was told
        assert KEY not in str(error) and error.__suppress_context__
    assert KEY not in caplog.text


def test_the_key_is_sent_and_in_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RODS_WRITER_KEY", f" {KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY", "somebody-elses")
    monkeypatch.setenv("OPENAI_ORG_ID", "someone")
    with Loopback(echo, key=KEY) as server:
        with client(server, tmp_path / "c.sqlite") as chat:
            assert chat.ask("plan", ASK).text == "You said: Say it."
            assert KEY not in repr(chat.settings)
        assert not any("organization" in name for name in server.headers[0])
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    with Loopback(echo) as server, client(server) as chat:
        chat.ask("plan", ASK)
        assert "somebody" not in str(server.headers)


def test_credentials_in_the_url_are_used_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Loopback(echo, ["http_500"], share=0) as server:
        url = server.url.replace("//", "//ann:s3cret-word@")
        with ChatClient(LlmWriterSettings(url=url)) as chat:
            chat.ask("plan", ASK)
            server.share = 1.0
            with pytest.raises(WriterError) as caught:
                chat.ask("plan", [{"role": "user", "content": "Again."}])
        assert server.headers[0]["authorization"] == "Basic YW5uOnMzY3JldC13b3Jk"
    for secret in ("s3cret", "YW5u"):
        assert secret not in str(caught.value) and secret not in caplog.text


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "ftp://u:p@host/v1", "http://h:port/v1"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"synthesis\.llm\.url") as caught:
        ChatClient(LlmWriterSettings(url=url))
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "bare", "pair"),
    [
        ("http://h/v1", "http://h/v1", b""),
        (" https://h:8/v1\n", "https://h:8/v1", b""),
        ("http://ann@h/v1", "http://h/v1", b"ann:"),
        ("http://ann:a%40b%3A@[::1]:8/v1", "http://[::1]:8/v1", b"ann:a@b:"),
        ("http://:@h/v1?x=1#y", "http://h/v1", b""),
    ],
)
def test_credentials_are_no_part_of_the_address(url: str, bare: str, pair: bytes) -> None:
    assert split_address(url) == (bare, base64.b64encode(pair).decode())


def test_a_key_that_no_header_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RODS_WRITER_KEY", "two words")
    with pytest.raises(ConfigError, match="RODS_WRITER_KEY") as caught:
        ChatClient(LlmWriterSettings(url="http://localhost/v1"))
    assert "two words" not in str(caught.value)


def test_a_model_that_is_not_there_is_fatal_and_others_are_named() -> None:
    with Loopback(as_json, models=["one", "two"]) as server:
        error = failing(server, model="three")
        words = "`four` does not exist.*The server has one, two: synthesis.llm.model"
        with client(server, model={"judge": "four"}) as c, pytest.raises(WriterError, match=words):
            c.ask("judge", ASK)
    assert re.search(words.replace("four", "three"), str(error))
    assert error.fatal and server.count == 2


def test_an_address_without_v1_is_explained() -> None:
    with Loopback(echo) as server:
        for model in ("", "loopback"):
            settings = LlmWriterSettings(url=server.url.removesuffix("/v1"), model=model)
            with ChatClient(settings) as chat, pytest.raises(WriterError, match="/v1") as caught:
                chat.ask("plan", ASK)
            assert caught.value.fatal and "404" in str(caught.value)


def test_a_server_without_models_is_explained() -> None:
    server, words = Loopback(echo, models=[]), "lists no model"
    with server, client(server) as chat, pytest.raises(WriterError, match=words):
        chat.ask("plan", ASK)


@pytest.mark.parametrize(
    ("status", "words", "fatal", "advice"),
    [
        (400, "This model's maximum context length is 5 tokens.", False, "with a longer one"),
        (413, "Payload too large", False, "with a longer one"),
        (422, "prompt is too long: 200000 tokens > 100000 maximum", False, "with a longer one"),
        (400, "temperature must be below 1", False, "Read the server's reason"),
        (403, "forbidden", True, "RODS_WRITER_KEY"),
        (404, "no such page", True, "The server has loopback"),
        (301, "moved", False, "Read the server's reason"),
    ],
)
def test_states_that_repetitions_do_not_change(
    status: int, words: str, fatal: bool, advice: str
) -> None:
    with Loopback(as_json, refuses=lambda body: (status, words)) as server:
        error = failing(server)
    assert server.count == 1 and error.fatal is fatal and not error.down
    assert f"HTTP {status}: " in str(error) and words in str(error) and advice in str(error)


def test_retry_after_replaces_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 30.0)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 30.0)
    with Loopback(as_json, ["http_429"], retry_after="0.01") as server:
        start = time.monotonic()
        failing(server, retries=3)
        assert time.monotonic() - start < 15 and server.count == 4


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dropped", "slow"])
def test_a_server_that_answers_nobody_is_down(mode: str) -> None:
    limits: dict[str, Any] = {"timeout": 0.1} if mode == "slow" else {}
    server = Loopback(as_json, [mode], delay=60)
    with server, client(server, model="loopback", retries=2, **limits) as chat:
        for _ in range(2):  # it is asked again, and may have come back
            server.share = 1.0
            with pytest.raises(WriterError) as caught:
                chat.ask("plan", ASK)
            assert caught.value.down and caught.value.suspends and not caught.value.fatal
            server.share = 0.0
            assert chat.ask("plan", ASK).text


@pytest.mark.slow
def test_a_server_that_answers_others_is_not_down() -> None:
    server = Loopback(as_json, pace=0.0)
    with server, client(server, model="loopback", timeout=0.3, retries=2) as chat:
        done = threading.Event()

        def others() -> None:
            while not done.is_set():
                chat.ask("judge", [{"role": "user", "content": "Quick."}])

        thread = threading.Thread(target=others)
        thread.start()
        server.delay, server.hostile = 60, ("slow",)
        server.spared = "Quick."
        with pytest.raises(WriterError, match="no answer within") as caught:
            chat.ask("plan", ASK)
        done.set()
        thread.join()
    assert not caught.value.down


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["http_429", "http_500"])
def test_a_server_that_answers_with_errors_is_not_down(mode: str) -> None:
    with Loopback(as_json, [mode]) as server:
        error = failing(server, retries=12)
    assert server.count == 13 and not error.down


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't assist with that request.", True),
        ("I cannot help with this.", True),
        ("As an AI language model, I am unable to provide that.", True),
        ("Sorry, I can't find my ticket. Could you look it up?", False),
        ("I can't help with that. <plan>lock_door</plan>", False),
        ('{"answer": "I cannot help with that"}', False),
        ("Please book the flight that I cannot cancel.", False),
    ],
)
def test_refusals(text: str, refused: bool) -> None:
    assert is_refusal(text) is refused


def test_a_second_client_repeats_no_call(tmp_path: Path) -> None:
    cache = tmp_path / "new" / "chat.sqlite"
    questions = [[{"role": "user", "content": f"Say {n}. \u00e9"}] for n in range(3)]
    with Loopback(as_json) as server:
        with client(server, cache) as chat:
            first = [chat.ask("plan", one, seed=1, schema=SCHEMA) for one in questions]
        with Loopback(echo) as other, client(other, cache) as chat:
            again = [chat.ask("judge", one, seed=1, schema=SCHEMA) for one in questions]
            assert other.count == 0 and not chat.usage()
    assert server.count == 3
    assert first == again


@pytest.mark.slow
def test_all_that_decides_an_answer_is_in_the_key(tmp_path: Path) -> None:
    cache = tmp_path / "chat.sqlite"
    other = [{"role": "system", "content": "Say it."}]
    with Loopback(echo, models=["loopback", "large"]) as server:
        with client(server, cache) as chat:
            chat.ask("plan", ASK)
            chat.ask("plan", ASK, seed=1)
            chat.ask("plan", ASK, schema={})
            chat.ask("plan", other)
        for changed in (
            {"sampling": {**WRITING, "temperature": 0.5}},
            {"sampling": {**WRITING, "top_p": 0.5}},
            {"max_tokens": 5},
        ):
            with client(server, cache, **changed) as chat:
                chat.ask("plan", ASK)
        for changed in ({"model": "large"}, {"model": {"plan": "large"}}, {"retries": 1}):
            with client(server, cache, **changed) as chat:
                chat.ask("plan", ASK)
    assert server.count == 8  # the number of retries decides nothing


def test_failed_answers_are_not_cached(tmp_path: Path) -> None:
    server = Loopback(echo, ["refusal", "http_500", "empty"])
    with server, client(server, tmp_path / "chat.sqlite", retries=1) as chat:
        with pytest.raises(WriterError):
            chat.ask("plan", ASK)
        server.share, before = 0, server.count
        assert chat.ask("plan", ASK) == chat.ask("plan", ASK)
        assert server.count == before + 1


def test_threads_ask_at_once_and_the_limit_holds() -> None:
    server = Loopback(echo, pace=0.15)  # long enough to overlap on a busy machine
    with server, client(server, concurrency=3) as chat, ThreadPoolExecutor(10) as pool:
        asked = [[{"role": "user", "content": str(n)}] for n in range(15)]
        replies = list(pool.map(lambda one: chat.ask("plan", one), asked))
    assert [reply.text for reply in replies] == [f"You said: {n}" for n in range(15)]
    assert server.most == 3


def test_accounts_are_kept_by_stage() -> None:
    prices: dict[str, Any] = {"price": (1000.0, 3000.0)}
    with Loopback(echo, ["refusal"], share=0.0) as server, client(server, **prices) as chat:
        chat.ask("plan", ASK)
        chat.ask("plan", ASK)
        server.share = 1.0
        with pytest.raises(WriterError):
            chat.ask("judge", ASK)
        usage = chat.usage()
    cost = pytest.approx((4 * 1000 + 8 * 3000) / 1e6)
    expected = {"calls": 2, "prompt_tokens": 4, "completion_tokens": 8, "cost": cost}
    assert usage["plan"] == expected
    judge, words = usage["judge"], len(broken("refusal", "").split())
    assert (judge["calls"], judge["prompt_tokens"]) == (1, 6)  # refusals are paid for
    assert judge["completion_tokens"] == 3 * words


@pytest.mark.slow
def test_a_closed_client_asks_nothing_more_and_the_last_answer_ends_it(tmp_path: Path) -> None:
    with Loopback(echo, pace=0.5) as server, ThreadPoolExecutor(1) as pool:
        chat = client(server, tmp_path / "chat.sqlite", model="loopback")
        waiting = pool.submit(chat.ask, "plan", ASK)
        while not server.count:
            time.sleep(0.005)
        chat.close()
        chat.close()
        assert not chat._api.is_closed()
        with pytest.raises(WriterError, match="closed") as caught:
            chat.ask("plan", ASK)
        assert caught.value.fatal and server.count == 1
        assert waiting.result().text == "You said: Say it."
        assert chat._api.is_closed()


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        (" 42 ", 42),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('```\n{"a": 0}\n```\nor better\n```json\n{"a": 1}\n```', {"a": 1}),
        ('```python\nx = {1}\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ('The plan is {"a": {"b": [1, "}"]}} as asked.', {"a": {"b": [1, "}"]}}),
        ('As [1] and [2] say: {"a": [1]}.', {"a": [1]}),
        ('{"a": [1]} or {"a": [2]}', None),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"calls": [{"name": "x"}, {"na', None),
        ('Cut: {"calls": [{"name": "x"}]', None),
        ('{"a" = 1, "b": [1]}', None),
        ("{'a': ['x'], 'b': [\"y\"]}", None),
        ('{"a": NaN}', None),
        ('{"a": 1e999}', None),
        ('{"a": "\\ud800"}', None),
        ("__import__('os').getcwd()", None),
        ("no JSON at all", None),
        ("", None),
        ("[" * 100_000, None),
        ("[" * 5_000 + "]" * 5_000, None),
    ],
)
def test_find_json(text: str, data: Any) -> None:
    assert find_json(text) == data


@pytest.mark.slow
def test_find_json_takes_linear_time() -> None:
    start = time.process_time()
    for piece in ('{"a" ', "[1 ", '{"a": [1 2]} ', '"', "<think>", "```\n{", "{ "):
        find_json(piece * 8_000)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("<think>a</think> b <think>c</think> d", "b  d"),
        ('{"a": 0} is wrong.</think>\n{"a": 1}', '{"a": 1}'),
        ('<THINK>no</THINK> <thinking>{"a": 0}</thinking> {"a": 1}', '{"a": 1}'),
        ('{"a": 1} <think>and then {"a": 2, "b": 3}', '{"a": 1}'),
        ('<think>perhaps {"a": 0}', ""),
    ],
)
def test_thinking_is_cut_out(text: str, answer: str) -> None:
    assert strip_thinking(text) == answer


@pytest.mark.slow
def test_the_client_imports_no_writer() -> None:
    modules = "client", "replies"
    names = ", ".join(f"rods.synthesis.chat.{name}" for name in modules)
    code = f"import sys, {names}; print(*(n for n in sys.modules if n.startswith('rods.')))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {f"rods.synthesis.chat.{name}" for name in modules} < set(found)
    assert {name for name in found if name.startswith("rods.synthesis.")} <= {
        "rods.synthesis.chat",
        *(f"rods.synthesis.chat.{name}" for name in modules),
    }


@pytest.mark.slow
def test_the_server_runs_as_a_program() -> None:
    path = SUPPORT / "loopback.py"
    command = [sys.executable, str(path), "--author", "builtins:repr", "--hostile", "thinking"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            url = program.stdout.readline().strip()
            with ChatClient(LlmWriterSettings(url=url)) as chat:
                assert "Say it." in chat.ask("plan", ASK).text
        finally:
            program.terminate()
