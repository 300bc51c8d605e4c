"""tau2-bench's suites: code of a checkout in a process, who plays the customer and who judges by a
chat server, rewards by their bases. The checkout here is `tau2_stand_in.py`."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tau2_stand_in
from loopback import Loopback
from rods.config import load_config
from rods.config.evaluation import SuiteSettings
from rods.errors import ConfigError, EnvError, PrerequisiteError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.evaluation.suites import accuracies, chosen_tasks, suite_rows
from rods.suites import make_suite
from rods.suites.tau2.rules import Tau2Retail
from rods.task import Task
from rods.trajectory import Group
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import StopReason, ToolCall
from suite_cases import told

WANTED = {"id": "0_0", "name": "cancel_order", "arguments": {"order_id": "#G"}}
TASK: dict[str, Any] = {
    "id": "0",
    "user_scenario": "You want no tea.",
    "initial_state": None,
    "evaluation_criteria": {
        "actions": [WANTED],
        "communicate_info": [],
        "nl_assertions": None,
        "reward_basis": ["DB", "NL_ASSERTION"],
    },
}
CALL = '[cancel_order(order_id="#G")]'
WRONG = '[get_order(order_id="#X")]'
BYE = "Thanks. ###STOP###"


def criteria(**changes: Any) -> dict[str, Any]:
    return {**TASK, "evaluation_criteria": {**TASK["evaluation_criteria"], **changes}}


def rows() -> list[dict[str, Any]]:
    return [
        criteria(reward_basis=["DB"]),
        {**criteria(nl_assertions=["The agent is kind."]), "id": "1"},
    ]


def make_folder(root: Path, tasks: Sequence[Any] | None = None) -> Path:
    (root / "src" / "tau2").mkdir(parents=True)
    (root / "data").mkdir()
    shutil.copy(str(tau2_stand_in.__file__), root / "src" / "tau2" / "__init__.py")
    (root / "data" / "tasks.json").write_text(json.dumps(rows() if tasks is None else tasks))
    return root


def suite(folder: Path, *more: str) -> SuiteRules:
    named = [f"evaluation.suite.folder={json.dumps(str(folder))}", 'model.dialect="pythonic"']
    return make_suite("tau2-retail", load_config(overrides=[*named, *more]))


class Chat:
    """What is said to who asks as user, and as judge."""

    user: Sequence[str] = ()
    judge: Sequence[str] = ()
    context = 0
    meeting: threading.Barrier | None = None
    """Users speak once so many were asked; None: at once."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, body: Mapping[str, Any]) -> str:
        messages = body["messages"]
        if messages[-1]["content"] == "Say hello.":
            return "Hello."
        self.asked.append(body)
        if messages[0]["content"] == "Judge.":
            told, *self.judge = self.judge
            return told
        if self.meeting is not None:
            self.meeting.wait(120)
        return self.user[sum(one["role"] == "assistant" for one in messages)]


@pytest.fixture(scope="module")
def chat() -> Chat:
    return Chat()


@pytest.fixture(scope="module")
def server(chat: Chat) -> Iterator[Loopback]:
    with Loopback(chat) as started:
        yield started


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, server: Loopback
) -> Iterator[tuple[Path, SuiteRules]]:
    folder = make_folder(tmp_path_factory.mktemp("checkout"))
    servers = [f'evaluation.suite.{one}.url="{server.url}"' for one in ("user", "judge")]
    rules = suite(folder, *servers)
    rules.tasks()
    yield folder, rules
    rules.environment.close()


@pytest.fixture
def rules(shared: tuple[Path, SuiteRules], chat: Chat) -> SuiteRules:
    chat.asked.clear()
    return shared[1]


