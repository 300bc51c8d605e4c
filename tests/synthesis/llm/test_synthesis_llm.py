"""The writer with a language model: every stage, the feedback loop, ablations, hostile servers."""

from __future__ import annotations

import functools
import itertools
import json
import random
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from one_outcome import synthesize
from rods.config import SynthesisSettings
from rods.errors import ConfigError, WriterError
from rods.synthesis.base import Base
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.replies import find_json
from rods.synthesis.llm.critique import judge, patched
from rods.synthesis.llm.execute import faults as argument_faults
from rods.synthesis.llm.execute import planned_of
from rods.synthesis.llm.plan import PARSES, CallPlan, misfit, parse_plan
from rods.synthesis.llm.prompting import prompts_hash, render, shortened
from rods.synthesis.llm.rewrite import faults, leaked
from rods.synthesis.llm.writer import LlmWriter, released
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.planned import CallRequest, OpenArgument, PlannedTurn, TurnTexts
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import all_tools
from rods.task import Task
from rods.types import Json, ToolCall, ToolSpec, Value
from rods.writers import make_writer
from scripted_chat import Chat, Reply
from synthesis_cases import ENVIRONMENT, graph_writer, keeper, named, sides


def made(chat: Chat, count: int = 12, **settings: Any) -> list[RequestOutcome]:
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(**settings), graph_writer())
    seeds = random.Random(1).sample(list(sides().train), count)
    return [synthesize(seed, writer, keeper(), 3, 3) for seed in seeds]


def accepted(outcomes: Sequence[RequestOutcome]) -> list[Task]:
    return [o.variant for o in outcomes if o.variant is not None]


@pytest.mark.slow
def test_all_stages_make_variants_that_pass_the_gates() -> None:
    chat = Chat()
    found = accepted(made(chat, 24))
    assert len(found) > 8, "an author that reads its prompts succeeds in about half of all cases"
    assert {"plan", "execute", "rewrite", "coherence", "judge"} <= chat.stages.keys()
    assert all(v.provenance.recipe == f"llm:model@{prompts_hash()}" for v in found)
    assert any("Well, " in turn.user for v in found for turn in v.turns)


@pytest.mark.slow
def test_without_an_offline_writer_plans_are_made_for_the_seeds_own_worlds() -> None:
    writer = LlmWriter(ENVIRONMENT, Chat(), LlmWriterSettings())
    seeds = random.Random(1).sample(list(sides().train), 10)
    pairs = [(seed, synthesize(seed, writer, keeper(), 3, 3).variant) for seed in seeds]
    made = [(seed, variant) for seed, variant in pairs if variant is not None]
    assert len(made) >= 4
    assert all(seed.id in v.provenance.ancestors and seed.world == v.world for seed, v in made)
    with pytest.raises(ConfigError, match=r"llm\.planner"):
        LlmWriter(ENVIRONMENT, Chat(), LlmWriterSettings(planner="graph")).propose(
            seeds[0], random.Random(0)
        )


@functools.cache
def on_the_graph() -> tuple[Chat, list[Task]]:
    """Accepted variants whose calls the graph planned, and the chat that wrote their messages."""
    chat = Chat()
    return chat, accepted(made(chat, 12, planner="graph"))


@pytest.mark.slow
def test_planned_on_the_graph_the_model_writes_messages_alone() -> None:
    chat, found = on_the_graph()
    assert len(found) >= 6
    assert not {"plan", "execute", "critic"} & chat.stages.keys()


@pytest.mark.slow
def test_ablations_leave_their_stage_out() -> None:
    chat = Chat()
    made(chat, 6, without=("coherence", "feedback", "narrative"))
    assert not {"coherence", "critic"} & chat.stages.keys()
    texts = [text for stage, text in chat.prompts if stage in ("plan", "rewrite")]
    assert not any("The story" in text or "short story" in text for text in texts)
    assert any("The story" in text for stage, text in _prompts() if stage == "rewrite")


@functools.cache
def _prompts() -> list[tuple[str, str]]:
    chat = Chat()
    made(chat, 6)
    return chat.prompts


