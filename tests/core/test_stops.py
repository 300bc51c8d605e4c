"""Stop strings: found across token borders and characters cut in two, by every engine alike."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.tokenizer import train_tokenizer
from rods.engines.hf import HFPolicy
from rods.errors import PolicyError
from rods.policy import Completion, ScriptedPolicy
from rods.rollout.template import ChatTemplate
from rods.stops import Stops, StopStrings
from rods.types import FinishReason
from tiny_models import build

LENGTH = 14
STOPS = ("```output", "</code>", "```python", "été")
TEXTS = ["```python\nprint(1)\n```\n```output\n1\n```", "<code>x</code> pythonic puts", "été naïf"]


@cache
def template() -> ChatTemplate:
    """A real byte-level BPE tokenizer whose merges cross the borders of the stop strings."""
    return ChatTemplate(train_tokenizer(TEXTS * 3, ["puts"], vocab=320))


def first_end(ids: Sequence[int], stops: Sequence[str]) -> int:
    """Ids up to the first that completes a stop string, the slow way; 0: none does."""
    decode = template().raw_decode
    ends = range(1, len(ids) + 1)
    return next((end for end in ends if any(s in decode(ids[:end]) for s in stops)), 0)


def watched_end(ids: Sequence[int], stops: Sequence[str]) -> int:
    watch = StopStrings(stops, template().raw_decode)
    return next((end for end in range(1, len(ids) + 1) if watch.completed_by(ids[:end])), 0)


@pytest.mark.parametrize(
    ("text", "stops", "kept"),
    [
        ("so\n```output", ["```output"], "so\n```output"),
        ("a</code>\nb", ["</code>"], "a</code>"),
        ("x été y", ["été"], "x été"),
        ("```pytho", ["```python"], ""),
        ("``` python", ["```python"], ""),
        ("a</code>```output", ["```output", "</code>"], "a</code>"),
    ],
)
def test_a_stop_string_is_seen_where_it_ends(text: str, stops: list[str], kept: str) -> None:
    tokenizer = template()
    for ids in (tokenizer.encode(text), [i for c in text for i in tokenizer.encode(c)]):
        end = watched_end(ids, stops)
        assert end == first_end(ids, stops)
        assert tokenizer.raw_decode(ids[:end]) == kept


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["```", "output", "put", "é", "t", "py", "thon", "</", "code>"])
                | st.integers(6, 319), max_size=16))  # fmt: skip
def test_the_quick_test_agrees_with_the_slow_one(pieces: list[str | int]) -> None:
    ids: list[int] = []
    for piece in pieces:
        ids += [piece] if isinstance(piece, int) else template().encode(piece)
    assert watched_end(ids, STOPS) == first_end(ids, STOPS)


def test_a_token_that_holds_more_than_the_stop_string_is_kept_whole() -> None:
    tokens = {1: "a", 2: "``", 3: "`python\n", 4: "x"}
    watch = StopStrings(["```python"], lambda ids: "".join(tokens[i] for i in ids))
    assert [watch.completed_by([1, 2, 3, 4][:n]) for n in (1, 2, 3)] == [False, False, True]


def test_only_tokens_that_can_end_a_stop_string_are_looked_at() -> None:
    asked: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        asked.append(len(ids))
        return template().raw_decode(ids)

    ids = template().encode("puts naïf <code>x " * 200)
    watch = StopStrings(["```output"], decode)
    assert not any(watch.completed_by(ids[:end]) for end in range(1, len(ids) + 1))
    assert max(asked) <= len("```output") + 4  # the tail alone, never the whole text
    assert len(asked) < len(ids) / 4


def test_stop_strings_need_a_decoder() -> None:
    assert Stops(None).of(()) is None
    for stops in (Stops(None), Stops(template().raw_decode)):
        with pytest.raises(PolicyError, match="decode"):
            stops.of([""])
    known = Stops(template().raw_decode)
    assert known.of(["a"]) is known.of(("a",))


def play(policy: Any, parts: Sequence[tuple[Sequence[int], Sequence[str]]]) -> list[Completion]:
    """One session: new ids and stop strings of each generation."""

    async def run() -> list[Completion]:
        session = policy.open(5)
        return [await session.generate(ids, LENGTH, 1.0, stops) for ids, stops in parts]

    return asyncio.run(run())


def test_a_script_is_cut_and_goes_on_after_it() -> None:
    tokenizer = template()
    ids = [*tokenizer.encode("<code>x</code>"), *tokenizer.encode("puts"), tokenizer.end_id]
    policy = ScriptedPolicy([ids], decode=tokenizer.raw_decode)
    one, two = play(policy, [([1], ["</code>"]), ([], ["</code>"])])
    assert (one.finish, two.finish) == (FinishReason.STOP_STRING, FinishReason.STOP)
    assert tokenizer.raw_decode(one.ids) == "<code>x</code>" and one.ids + two.ids == tuple(ids)
    with pytest.raises(PolicyError, match="new id"):
        play(ScriptedPolicy([ids, ids]), [([1], ()), ([], ())])
    with pytest.raises(PolicyError, match="decode"):
        play(ScriptedPolicy([ids]), [([1], ["x"])])


@cache
def model() -> Any:
    return build("qwen3")


LETTERS = "abcdefghij"


def letters(ids: Sequence[int]) -> str:
    """A decoder for the tiny random models, whose ids mean nothing."""
    return "".join(LETTERS[i % 10] for i in ids)


@pytest.mark.slow
@pytest.mark.parametrize("fast", [True, False])
def test_the_engine_stops_and_goes_on_as_if_it_had_not(fast: bool) -> None:
    policy = HFPolicy(model(), [], rows=2, max_context=96, fast=fast, decode=letters)
    prompt = [3, 1, 4, 1, 5]
    (free,) = play(policy, [(prompt, ())])
    text = letters(free.ids)
    stop = text[6:9]
    end = text.index(stop) + 3
    one, two = play(policy, [(prompt, [stop]), ([], ())])
    assert (one.finish, two.finish) == (FinishReason.STOP_STRING, FinishReason.LENGTH)
    assert one.ids == free.ids[:end] and two.ids[: LENGTH - end] == free.ids[end:]
    torch.testing.assert_close(
        torch.tensor(one.logprobs + two.logprobs)[:LENGTH], torch.tensor(free.logprobs)
    )


def test_the_engine_forgets_the_text_of_an_earlier_generation() -> None:
    policy = HFPolicy(model(), [], rows=2, max_context=96, decode=letters)
    (free,) = play(policy, [([3, 1, 4], ())])
    text = letters(free.ids)
    one, two = play(policy, [([3, 1, 4], [text[0]]), ([], [text[:2]])])
    assert letters(one.ids) == text[0]
    assert len(two.ids) > 1 and two.ids[0] == free.ids[1]


def test_the_engine_says_what_it_needs() -> None:
    policy = HFPolicy(model(), [], rows=2, max_context=96)
    with pytest.raises(PolicyError, match="made with `decode`"):
        play(policy, [([1, 2], ["x"])])
    with pytest.raises(PolicyError, match="at least one id"):
        play(policy, [([1, 2], ()), ([], ())])