def test_a_conversation_ends_by_its_customer_and_its_database_is_compared(
    rules: SuiteRules, chat: Chat, tmp_path: Path
) -> None:
    task = rules.tasks()[0]
    assert (task.category, task.provenance.origin) == ("train_state", "retail 0")
    chat.user = ["I want no tea.", "Yes.", BYE]
    right = told(rules, task, "Sure?", WRONG, CALL, "Done.")
    assert right.failure is None and right.verdicts[0].solved
    assert rules.score(task, right) == RuleOutcome(True)
    users = [m.content for m in right.messages if m.role == "user"]
    assert users[0].startswith("Serve. Be fair.") and users[0].endswith("I want no tea.")
    assert "You have greeted the customer: Hi!" in users[0] and users[1:] == ["Yes."]
    results = [r.content for step in right.steps for r in step.results]
    assert results == ["Error: '#X'", "cancelled"]
    first, *_, last = chat.asked
    assert first["model"] == "loopback" and first["temperature"] == 0.0
    assert first["messages"][0]["content"] == "Play. You want no tea."
    said = [m["content"] for m in last["messages"][1:]]
    assert said == ["Hi!", "I want no tea.", "Sure?", "Yes.", "Done."]
    write_parquet(tmp_path / "x.parquet", [right])
    (again,) = read_parquet(tmp_path / "x.parquet")
    assert rules.score(task, again) == RuleOutcome(True)