def test_what_failed_is_blocked_and_hinted_in_the_next_attempt() -> None:
    seed = named("multi_turn_base_0")
    plans: list[str] = []

    def twist(stage: str, text: str) -> str:
        return '{"arguments": {"folder": "nowhere_at_all"}}' if stage == "execute" else text

    chat = Chat(twist)
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    outcome = synthesize(seed, writer, keeper(), 1, 3)
    assert outcome.variant is None
    blamed = [r.tool for r in outcome.rejections if r.tool]
    plans = [text for stage, text in chat.prompts if stage == "plan"]
    if blamed:
        assert blamed[0] in plans[-1].split("Never plan these")[1]
    assert {r.base for r in outcome.rejections if r.stage != "write"} != {0}


def test_a_patch_of_the_configuration_reaches_the_next_attempt() -> None:
    seed = next(t for t in sides().train if "TradingBot" in str(t.world["classes"]))
    states: list[str] = []

    def twist(stage: str, text: str) -> str:
        if stage == "critic":
            patch = {"action": "patch", "path": "account_info.balance", "value": 7_654_321.0}
            return json.dumps({**patch, "hint": "the account was too small"})
        if stage == "execute":
            return '{"arguments": {"symbol": "NOPE"}}'
        return text

    chat = Chat(twist)
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    outcome = synthesize(seed, writer, keeper(), 1, 3)
    states = [text for stage, text in chat.prompts if stage == "plan"]
    patches = [r for r in outcome.rejections if r.patch]
    if patches and patches[0] is not outcome.rejections[-1]:
        assert "7654321.0" in states[-1]


@pytest.mark.parametrize(
    ("patch", "fits"),
    [
        ({"Shop.stock": 4}, True),
        ({"Shop.price": 3}, True),
        ({"Shop.owner.name": "Ida"}, True),
        ({"Shop.owner": {"name": "Ida"}}, True),
        ({"Shop.owner": {"age": 3}}, False),
        ({"Shop.stock": "four"}, False),
        ({"Shop.open": 1}, False),
        ({"Shop.nothing": 1}, False),
        ({"Nobody.stock": 1}, False),
    ],
)
def test_patches_keep_fields_and_types(patch: dict[str, Json], fits: bool) -> None:
    shop: dict[str, Json] = {"stock": 1, "price": 2.5, "open": True, "owner": {"name": "Ann"}}
    assert (patched({"Shop": shop}, patch) is not None) is fits
    assert shop == {"stock": 1, "price": 2.5, "open": True, "owner": {"name": "Ann"}}


def base_of(name: str) -> Base:
    return Base.of(ENVIRONMENT, named(name))


def test_plans_that_cannot_work_are_refused_before_anything_is_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = base_of("multi_turn_base_0")
    shape = tuple(
        tuple(c.name for c in turn.ground_truth) for turn in base.task.turns if turn.ground_truth
    )
    assert misfit(CallPlan("", shape), base, frozenset()) is None
    reasons = {
        "unknown": misfit(CallPlan("", (("fly",), *shape[1:])), base, frozenset()),
        "blocked": misfit(CallPlan("", shape), base, frozenset({shape[0][0]})),
        "short": misfit(CallPlan("", shape[:-1]), base, frozenset()),
        "empty": misfit(CallPlan("", ((), *shape[1:])), base, frozenset()),
        "twice": misfit(CallPlan("", (("ls", "ls"), *shape[1:])), base, frozenset()),
    }
    assert all(isinstance(reason, Rejection) for reason in reasons.values()), reasons
    many = CallPlan("", tuple(("ls", "pwd", "cd") for _ in shape))
    monkeypatch.setattr("rods.synthesis.llm.plan.MAX_DISTANCE", 0.0)
    assert misfit(many, base, frozenset()) is not None


def test_plans_are_parsed_in_the_forms_that_models_write() -> None:
    assert parse_plan({"narrative": "n", "turns": [{"functions": ["a"]}, ["b", "c"]]}) == CallPlan(
        "n", (("a",), ("b", "c"))
    )
    broken: list[Json] = [None, [], {"turns": "a"}, {"turns": [{"functions": "a"}]}]
    for data in broken:
        assert parse_plan(data) is None


