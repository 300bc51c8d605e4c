"""Planted bugs: real, seen by hidden checks, the same from a seed, never shown with the answer."""

from __future__ import annotations

import json

import pytest

from repo_cases import repairs, tasks
from rods.config import load_config
from rods.envs.repo.checks import Check, failing, outcomes, read_checks
from rods.envs.repo.mutations import mutations
from rods.envs.repo.plant import REPOSITORIES, plant, repository, unit_tests
from rods.errors import ConfigError, TaskError
from rods.sandbox.editor import edit
from rods.sandbox.shell import Shell
from rods.task import Task


def hidden(task: Task) -> list[Check]:
    return [Check(*row) for row in task.world["checks"]]


def repaired(task: Task, folder) -> dict[str, str]:
    """The package's files after the ground truth's edits, done here."""
    for path, text in task.world["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for call in repairs(task)[:-1]:
        edited = edit({**call.arguments, "path": str(folder / call.arguments["path"])})
        assert not edited.failed, edited
    return {path: (folder / path).read_text() for path in task.world["files"]}


@pytest.mark.slow
def test_each_bug_fails_hidden_checks_and_its_undoing_passes_all(tmp_path) -> None:
    with Shell() as shell:
        for number, task in enumerate(tasks()):
            repair = repaired(task, tmp_path / str(number))
            whole = repository(task.world["repository"])
            assert whole.files == {path: repair[path] for path in whole.files}
            calls = [check.call for check in hidden(task)]
            before, after = outcomes(shell, calls, [task.world["files"], repair], 0.5)
            assert failing(hidden(task), before)
            assert failing(hidden(task), after) == set()


def test_difficulties_and_what_is_told() -> None:
    assert [task.world["difficulty"] for task in tasks()] == [1, 2, 3, 4, 5] * 2
    for task in tasks():
        level, text, edits = task.world["difficulty"], task.turns[0].user, repairs(task)[:-1]
        paths = [call.arguments["path"] for call in edits]
        assert len(edits) == (1 if level <= 3 else 2)
        assert (len({*paths}) == 2) == (level == 5)
        assert (paths[0] in text) == (level == 1)
        assert ("The fault is in" in text) == (level <= 2)
    assert len({task.id for task in tasks()}) == 10


def test_no_hidden_check_is_shown() -> None:
    for task in tasks():
        shown = json.dumps(task.world["files"]) + task.turns[0].user
        for call, _ in task.world["checks"]:
            assert json.dumps(call)[1:-1] not in shown


@pytest.mark.slow
def test_visible_tests_pass_where_the_difficulty_says_so() -> None:
    with Shell() as shell:
        for task in tasks():
            if task.world["difficulty"] != 5:
                continue
            shell.put(task.world["files"])
            done = shell.run(["python", "-m", "unittest", "discover", "-s", "tests"])
            assert done.ok and "OK" in done.output, done


@pytest.mark.slow
def test_the_same_seed_makes_the_same_tasks() -> None:
    plain = plant.__wrapped__
    first, again = plain(4, (1, 4), 7, ("shelf",)), plain(4, (1, 4), 7, ("shelf",))
    assert [task.id for task in first] == [task.id for task in again]
    other = plain(4, (1, 4), 8, ("shelf",))
    assert {task.id for task in first}.isdisjoint(task.id for task in other)


@pytest.mark.slow
def test_fifty_tasks_of_five_difficulties() -> None:
    config = load_config(overrides=["env.name=repo"])
    assert config.env.arguments["count"] == 50
    made = plant()
    assert len({task.id for task in made}) == 50
    levels = [task.world["difficulty"] for task in made]
    assert [levels.count(level) for level in range(1, 6)] == [10] * 5
    assert len({task.provenance.scenario for task in made}) == len(REPOSITORIES)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_repositories_say_what_they_are(name: str) -> None:
    whole = repository(name)
    calls = [check.call for check in whole.checks]
    assert len(calls) == len(set(calls))
    functions = {check.function for check in whole.checks}
    assert all([c.function for c in whole.checks].count(f) >= 3 for f in functions)
    assert all(text.isascii() for text in whole.files.values())


def test_a_mutation_changes_what_it_says() -> None:
    source = "def f(a, b):\n    return a < 3 and -b + 1 <= max(a, b)\n"
    found = {(one.old, one.new) for one in mutations(source)}
    assert found == {
        ("<", "<="), ("3", "4"), ("3", "2"), ("and", "or"), ("-", ""), ("+", "-"),
        ("1", "2"), ("1", "0"), ("<=", "<"), ("max", "min"),
    }  # fmt: skip
    for one in mutations(source):
        changed = one.apply(source)
        assert len(changed) == len(source) + len(one.new) - len(one.old)
        assert changed[one.start :].startswith(one.new) and changed != source
    assert mutations("LIMIT = 5\n") == []


def test_checks_are_read_or_refused() -> None:
    assert read_checks("a.f(1) == [1,  2]\na.g('x') raises KeyError") == [
        Check("a.f(1)", "[1, 2]"),
        Check("a.g('x')", "raises KeyError"),
    ]
    for line in ("a.f(1)", "a.f(1) == b", "a.f(1) =="):
        with pytest.raises(TaskError, match="check"):
            read_checks(line)
    text = unit_tests(read_checks("a.b.f(1) == 2\na.b.g() raises KeyError"))
    assert "import a.b\n" in text and "assertEqual(a.b.f(1), 2)" in text
    assert "assertRaises(KeyError)" in text


def test_an_unknown_difficulty_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.repo\.difficulty"):
        plant(1, (6,))