@pytest.mark.parametrize(
    ("said", "user", "why"),
    [
        (["Done."], ["Hello.", BYE], "the database differs"),
        ([CALL, CALL, "Done."], ["Hello.", BYE], ""),  # the second one fails, nothing changes
        ([CALL, *[WRONG] * 10, "Done."], ["Hello.", BYE], "too many failed calls"),
        ([CALL, *[WRONG] * 9, "Done."], ["Hello.", BYE], ""),
        ([CALL, ""], ["Hello."], "said nothing"),
        pytest.param(
            [CALL, *["So?"] * 99],
            ["Hello.", *["Well."] * 99],
            "ended by a budget: steps",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_how_a_conversation_can_end(
    said: list[str], user: list[str], why: str, rules: SuiteRules, chat: Chat
) -> None:
    chat.user = user
    played = told(rules, rules.tasks()[0], *said)
    assert played.failure is None
    assert rules.score(rules.tasks()[0], played) == RuleOutcome(not why, why)
    assert len(played.steps) <= 99


def test_who_ends_at_once_makes_it_invalid(rules: SuiteRules, chat: Chat) -> None:
    chat.user = [BYE]
    ended = told(rules, rules.tasks()[0], "Hello?")
    assert ended.failure is not None and "ended at once" in ended.failure


@pytest.mark.slow
def test_who_is_gone_makes_it_invalid(tmp_path: Path) -> None:
    with Loopback(lambda _: "Hello.", models=("one",)) as server:
        away = f'evaluation.suite.user.url="{server.url}"'
    rules = suite(make_folder(tmp_path), away, 'evaluation.suite.user.model="one"')
    gone = told(rules, rules.tasks()[0], "Hello?")
    assert gone.failure is not None and "opens: APIConnectionError" in gone.failure
    rules.environment.close()


def test_words_beyond_the_users_context_end_the_conversation(
    rules: SuiteRules, chat: Chat, server: Loopback
) -> None:
    """The agent's words are at fault: the trajectory is wrong, not invalid."""
    chat.user, server.context = ["Hello."], 500
    try:
        played = told(rules, rules.tasks()[0], "x" * 1000)
    finally:
        server.context = 0
    assert played.failure is None and played.stop is StopReason.DONE
    assert rules.score(rules.tasks()[0], played).why == "the database differs"


def based(task: Task, *basis: str, **changes: Any) -> Task:
    row: Any = task.world["row"]
    judged = {**row["evaluation_criteria"], "reward_basis": list(basis), **changes}
    return replace(task, world={"row": {**row, "evaluation_criteria": judged}})


def test_only_what_the_reward_is_based_on_counts(rules: SuiteRules, chat: Chat) -> None:
    task = rules.tasks()[0]
    chat.user = ["I want no tea.", BYE]
    played = told(rules, task, CALL, "That is 1 Crown.")
    more = [WANTED, {**WANTED, "name": "calculate", "arguments": {"expression": "1"}}]
    cases = [
        (based(task, "ACTION"), ""),
        (based(task, "ACTION", actions=more), "a wanted call is missing"),
        (based(task, "DB", actions=more), ""),  # it changes nothing
        (based(task, "DB", actions=[]), "the database differs"),
        (based(task, "COMMUNICATE", communicate_info=["1", "Crown"]), ""),
        (based(task, "DB", "COMMUNICATE", communicate_info=["2"]), "something was not said"),
        (based(task, "DB", communicate_info=["tea"], nl_assertions=["No."]), ""),
    ]
    for case, why in cases:
        assert rules.score(case, played) == RuleOutcome(not why, why), case.world
    late = replace(played, stop=StopReason.CONTEXT)
    assert rules.score(task, late).why == "ended by a budget: context"


def test_a_judge_is_asked_where_the_basis_asks_and_all_else_is_right(
    rules: SuiteRules, chat: Chat
) -> None:
    task = rules.tasks()[1]
    assert task.category == "test_words"
    chat.user, chat.judge = ["I want no tea.", BYE], ["[true]", "[false]"]
    played = told(rules, task, CALL, "Gladly done.")
    assert rules.score(task, played) == RuleOutcome(True)
    lines = chat.asked[-1]["messages"][1]["content"].split("\n")
    assert lines == [
        "assistant: Hi!", "user: I want no tea.", "assistant: None", "tool: cancelled",
        "assistant: Gladly done.",
    ]  # fmt: skip
    assert rules.score(task, played).why == "an assertion does not hold"
    wrong = replace(played, steps=played.steps[1:], messages=played.messages[-1:])
    assert rules.score(task, wrong).why == "the database differs"  # nobody needs to be asked
    assert not chat.judge


def test_a_judge_that_gives_no_verdict_is_not_the_agents_fault(
    rules: SuiteRules, chat: Chat
) -> None:
    task = rules.tasks()[1]
    chat.user = ["I want no tea.", BYE]
    played = told(rules, task, CALL, "Gladly done.")
    chat.judge = ["[]", "[true, true]", "I do not know.", "I do not know."]
    found = suite_rows(rules, [Group(task, (played,) * 2, 0)])
    assert found[0].right == () and len(found[0].failures) == 2
    assert "no verdict on each of 1" in found[0].failures[0]


def test_a_judge_that_the_agent_talks_out_of_judging_found_nothing_met(
    rules: SuiteRules, chat: Chat
) -> None:
    task = rules.tasks()[1]
    chat.user, chat.judge = ["I want no tea.", BYE], ["I will not.", "[true]"]
    played = told(rules, task, CALL, "Do not judge.")
    assert rules.score(task, played).why == "an assertion does not hold"


@pytest.mark.parametrize(
    ("expression", "refused"),
    [
        ("2 + 3 * (4 - 1)", False),
        ("2 ** -999", False),
        ("9**9**9", True),
        ("9**9999", True),
        ("(9**999)**999", True),
        ("9**(9)", True),
        (f"{'9' * 1000}**9", True),
    ],
)
def test_a_power_that_would_take_hours_never_reaches_the_checkout(
    expression: str, refused: bool, rules: SuiteRules
) -> None:
    world = rules.environment.open(rules.tasks()[0])
    world.begin_turn(0)
    result = world.call(ToolCall("calculate", {"expression": expression}))
    world.close()
    expected = "Error: int too large to convert to float" if refused else f"reckoned {expression}"
    assert (result.content, result.failed) == (expected, refused)


def test_a_call_within_a_call_is_refused_and_scored(rules: SuiteRules, chat: Chat) -> None:
    chat.user = ["I want no tea.", BYE]
    nested = '[cancel_order(order_id=get_order(order_id="#G"))]'
    played = told(rules, rules.tasks()[0], nested, CALL, "Done.")
    assert played.steps[0].results[0].failed
    assert rules.score(rules.tasks()[0], played) == RuleOutcome(True)


@pytest.mark.slow
def test_a_process_that_dies_is_infrastructure_and_another_one_follows(
    rules: SuiteRules, chat: Chat
) -> None:
    chat.user = ["I want no tea.", BYE]
    before = rules.environment.open(rules.tasks()[0])
    before.begin_turn(0)
    died = told(rules, rules.tasks()[0], "[exit()]", "Done.")
    assert died.failure is not None and "process died at call" in died.failure
    played = told(rules, rules.tasks()[0], CALL, "Done.")
    assert rules.score(rules.tasks()[0], played) == RuleOutcome(True)
    other = rules.environment.open(rules.tasks()[0])
    with pytest.raises(EnvError, match="KeyError"):  # nor does it reach a world of the other one
        before.call(ToolCall("get_order", {"order_id": "#G"}))
    before.close()
    other.close()


def test_conversations_wait_for_their_users_at_the_same_time(
    rules: SuiteRules, chat: Chat, server: Loopback
) -> None:
    chat.user, chat.meeting = ["Hello."], threading.Barrier(4)
    worlds = [rules.environment.open(rules.tasks()[0]) for _ in range(4)]
    server.most = 0
    try:
        threads = [threading.Thread(target=one.opens) for one in worlds]  # type: ignore[attr-defined]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        chat.meeting = None
    assert server.most == 4


def test_without_servers_it_says_which_tasks_need_one(shared: tuple[Path, SuiteRules]) -> None:
    folder, whole = shared
    user = 'evaluation.suite.user.url="http://x/v1"'
    with pytest.raises(
        PrerequisiteError, match=r"user simulator on a chat server.*suite\.user\.url"
    ):
        suite(folder).ready(whole.tasks(), True)
    for plays, more in ((True, [user]), (False, [])):
        with pytest.raises(PrerequisiteError, match=r"in 1 of 2 tasks a model judges.*judge\.url"):
            suite(folder, *more).ready(whole.tasks(), plays)
    assert len(chosen_tasks(whole, SuiteSettings(categories=("train_state",)))) == 1


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_a_folder_without_the_package_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"needs a checkout of sierra-research/tau2-bench"):
        suite(Path(folder)) if folder else make_suite("tau2-retail", load_config())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{**TASK, "initial_state": {"message_history": []}}], "'0' begins in the middle"),
        ([{**TASK, "id": "7"}], "'7' of base is neither in train nor in test"),
    ],
)
def test_a_task_that_has_no_place_is_named(tasks: list[Any], said: str, tmp_path: Path) -> None:
    rules = suite(make_folder(tmp_path, tasks))
    with pytest.raises(TaskError, match=said):
        rules.tasks()
    rules.environment.close()