def test_arguments_are_checked_by_name_type_and_enumeration() -> None:
    spec = ToolSpec(
        "paint",
        "Paints.",
        {
            "type": "object",
            "properties": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "coats": {"type": "integer"},
                "area": {"type": "float"},
                "dry": {"type": "boolean"},
            },
            "required": ["color"],
        },
    )
    assert argument_faults(spec, {"color": "red", "coats": 2, "area": 3, "dry": True}) == []
    for wrong in ({}, {"color": "green"}, {"color": "red", "coats": True}, {"shade": "red"}):
        assert argument_faults(spec, wrong)
    deep: Any = "red"
    for _ in range(600):
        deep = [deep]
    for wrong in ({"color": deep}, {"color": "re\0d"}, {"color": "red", "area": float("inf")}):
        assert len(argument_faults(spec, wrong)) == 1, "no dialect reads them"


def turn_of(**arguments: Any) -> PlannedTurn:
    spec = ToolSpec(
        "bookSeat",
        "Books a seat.",
        {"type": "object", "properties": {key: {} for key in arguments}, "required": []},
    )
    return PlannedTurn((CallRequest(ToolCall("bookSeat", arguments), spec),), "Hall")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Please book seat B12 for 40 dollars.", ""),
        ("Please book seat B12.", "does not say the price"),
        ("Please book seat B12 for 40 dollars on row 77.", "says 77"),
        ("Use bookSeat for B12 at 40.", "names bookSeat"),
        ("Please book seat B12 for 40 dollars, on floor -7.", "says -7"),
    ],
)
def test_messages_are_checked_against_their_calls(text: str, wrong: str) -> None:
    found = faults(turn_of(seat="B12", price=40), TurnTexts(text), [])
    assert (not found) if not wrong else any(wrong in fault for fault in found), found


def test_a_number_below_zero_is_said_with_its_sign() -> None:
    assert not faults(turn_of(degrees=-5), TurnTexts("Cool it to -5 degrees."), [])
    assert faults(turn_of(degrees=-5), TurnTexts("Heat it to 5 degrees."), [])


def opened(name: str, **arguments: Any) -> PlannedTurn:
    return PlannedTurn(turn_of(**arguments).requests, "Hall", left_open=OpenArgument(0, name))


@pytest.mark.parametrize(
    ("value", "text", "answer", "wrong"),
    [
        ("B12", "Please book a seat.", "Take B12.", ""),
        ("B12", "Please book B12.", "Take B12.", "must be left open"),
        ("B12", "Please book a seat.", "Any.", "does not say"),
        (1500.0, "Please book a seat.", "For 1,500 dollars.", ""),
        (1500.0, "Please book a seat for 1500 dollars.", "For 1500.0 dollars.", "left open"),
        (1500, "Please book a seat for 1,500 dollars.", "For 1500 dollars.", "left open"),
        (2, "Please book a seat in row R2.", "For 2 dollars.", ""),
        (2, "Please book a seat for two dollars.", "For 2 dollars.", "left open"),
    ],
)
def test_what_is_left_open_stays_open(value: Value, text: str, answer: str, wrong: str) -> None:
    found = faults(opened("open", open=value, row="R2"), TurnTexts(text, answer), [TurnTexts("R2")])
    assert (not found) if not wrong else any(wrong in fault for fault in found), found
    assert leaked("use bookSeat", turn_of(seat="B12")) == ["bookSeat"]


def verdict(**changes: Any) -> str:
    row = dict.fromkeys(("matches", "values", "coherent", "natural", "gaps"), True)
    return json.dumps({**row, "problem": "", "fault": "none", **changes})


def test_the_judge_can_accept_repair_and_reject() -> None:
    variant = sides().train[0]
    read = [
        judge(Chat(lambda stage, text, row=row: row), ENVIRONMENT, variant, 1)
        for row in (
            verdict(),
            verdict(natural=False, fault="message"),
            verdict(matches=False, fault="calls"),
        )
    ]
    reasons = [found.rejection and found.rejection.reason for found in read]
    assert reasons == [None, *[ErrorClass.QUERY_VERIFY_FAILED] * 2]
    assert [found.repairable for found in read] == [False, True, False]
    silent = judge(Chat(lambda stage, text: "fine by me"), ENVIRONMENT, variant, 1)
    assert silent.rejection is not None and not silent.repairable
    assert silent.rejection.reason == ErrorClass.QUERY_VERIFY_NO_TAG


