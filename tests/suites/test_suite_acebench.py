"""ACEBench's agent tasks: classes of a folder, a fixed reply or a played user, states compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.config import load_config
from rods.config.evaluation import SuiteSettings
from rods.errors import ConfigError, EnvError, PrerequisiteError, TaskError, WriterError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.evaluation.suites import accuracies, chosen_tasks, suite_rows
from rods.suites import make_suite
from rods.suites.ace_world import ALONE
from rods.suites.acebench import constants, progress_of, written
from rods.trajectory import Group
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import ToolCall
from suite_cases import told

BASE = """
class BaseApi:
    def __init__(self):
        self.wifi, self.logged_in = False, True
    def _load_scenario(self, scenario, long_context=False):
        self.wifi = scenario.get("wifi", False)
    def turn_on_wifi(self):
        self.wifi = True
        return {"status": True, "message": "on"}
"""
REMINDER = """
from model_inference.multi_step.scenariosen.phone_platform.base_api import BaseApi
class ReminderApi(BaseApi):
    def __init__(self):
        super().__init__()
        self.reminder_list, self.private = {}, 1
    def add_reminder(self, title, hour):
        print("noise")
        if not self.wifi:
            return {"status": False, "message": "no Wi-Fi"}
        self.reminder_list[len(self.reminder_list) + 1] = {"title": title, "hour": hour, "at": 0}
        return {"status": True, "message": "added"}
    def when(self, title):
        return [one["hour"] for one in self.reminder_list.values()][0]
