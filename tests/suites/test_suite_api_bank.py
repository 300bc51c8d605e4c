"""API-Bank: dialogues of a folder, calls made and judged by that folder's own classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rods.config import load_config
from rods.config.evaluation import SuiteSettings
from rods.dialects import get_dialect, structured
from rods.errors import ConfigError, EnvError, PrerequisiteError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.evaluation.suites import chosen_tasks
from rods.suites import make_suite
from rods.suites.host import Host, RaisedError
from rods.task import Task
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import ToolCall
from suite_cases import told

WRITE = structured(get_dialect("pythonic")).write

BASE = """
class API:
    def check_api_call_correctness(self, response, groundtruth):
        return all(response[key] == groundtruth[key] for key in ("input", "output"))
"""
CHECK_TOKEN = """
from apis.api import API
class CheckToken(API):
    description = "Check a token."
    input_parameters = {"token": {"type": "str", "description": "A token."}}
    database_name = "Account"
    def __init__(self, init_database):
        self.database = init_database
    def check_token(self, token):
        return self.database[token]
"""
BOOK = """
from apis.api import API
class Book(API):
    description = "Book rooms."
    input_parameters = {
        "token": {"type": "str", "description": "A token."},
        "rooms": {"type": "int", "description": "How many."},
        "names": {"type": "list(str)", "description": "Guests."},
        "note": {"type": "str", "description": "[Optional] A note."},
    }
    database_name = "Hotel"
    def __init__(self, init_database, token_checker):
        self.database, self.token_checker = init_database, token_checker
    def call(self, token, rooms, names, note=""):
        print("noise that nobody reads")
        self.database["free"] -= rooms
        who = self.token_checker.check_token(token)
        given = {"token": token, "rooms": rooms, "names": names}
        left = f"{who}: {self.database['free']} left"
        return {"api_name": "Book", "input": given, "output": left}
class Hang(API):
    description, input_parameters = "Never answers.", {}
    def call(self):
        while True:
            pass
"""
ABSENT = """
import a_package_that_is_not_there
from apis.api import API
class Absent(API):
    description, input_parameters = "", {}