@pytest.mark.slow
def test_one_refinement_at_most() -> None:
    answers = iter([verdict(natural=False, problem="stiff", fault="message"), verdict()])
    chat = Chat(lambda stage, text: next(answers) if stage == "judge" else text)
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(planner="graph"), graph_writer())
    variant = on_the_graph()[1][0]
    refined = writer.review(sides().train[0], variant, random.Random(2))
    assert isinstance(refined, Task)
    assert refined != variant
    assert [t.ground_truth for t in refined.turns] == [t.ground_truth for t in variant.turns]
    assert any("stiff" in text for stage, text in chat.prompts if stage == "rewrite")
    always = Chat(lambda s, t: verdict(natural=False, fault="message") if s == "judge" else t)
    writer = LlmWriter(ENVIRONMENT, always, LlmWriterSettings(planner="graph"), graph_writer())
    turned_down = writer.review(sides().train[0], variant, random.Random(2))
    assert isinstance(turned_down, Rejection)
    assert always.stages["judge"] == 2
    assert [t.ground_truth for t in turned_down.turns] == [t.ground_truth for t in variant.turns]


@pytest.mark.slow
def test_planned_turns_can_be_read_back_from_a_variant() -> None:
    for variant in on_the_graph()[1]:
        planned = planned_of(ENVIRONMENT, variant)
        calls = [tuple(ask.call for ask in turn.requests) for turn in planned]
        assert calls == [t.ground_truth for t in variant.turns if t.ground_truth]
        gap = next((t for t in variant.turns if not t.ground_truth), None)
        if gap is not None:
            marked = [t for t in planned if t.withheld or t.left_open]
            assert len(marked) == 1
            assert bool(marked[0].withheld) is bool(gap.withheld)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoiled",
    ["I cannot help with that.", '{"turns": []}', '["a"]'],
)
def test_no_answer_of_a_model_breaks_the_pipeline(spoiled: str) -> None:
    seed, number = teachable()
    for spoilt in ("plan", "execute", "rewrite", "coherence", "judge", "critic"):

        def twist(stage: str, text: str, spoilt: str = spoilt) -> str:
            if stage == spoilt:
                return spoiled
            return astray(stage, text) if spoilt == "critic" else text

        chat = Chat(twist)
        outcome = tried(chat, seed, number, 2)
        assert chat.stages[spoilt], f"{spoilt} was never asked"
        if spoilt in ("plan", "rewrite", "judge", "critic"):
            assert outcome.variant is None
        if outcome.variant is not None:
            assert keeper().check(seed, outcome.variant).rejection is None


def tried(chat: Chat, seed: Task, number: int, attempts: int) -> RequestOutcome:
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    return synthesize(seed, writer, keeper(), number, attempts)


def test_after_a_gate_turned_it_down_the_next_attempt_has_another_world() -> None:
    seed, _ = teachable()
    writer = LlmWriter(ENVIRONMENT, Chat(), LlmWriterSettings(), graph_writer())
    turned_down = [Rejection("gate", "novelty")]
    made = [writer.propose(seed, random.Random(number), turned_down) for number in range(4)]
    worlds = [t.provenance.seed if isinstance(t, Task) else t.base for t in made]
    assert 0 not in worlds and len(set(worlds)) == 4


def astray(stage: str, text: str) -> str:
    """Valid arguments that name what is not there: the call fails, and the critic is asked."""
    if stage != "execute":
        return text
    given = find_json(text)["arguments"]  # type: ignore[index, call-overload]
    return json.dumps({"arguments": {k: "nought" if v == str(v) else v for k, v in given.items()}})


