"""Generated questions: what holds for every family, difficulty and seed, and their two sides."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import pytest

from rods.config import EnvSettings
from rods.envs.originals import original_tasks, split_tasks
from rods.envs.questions import QuestionSettings
from rods.envs.questions.families import (
    FAMILIES,
    HARDEST,
    HELD_OUT,
    Question,
    is_held_out,
    make_question,
    question_of,
    question_task,
    question_tasks,
)
from rods.errors import ConfigError, TaskError
from rods.evaluation.suite import stratified

ALL = [(family, difficulty) for family in FAMILIES for difficulty in range(1, HARDEST + 1)]


def printed(program: str) -> str:
    """What a program of ours prints: one expression of numbers in `print`, nothing else."""
    (statement,) = ast.parse(program).body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    assert ast.unparse(statement.value.func) == "print"
    (expression,) = statement.value.args
    names = {type(node).__name__ for node in ast.walk(expression)}
    assert names <= {"BinOp", "Constant", "Add", "Sub", "Mult", "Mod"}
    return str(eval(compile(ast.Expression(expression), "question", "eval")))


@pytest.mark.parametrize(("family", "difficulty"), ALL)
def test_the_last_program_gives_the_answer(family: str, difficulty: int) -> None:
    for seed in (0, 1, 2, HELD_OUT, HELD_OUT + 1):
        question = make_question(family, difficulty, seed)
        assert printed(question.program) == question.answer
        assert question.program == question.programs[-1]
        assert len(set(question.programs)) == len(question.programs)
        for step in question.programs:
            printed(step)


@pytest.mark.parametrize(("family", "difficulty"), ALL)
def test_a_question_is_fixed_by_family_difficulty_and_seed(family: str, difficulty: int) -> None:
    first = make_question(family, difficulty, 5)
    assert make_question(family, difficulty, 5) == first
    assert len({make_question(family, difficulty, seed) for seed in range(12)}) > 6


def test_questions_stay_as_they_are_from_release_to_release() -> None:
    assert make_question("multiply", 3, 7) == Question(
        "What is 609 * 38?", "23142", ("print(609 * 38)",)
    )
    assert make_question("expression", 2, 0) == Question(
        "Compute 19 - (3 * 15).", "-26", ("print(3 * 15)", "print(19 - (3 * 15))")
    )
    assert make_question("travel", 1, HELD_OUT).answer == "14"


@pytest.mark.parametrize("family", FAMILIES)
def test_difficulty_1_has_one_digit_and_3_has_three(family: str) -> None:
    def digits(difficulty: int) -> int:
        words = "".join(
            c if c.isdigit() else " "
            for seed in range(30)
            for c in make_question(family, difficulty, seed).text + " "
        ).split()
        return max(map(len, words))

    assert digits(1) == 1
    assert digits(3) == 3
    assert digits(5) > 3 or family == "expression"


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("multiply", "remainder")])
def test_harder_questions_have_more_steps(family: str) -> None:
    steps = [len(make_question(family, d, 3).programs) for d in range(1, HARDEST + 1)]
    assert steps == sorted(steps) and steps[-1] >= 4


def test_the_expression_shows_its_work_and_then_does_all() -> None:
    question = make_question("expression", 4, 0)
    assert len(question.programs) == 4
    parts = [program.removeprefix("print(").removesuffix(")") for program in question.programs]
    assert all(f"({part})" in parts[-1] for part in parts[:-1])
    assert question.text == f"Compute {parts[-1]}."


@pytest.mark.parametrize("family", FAMILIES)
def test_no_text_stands_on_both_sides(family: str) -> None:
    train = {make_question(family, 1, seed).text for seed in range(60)}
    held_out = {make_question(family, 1, HELD_OUT + seed).text for seed in range(60)}
    assert train and held_out and not train & held_out
    assert not any(is_held_out(text) for text in train) and all(map(is_held_out, held_out))


def test_a_task_and_its_question() -> None:
    task = question_task("add", 2, 9)
    question = question_of(task)
    assert (task.env, task.category, task.turns[0].user) == ("python_tool", "add", question.text)
    assert task.world == {"answer": question.answer, "family": "add", "difficulty": 2, "seed": 9}
    assert task.provenance.origin == task.provenance.scenario == "add-2-9"
    assert task.is_original and not task.turns[0].ground_truth


def test_question_of_refuses_what_it_did_not_make() -> None:
    task = question_task("add", 2, 9)
    plain = dataclasses.replace(task, world={"answer": "4"})
    with pytest.raises(TaskError, match="not a generated question"):
        question_of(plain)
    other = dataclasses.replace(task, world={**task.world, "seed": 10})
    with pytest.raises(TaskError, match="made by another version"):
        question_of(other)


@pytest.mark.parametrize(
    ("family", "difficulty", "seed", "words"),
    [
        ("sums", 1, 0, "env.questions.families 'sums': expected one of add, multiply"),
        ("add", 6, 0, "add has no difficulty 6"),
        ("add", 0, 0, "add has no difficulty 0"),
        ("add", 1, -1, "expected 0 or more"),
    ],
)
def test_unknown_questions(family: str, difficulty: int, seed: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_question(family, difficulty, seed)


def test_tasks_of_a_side_are_different_and_even() -> None:
    tasks = question_tasks(("add", "multiply"), (1, 2), 40)
    assert len({task.turns[0].user for task in tasks}) == 40
    kinds = [(task.category, task.world["difficulty"]) for task in tasks]
    assert {kinds.count(kind) for kind in set(kinds)} == {10}
    assert question_tasks(("add", "multiply"), (1, 2), 12) == tasks[:12]


def test_small_families_drop_out_and_say_when_nothing_is_left() -> None:
    tasks = question_tasks(("multiply",), (1, 2), 150)
    easy = sum(task.world["difficulty"] == 1 for task in tasks)
    assert easy < 64 and len(tasks) == 150
    with pytest.raises(ConfigError, match="different questions in the training split, but 65 are"):
        question_tasks(("multiply",), (1,), 65)


def generated(name: str, **mine: Any) -> EnvSettings:
    return EnvSettings(name=name, questions=QuestionSettings(**mine), held_out=0.25)


def test_settings_part_generated_questions() -> None:
    settings = generated("python_tool", count=48, difficulty=(1, 2))
    split = split_tasks(settings)
    assert (len(split.train), len(split.held_out)) == (36, 12)
    assert split == split_tasks(settings)
    assert original_tasks(settings) == [*split.train, *split.held_out]
    assert {task.category for task in split.train} == set(FAMILIES)
    assert {task.category for task in stratified(split.held_out, 6, 0)} == set(FAMILIES)
    assert all(int(str(task.world["seed"])) >= HELD_OUT for task in split.held_out)
    one = split_tasks(generated("python_tool", count=8, families=("travel",)))
    assert {task.category for task in [*one.train, *one.held_out]} == {"travel"}
    assert one.digest != split.digest


def test_settings_part_questions_of_search() -> None:
    split = split_tasks(generated("search", count=20, difficulty=(1, 2)))
    assert (len(split.train), len(split.held_out)) == (15, 5)
    assert {task.env for task in split.train} == {"search"}