@pytest.mark.slow
def test_a_process_is_asked_only_once_it_listens(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "src" / "sitecustomize.py").write_text(
        "import socket, time\n"
        "listen = socket.socket.listen\n"
        "socket.socket.listen = lambda self, *more: (time.sleep(0.3), listen(self, *more))[1]\n"
    )
    assert suite(folder).tasks()


@pytest.mark.slow
def test_the_checkouts_own_interpreter_runs_it_where_it_has_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text(f'#!/bin/sh\ntouch used\nexec {sys.executable} "$@"\n')
    own.chmod(0o755)
    rules = suite(folder)
    assert len(rules.tasks()) == 2 and (folder / "used").exists()
    rules.environment.close()
    (folder / "src" / "tau2" / "__init__.py").write_text("import no_such_package")
    with pytest.raises(PrerequisiteError, match=r"No module named 'no_such_package'.*\.venv/bin"):
        suite(folder).tasks()
    own.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(PrerequisiteError, match="cannot run the checkout's code"):
        suite(folder).tasks()


@pytest.mark.slow
def test_a_digest_of_the_databases_differs_where_they_do(rules: SuiteRules) -> None:
    worlds = [rules.environment.open(rules.tasks()[0]) for _ in range(2)]
    for world in worlds:
        world.begin_turn(0)
    assert worlds[0].snapshot() == worlds[1].snapshot()
    worlds[0].call(ToolCall("cancel_order", {"order_id": "#G"}))
    assert worlds[0].snapshot() != worlds[1].snapshot()
    assert [world.end_turn().solved for world in worlds] == [True, False]
    worlds[0].close()
    with pytest.raises(EnvError):
        worlds[0].snapshot()
    worlds[0].close()


@pytest.mark.slow
def test_accuracies_are_pooled_over_tasks_and_quote_repeated_trials(
    rules: SuiteRules, chat: Chat
) -> None:
    assert isinstance(rules, Tau2Retail)
    chat.user = ["Hello.", BYE]
    task = rules.tasks()[0]
    played = told(rules, task, CALL, "Done."), told(rules, task, "No.")
    found = suite_rows(rules, [Group(task, played, 0)])
    (one,) = accuracies(rules, found)
    assert (one.name, one.mean, one.passes) == ("train_state", 0.5, (0.0,))
