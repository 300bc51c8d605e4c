"""What the prompts of the language-model writer hold: values, results, how to point, the state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rods.synthesis.llm.critique import judge
from rods.synthesis.llm.execute import planned_of
from rods.synthesis.llm.prompting import executed, pointer, pointers
from rods.synthesis.llm.rewrite import write
from rods.synthesis.planned import CallRequest, PlannedTurn, Producer
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import trace
from rods.types import ToolCall, ToolSpec
from rods.writers.templates.phrases import phrases_of
from scripted_chat import Chat
from synthesis_cases import ENVIRONMENT, named


class Recorder(Chat):
    """Says one thing after the other, and the last one again."""

    def __init__(self, *texts: str):
        super().__init__()
        self.texts = list(texts)

    def answer(self, stage: str, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


def ask(name: str, *, shown: Sequence[str] = (), **arguments: Any) -> CallRequest:
    spec = ToolSpec(
        name,
        f"Does {name} for you. And more.",
        {"type": "object", "properties": {key: {} for key in arguments}, "required": []},
    )
    return CallRequest(ToolCall(name, arguments), spec, frozenset(shown))


def turn(*asks: CallRequest, results: Sequence[Any] = ()) -> PlannedTurn:
    return PlannedTurn(asks, "Shop", tuple(json.dumps(result) for result in results))


BUY = "<message>Please buy 5 shares of ZETA.</message>"
BUY_MORE = "<message>Please buy 2 shares of QUAS.</message>"
PLACED = turn(
    ask("place_order", symbol="ZETA", amount=5),
    results=[{"order_id": 12446, "status": "Pending", "price": 12.5}],
)
CANCEL = turn(ask("cancel_order", shown=["order_id"], order_id=12446), results=[{"ok": True}])


def test_a_value_that_may_be_pointed_at_comes_with_its_result_and_its_place() -> None:
    chat = Recorder(BUY, "<message>Please cancel that order.</message>")
    write(chat, [PLACED, CANCEL], "", 1)
    prompt = chat.prompts[-1][1]
    assert "order id: 12446" in prompt
    assert "it is the order id in what message 1 gave" in prompt
    assert '"order_id": 12446' in prompt
    assert "Does place_order for you." in prompt
    assert "what the assistant found" not in prompt


def test_what_could_mean_two_things_must_be_said() -> None:
    again = turn(
        ask("place_order", symbol="QUAS", amount=2),
        results=[{"order_id": 12447, "status": "Pending", "price": 80.0}],
    )
    assert pointer(executed([PLACED, CANCEL]), 1, "order_id") is not None
    assert pointer(executed([PLACED, again, CANCEL]), 2, "order_id") is None
    echo = turn(ask("place_order", shown=["symbol"], symbol="ZETA", amount=9), results=[{}])
    gave = turn(ask("look_up", symbol="ZETA"), results=[{"symbol": "ZETA", "price": 3.5}])
    assert pointer(executed([gave, echo]), 1, "symbol") is None
    chat = Recorder(BUY, BUY_MORE, "<message>Please cancel that order.</message>")
    write(chat, [PLACED, again, CANCEL], "", 1)
    assert "order id: 12446" in chat.prompts[-1][1]
    assert "point at this value" not in chat.prompts[-1][1]


def test_a_place_in_a_list_is_a_pointer() -> None:
    listed = turn(ask("list_files"), results=[{"files": ["a.txt", "b.txt", "c.txt"]}])
    taken = turn(ask("open_file", shown=["file"], file="b.txt"), results=[{}])
    found = pointer(executed([listed, taken]), 1, "file")
    assert found is not None and found.where.startswith("second")


def test_a_planner_without_a_model_passes_its_own_reference_on() -> None:
    phrases = phrases_of(ENVIRONMENT)
    wordings = {n: w for n, w in phrases.wordings.items() if w.refer.get("order_id")}
    tool, wording = next(iter(sorted(wordings.items())))
    producer_name, forms = next(iter(wording.refer["order_id"].items()))
    producer = ToolCall(producer_name, {"symbol": "ZETA"})
    gave = turn(
        CallRequest(producer, ToolSpec(producer_name, "Gives it.", {"type": "object"})),
        results=[{"order_id": 12446}],
    )
    chosen = Producer(producer)
    call = ToolCall(tool, {"order_id": 12446})
    takes = CallRequest(
        call,
        ToolSpec(tool, "Takes it.", {"type": "object"}),
        frozenset({"order_id"}),
        producers={"order_id": chosen},
        last=producer,
    )
    taken = turn(takes, results=[{}])
    offered = wording.references("order_id", chosen)
    assert offered and forms
    found = pointers([gave, taken], 1, phrases.references)[0]["order_id"]
    assert list(found.words) == offered
    chat = Recorder("<message>Please place it for ZETA.</message>", "<message>Take it.</message>")
    write(chat, [gave, taken], "", 1, references=phrases.references)
    assert f"can be meant ({' / '.join(offered)})" in chat.prompts[-1][1]


def test_the_judge_sees_results_and_state() -> None:
    task = named("multi_turn_base_110")
    chat = Recorder("no")
    judge(chat, ENVIRONMENT, task, 1)
    prompt = chat.prompts[0][1]
    for step in trace(ENVIRONMENT, task).steps:
        assert f"{step.call} -> {step.result.content[:80]}" in prompt
    initial: Any = task.world["initial_config"]
    owner = next(iter(initial))
    assert f'"{owner}"' in prompt.split("State of the world at the start:\n")[1].split("\n")[0]


def test_what_is_worded_again_is_pointed_at_only_where_it_is_clear() -> None:
    clear = asked = 0
    for number in range(0, 200, 20):
        task = named(f"multi_turn_base_{number}")
        planned = planned_of(ENVIRONMENT, task)
        for index, made in enumerate(planned):
            rows = pointers(planned, index)
            for one, found in zip(made.requests, rows, strict=True):
                asked += len(one.shown)
                clear += len(found)
                assert found.keys() == one.shown
    assert clear == asked > 5


def test_no_message_at_all_and_a_wrong_one_are_told_apart() -> None:
    silent = write(Recorder("I would rather not."), [PLACED], "", 1)
    wrong = write(Recorder("<message>Please place an order.</message>"), [PLACED], "", 1)
    assert isinstance(silent, Rejection) and silent.reason == ErrorClass.NO_PROMPTS
    assert isinstance(wrong, Rejection) and wrong.reason == ErrorClass.QUERY_GEN_FAILED