"""
PROMPTS = {
    "prompt_en.py": 'BASE_PROMPT_EN = """Rules of phones."""\nTRAVEL_PROMPT_EN = "Rules."\n',
    "multi_turn/APIModel_user.py": "from nowhere import nothing\n"
    'SYSTEM_PROMPT_BASE_EN = """You are {instruction}"""\nSYSTEM_PROMPT_TRAVEL_EN = ""\n',
}


def function(name: str, **types: str) -> dict[str, Any]:
    properties = {key: {"type": kind, "description": key} for key, kind in types.items()}
    schema = {"type": "dict", "properties": properties, "required": list(types)}
    return {"name": name, "description": name, "parameters": schema}


ENTRY: dict[str, Any] = {
    "id": "agent_multi_step_0",
    "question": "Remind me of tea at 5.",
    "initial_config": {"BaseApi": {"wifi": False}},
    "function": [function("turn_on_wifi"), function("add_reminder", title="string", hour="float")],
    "involved_classes": ["BaseApi", "ReminderApi"],
}
TRUTH: dict[str, Any] = {
    "id": "agent_multi_step_0",
    "ground_truth": [
        {"BaseApi": {"wifi": True, "logged_in": True}},
        {"ReminderAPI": {"reminder_list": {"9": {}}}},  # misspelt, as some are: compared with none
    ],
    "mile_stone": ["[turn_on_wifi()]", "[add_reminder(title='it's tea', hour=5)]"],
}
WIFI, ADD = "[turn_on_wifi()]", '[add_reminder(title="it\'s tea", hour=5)]'
DONE = "finish conversation"


def lines(path: Path, rows: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def make_folder(folder: Path) -> Path:
    data = folder / "data_all" / "data_en"
    strict = [{"BaseApi": TRUTH["ground_truth"][0]["BaseApi"]}, {"ReminderApi": {}}]
    strict[1]["ReminderApi"] = {"reminder_list": {"1": {"title": "it's tea", "hour": 5, "at": 0}}}
    talk = {"id": "agent_multi_turn_0", "question": "Ann, who wants tea."}
    for kind, entry, truth in (
        ("multi_step", {}, {}),
        ("multi_turn", talk, {"id": "agent_multi_turn_0", "ground_truth": strict}),
    ):
        lines(data / f"data_agent_{kind}.json", [{**ENTRY, **entry}])
        lines(data / "possible_answer" / f"data_agent_{kind}.json", [{**TRUTH, **truth}])
        classes = folder / "model_inference" / kind / "scenariosen" / "phone_platform"
        classes.mkdir(parents=True)
        (classes / "base_api.py").write_text(BASE, encoding="utf-8")
        (classes / "reminder.py").write_text(REMINDER, encoding="utf-8")
    for name, text in PROMPTS.items():
        (folder / "model_inference" / name).write_text(text, encoding="utf-8")
    return folder


def suite(folder: Path, *more: str) -> SuiteRules:
    named = f"evaluation.suite.folder={json.dumps(str(folder))}"
    return make_suite("acebench-agent", load_config(overrides=[named, *more]))


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRules]:
    made = suite(
        make_folder(tmp_path_factory.mktemp("ace")), "evaluation.suite.user.url=http://x/v1"
    )
    yield made
    made.environment.close()


class User:
    """A chat server that says these things."""

    said: Sequence[str] = ()
    asked: list[list[Mapping[str, str]]]

    def __init__(self, settings: Any, sampling: Any) -> None:
        assert sampling["temperature"] == 0.0
        User.asked, self._left = [], list(User.said)

    def ask(self, stage: str, messages: Sequence[Mapping[str, str]], *, seed: int) -> Any:
        User.asked.append(list(messages))
        if not self._left:
            raise WriterError("gone, correct synthesis.llm.url")
        return SimpleNamespace(text=self._left.pop(0))

    def close(self) -> None: ...


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, rules: SuiteRules) -> Iterator[type[User]]:
    monkeypatch.setattr("rods.suites.ace_world.ChatClient", User)
    yield User
    rules.environment._user.close()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_task_of_many_steps_ends_in_the_wanted_state(rules: SuiteRules, tmp_path: Path) -> None:
    task = rules.tasks()[0]
    assert (task.category, task.provenance.origin) == ("multi_step_en", "en agent_multi_step_0")
    right = told(rules, task, WIFI, ADD, DONE)
    assert rules.score(task, right) == RuleOutcome(True, process=1.0)
    assert [s.results[0].content for s in right.steps[:2]] == [
        '{"status": true, "message": "on"}',
        '{"status": true, "message": "added"}',
    ]
    early = told(rules, task, ADD, DONE)
    assert early.steps[0].results[0].failed
    assert rules.score(task, early) == RuleOutcome(False, "BaseApi differs", 0.0)
    half = told(rules, task, WIFI, DONE)  # right: the misspelt class is compared with none
    assert rules.score(task, half) == RuleOutcome(True, process=1.0)
    none = told(rules, task, "What tea?", DONE)
    assert rules.score(task, none) == RuleOutcome(False, "nothing was called", 0.0)
    assert [t.verdicts[0].solved for t in (right, early, half)] == [True, False, True]
    write_parquet(tmp_path / "x.parquet", [right, early, none])
    again = [rules.score(task, t) for t in read_parquet(tmp_path / "x.parquet")]
    assert [o.right for o in again] == [True, False, False]
    group = Group(task, (right, early), 0)
    (row,) = suite_rows(rules, [group])
    assert row.process == (1.0, 0.0)
    assert accuracies(rules, [row])[0].process == 0.5


@pytest.mark.slow
def test_a_world_whose_process_died_is_a_failure_and_reads_no_other_world(
    rules: SuiteRules,
) -> None:
    environment: Any = rules.environment
    task = rules.tasks()[0]
    with closing(environment.open(task)) as old:
        old.begin_turn(0)
        environment._host.close()  # as after a call of another world that took too long
        with closing(environment.open(task)) as new:
            new.begin_turn(0)
            assert not new.call(ToolCall("turn_on_wifi")).failed
            for act in (lambda: old.call(ToolCall("turn_on_wifi")), old.end_turn):
                with pytest.raises(EnvError, match="the objects of this world died"):
                    act()


@pytest.mark.slow
def test_words_get_the_fixed_reply_and_an_early_end_is_none(rules: SuiteRules) -> None:
    task = rules.tasks()[0]
    played = told(rules, task, DONE, "[turn_on", WIFI, "[no_such()]", "[when(title=1)]", DONE)
    users = [m.content for m in played.messages if m.role == "user"][1:]
    assert users == [ALONE, ALONE]
    texts = [step.results[0].content for step in played.steps if step.results]
    assert texts[1] == "Error during execution: name 'no_such' is not defined"
    assert texts[2] == "Error during execution: list index out of range"
    assert len(played.steps) == 6
    endless = told(rules, task, *["[turn_on_wifi()]"] * 30)
    assert len(endless.steps) == 20


@pytest.mark.slow
def test_a_talk_is_opened_and_answered_by_who_plays_the_user(
    rules: SuiteRules, user: type[User]
) -> None:
    task = rules.tasks()[1]
    user.said = ["Hello, tea please.", "At 5.", f"Thanks. {DONE}"]
    played = told(rules, task, "When?", WIFI, ADD, "It is done.")
    assert [m.content for m in played.messages if m.role == "user"] == [
        "Rules of phones.\n\nHello, tea please.",
        "At 5.",
    ]
    assert user.asked[0][0] == {"role": "system", "content": "You are Ann, who wants tea."}
    assert [m["content"] for m in user.asked[-1][2:]] == [
        "Hello, tea please.",
        "When?",
        "At 5.",
        "It is done.",
    ]
    assert rules.score(task, played) == RuleOutcome(True, process=1.0)
    assert played.verdicts[0].solved
    user.said = ["Hello."]
    rules.environment._user.close()  # type: ignore[attr-defined]
    gone = told(rules, task, "When?")
    assert gone.failure is not None
    assert gone.failure.endswith("does not answer: gone, correct evaluation.suite.user.url")


@pytest.mark.slow
def test_talks_need_somebody_who_plays_the_user(tmp_path: Path) -> None:
    rules = suite(make_folder(tmp_path))
    with pytest.raises(
        PrerequisiteError, match=r"1 of 2 tasks need a user simulator.*suite\.user\.url URL"
    ):
        chosen_tasks(rules, SuiteSettings())
    assert len(chosen_tasks(rules, SuiteSettings(), rollouts=False)) == 2
    assert len(chosen_tasks(rules, SuiteSettings(categories=("multi_step_en",)))) == 1


@pytest.mark.parametrize(
    ("entry", "truth", "said"),
    [
        ({"id": 3}, {}, r"data_agent_multi_step\.json:1: id: expected a text, got 3"),
        ({"id": "x"}, {}, r":1: x has no answer in .*possible_answer"),
        ({"involved_classes": ["Bank"]}, {}, r"there is no class 'Bank'; expected some of BaseApi"),
        ({"involved_classes": ["BaseAPI"]}, {}, r"Did you mean 'BaseApi'\?"),
        ({"initial_config": []}, {}, r":1: initial_config: expected an object, got \[\]"),
        ({"function": [{"name": "f"}]}, {}, r":1: 'description' is missing"),
        ({}, {"ground_truth": "x"}, r"possible_answer.*:1: ground_truth: expected a list"),
        ({}, {"ground_truth": [{"A": {}, "B": {}}]}, r"expected objects of one class each"),
        ({}, {"mile_stone": None}, r":1: mile_stone: expected a list, got None"),
    ],
)
def test_a_broken_row_is_named(
    entry: dict[str, Any], truth: dict[str, Any], said: str, tmp_path: Path
) -> None:
    data = make_folder(tmp_path) / "data_all" / "data_en"
    lines(data / "data_agent_multi_step.json", [{**ENTRY, **entry}])
    lines(data / "possible_answer" / "data_agent_multi_step.json", [{**TRUTH, **truth}])
    with pytest.raises(TaskError, match=said):
        suite(tmp_path).tasks()


def test_a_folder_must_be_named_and_hold_tasks_and_instructions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"acebench-agent needs a checkout of chenchen0103"):
        make_suite("acebench-agent", load_config())
    with pytest.raises(TaskError, match=r"nor another file of agent tasks"):
        suite(tmp_path).tasks()
    folder = make_folder(tmp_path)
    (folder / "model_inference" / "prompt_en.py").write_text("x = 1", encoding="utf-8")
    with pytest.raises(TaskError, match=r"prompt_en\.py: there is no text BASE_PROMPT_EN"):
        suite(folder).tasks()
    (folder / "model_inference" / "prompt_en.py").write_text("x = ", encoding="utf-8")
    with pytest.raises(TaskError, match=r"prompt_en\.py: not Python"):
        suite(folder).tasks()


def test_constants_are_read_not_run(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text('raise SystemExit\nA = "a"\nB = 1\nC = D = """c"""\n', encoding="utf-8")
    assert constants(path) == {"A": "a", "C": "c", "D": "c"}


def test_progress_is_the_share_of_milestones_in_order() -> None:
    def steps(*names: str) -> Any:
        calls = [SimpleNamespace(calls=(ToolCall(n),), results=(0,)) for n in names]
        return SimpleNamespace(steps=[*calls, SimpleNamespace(calls=(), results=())])

    stones = ["[a()]", " [b()]", "[c()]"]
    assert progress_of(steps("x", "a", "b", "x", "c"), stones) == 1
    assert progress_of(steps("a", "c", "b"), stones) == 2 / 3
    assert progress_of(steps("b", "c"), stones) == 0  # after a missing one none is found
    assert progress_of(steps("c"), [stones, ["[c()]", "[d()]"]]) == 0.5
    assert progress_of(steps(), []) == 1
    call = ToolCall("f", {"a": "it's", "b": 1, "c": [{"k": "v"}]})
    assert written(call) == "f(a='it's', b=1, c=[{'k': 'v'}])"