"""
GIVEN = {"token": "t1", "rooms": "2", "names": "['Ann', 'Bo']"}
BOOKED = {
    "input": {"token": "t1", "rooms": 2, "names": "['Ann', 'Bo']"},
    "output": "ann: 3 left",
    "exception": None,
}
DIALOGUE: list[dict[str, Any]] = [
    {"role": "User", "text": "Two rooms for Ann and Bo."},
    {"role": "AI", "text": "Your token?"},
    {"role": "User", "text": "t1"},
    {"role": "API", "api_name": "Book", "param_dict": GIVEN, "result": BOOKED},
    {"role": "AI", "text": "Done; once more."},
    {"role": "API", "api_name": "Book", "param_dict": GIVEN, "result": BOOKED},
]
LEVELS = ("level-1-given-desc", "level-2-toolsearcher")


def make_folder(folder: Path) -> Path:
    (folder / "apis").mkdir()
    (folder / "init_database").mkdir()
    files = {"__init__": "from .api import API", "api": BASE, "check_token": CHECK_TOKEN}
    for name, text in {**files, "book": BOOK, "absent": ABSENT}.items():
        (folder / "apis" / f"{name}.py").write_text(text, encoding="utf-8")
    for name, rows in {"Account": {"t1": "ann"}, "Hotel": {"free": 5}}.items():
        (folder / "init_database" / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    for level in LEVELS:
        (folder / "lv1-lv2-samples" / level).mkdir(parents=True)
        write(folder, DIALOGUE, level)
    return folder


def write(folder: Path, rows: list[Any], level: str = LEVELS[0]) -> None:
    path = folder / "lv1-lv2-samples" / level / "Book-1.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def suite(folder: Path) -> SuiteRules:
    return make_suite(
        "api-bank", load_config(overrides=[f"evaluation.suite.folder={json.dumps(str(folder))}"])
    )


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRules]:
    made = suite(make_folder(tmp_path_factory.mktemp("api-bank")))
    yield made
    made.environment.close()


def outcome(rules: SuiteRules, task: Task, *calls: ToolCall) -> RuleOutcome:
    return rules.score(task, told(rules, task, WRITE(calls) if calls else "I cannot."))


def book(**changes: Any) -> ToolCall:
    return ToolCall("Book", {"token": "t1", "rooms": 2, "names": ["Ann", "Bo"], **changes})


@pytest.mark.slow
def test_each_call_of_a_dialogue_is_a_task(rules: SuiteRules) -> None:
    first, second, *others = rules.tasks()
    assert (first.category, first.provenance.origin) == ("level-1", "Book-1.jsonl#4 Book")
    assert first.turns[0].user == "t1"
    assert [m.role for m in first.dialogue] == ["user", "assistant"]
    assert first.dialogue[0].content.startswith("This year is 2023.\n\nTwo rooms")
    assert second.turns[0].user == ""
    assert [m.role for m in second.dialogue[2:]] == ["user", "assistant", "tool", "assistant"]
    assert second.dialogue[4].content == "ann: 3 left"
    (tool,) = [t for t in first.world["tools"] if isinstance(t, dict)]  # type: ignore[union-attr]
    assert tool["parameters"]["required"] == ["token", "rooms", "names"]  # type: ignore[index,call-overload]
    assert len(others) == 2 and others[0].world["tools"] == []  # no ToolSearcher in this folder
    assert len({task.id for task in rules.tasks()}) == 4


@pytest.mark.slow
def test_a_call_is_made_on_the_initial_database_and_judged_by_its_class(
    rules: SuiteRules, tmp_path: Path
) -> None:
    task = rules.tasks()[0]
    for _ in range(2):  # nothing is left of an earlier call
        assert outcome(rules, task, book()) == RuleOutcome(True)
    assert outcome(rules, task, book(rooms="2", names="['Ann', 'Bo']", note="x")).right
    assert outcome(rules, task, book(rooms=1)) == RuleOutcome(False, "the result differs")
    assert outcome(rules, task, book(token="t9")) == RuleOutcome(False, "the call fails: KeyError")
    assert outcome(rules, task, book(rooms="two")) == RuleOutcome(
        False, "the call fails: not a number"
    )
    assert outcome(rules, task, book(surplus=1)) == RuleOutcome(
        False, "the call fails: an unknown parameter"
    )
    assert outcome(rules, task, ToolCall("Book", {"rooms": 2})) == RuleOutcome(
        False, "the call fails: TypeError"
    )
    assert outcome(rules, task, ToolCall("CheckToken", {"token": "t1"})) == RuleOutcome(
        False, "another API"
    )
    assert outcome(rules, task, book(), book()) == RuleOutcome(False, "more than one call")
    assert outcome(rules, task) == RuleOutcome(False, "no call that can be read")
    played = [told(rules, task, WRITE([book(rooms=n)])) for n in (1, 2)]
    write_parquet(tmp_path / "x.parquet", played)
    rules.environment.close()  # as a run does before it scores
    again = [rules.score(task, t).right for t in read_parquet(tmp_path / "x.parquet")]
    assert again == [False, True]


@pytest.mark.slow
def test_apis_that_cannot_be_imported_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    result = {"input": {}, "output": None, "exception": None}
    other = {"role": "API", "api_name": "Absent", "param_dict": {}, "result": result}
    write(folder, [*DIALOGUE, other])
    rules = suite(folder)
    try:
        settings = SuiteSettings(categories=("level-1",))
        with pytest.raises(
            PrerequisiteError,
            match=r"1 of 3 tasks .* Absent \(1\).*apis\.absent: No module named 'a_package.*omit",
        ):
            chosen_tasks(rules, settings)
        assert len(chosen_tasks(rules, settings.model_copy(update={"omit": ("Absent",)}))) == 2
    finally:
        rules.environment.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"role": "Bot", "text": ""}, r"Book-1\.jsonl:7: role: expected User, AI or API"),
        ({"role": "AI"}, r":7: 'text' is missing; expected a text"),
        ({"role": "API", "api_name": "Book"}, r":7: 'param_dict' is missing; expected an"),
        (
            {"role": "API", "api_name": "Book", "param_dict": {}, "result": {}},
            r":7: result: expected an object with output",
        ),
        (3, r":7: role: expected a text, but the row is not an object: 3"),
    ],
)
def test_a_broken_row_is_named(row: Any, said: str, rules: SuiteRules, tmp_path: Path) -> None:
    from rods.suites.api_bank import read_dialogue

    path = tmp_path / "Book-1.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in [*DIALOGUE, row]), encoding="utf-8")
    with pytest.raises(TaskError, match=said):
        read_dialogue(path, "level-1", {})


def test_a_folder_must_be_named_and_be_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.suite\.folder: api-bank needs the folder"):
        make_suite("api-bank", load_config())
    with pytest.raises(TaskError, match=r"there is no apis/api\.py; expected api-bank's folder"):
        suite(tmp_path).tasks()


@pytest.mark.slow
def test_a_class_that_hangs_is_given_up_and_the_next_question_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(make_folder(tmp_path), "api-bank")
    try:
        host.catalog("apis", "API", [])
        monkeypatch.setattr("rods.suites.host.SECONDS", 0.5)
        with pytest.raises(EnvError, match="took too long"):
            host.do(host.new("apis.book", "Hang"), "call", {})
        monkeypatch.undo()
        with pytest.raises(RaisedError, match="AttributeError: __class__"):
            host.do(host.new("apis.book", "Hang"), "__class__", {})
        with pytest.raises(RaisedError, match="ModuleNotFoundError"):
            host.new("apis.no_such", "Thing")
    finally:
        host.close()