@functools.cache
def teachable() -> tuple[Task, int]:
    """A seed and a number with which each stage is asked, and honest answers are accepted."""
    for number, seed in enumerate(random.Random(1).sample(list(sides().train), 60)):
        honest, lost = Chat(), Chat(astray)
        asked = {"plan", "execute", "rewrite", "coherence", "judge"}
        if tried(honest, seed, number, 1).variant is None or asked - honest.stages.keys():
            continue
        if tried(lost, seed, number, 2).variant is None and lost.stages["critic"]:
            return seed, number
    raise AssertionError("there is no such seed")


def test_asking_ends_where_no_plan_can_be_parsed_and_an_answer_is_shown() -> None:
    """A server of well-formed answers without a plan was asked thousands of times."""
    chat = Chat(lambda stage, text: '{"teapot": true}' if stage == "plan" else text)
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    rng, tried = random.Random(1), list[object]()
    with pytest.raises(WriterError, match=r"for 8 plans in a row could.*teapot") as error:
        while len(tried) < 50:
            tried.append(writer.propose(sides().train[0], rng))
    assert error.value.fatal and len(tried) == 7 and chat.stages["plan"] == 8 * PARSES
    assert all(isinstance(one, Rejection) and "teapot" in one.message for one in tried)


def test_plans_that_cannot_be_parsed_now_and_then_do_not_end_it() -> None:
    asked = itertools.count()
    chat = Chat(lambda s, text: "tea" if s == "plan" and next(asked) % 24 < 21 else text)
    writer = LlmWriter(ENVIRONMENT, chat, LlmWriterSettings(), graph_writer())
    rng = random.Random(1)
    assert len([writer.propose(sides().train[0], rng) for _ in range(20)]) == 20


def test_an_unusable_server_is_not_a_rejection_and_a_lost_request_is() -> None:
    class Broken(Chat):
        def __init__(self, fatal: bool):
            super().__init__()
            self.fatal = fatal

        def ask(self, *_: object, **__: object) -> Reply:
            raise WriterError("no server answers", fatal=self.fatal)

    for fatal in (True, False):
        settings = LlmWriterSettings(planner="graph")
        writer = LlmWriter(ENVIRONMENT, Broken(fatal), settings, graph_writer())
        if fatal:
            with pytest.raises(WriterError):
                synthesize(sides().train[0], writer, keeper(), 1, 1)
        else:
            outcome = synthesize(sides().train[0], writer, keeper(), 1, 1)
            assert [r.stage for r in outcome.rejections] == ["writer"]


@pytest.mark.slow
def test_prompts_show_no_held_out_text_and_no_file_path() -> None:
    held = {t.user for task in sides().held_out for t in task.turns if len(t.user) > 30}
    for _, text in _prompts():
        assert not any(user in text for user in held)


def test_long_states_are_cut_visibly() -> None:
    text = shortened({"a": "x" * 1000, "b": list(range(500))})
    assert "characters left out" in text
    assert "460 more" in text
    json.loads(text)
    assert render("judge", turns=[], state="", problem="")[0]["role"] == "user"


def test_the_writer_needs_a_server() -> None:
    with pytest.raises(ConfigError, match=r"synthesis\.llm\.url"):
        make_writer("llm", sides().train, ENVIRONMENT, 0.0, SynthesisSettings())


def test_every_tool_can_be_told_by_its_summary_and_arguments() -> None:
    for task in sides().train[:40]:
        for spec in all_tools(ENVIRONMENT, task).values():
            assert spec.description


def test_plain_fields_of_a_state_are_shown_before_long_mappings() -> None:
    cards = {f"card-{n}": {"balance": n, "holder": "x" * 300} for n in range(90)}
    text = shortened({"cards": cards, "access_token": "tok-1"})
    assert text.index("tok-1") < text.index("card-0")
    assert "card-39" in text
    assert "card-40" not in text
    assert "(50 more)" in text


@pytest.mark.parametrize("held", [True, False])
def test_a_fault_while_worlds_are_released_is_raised_alone(held: bool) -> None:
    lock = threading.RLock()
    with lock if held else nullcontext():
        with pytest.raises(WriterError) as raised, released(lock):
            assert _free(lock)
            raise WriterError("no answer")
        assert raised.value.__context__ is None
        assert _free(lock) is not held
    assert _free(lock)


def _free(lock: threading.RLock) -> bool:
    """Whether another thread can take the lock."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    return taken[0]
