"""The generated world: its questions follow from its documents, have one answer, and two sides."""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache

import pytest

from rods.envs.search.atlas import BY_NAME, PROVINCES, RELATIONS, make_atlas
from rods.envs.search.documents import words
from rods.envs.search.hops import (
    HELD_OUT,
    HopQuestion,
    make_question,
    provinces,
    question_of,
    question_task,
    search_tasks,
)
from rods.errors import ConfigError, TaskError
from rods.task import Task, Turn

SEEDS = [*range(60), *range(HELD_OUT, HELD_OUT + 40)]
QUESTIONS = [(hops, seed) for hops in (1, 2, 3) for seed in SEEDS]


@lru_cache(maxsize=1)
def read_facts() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """What the documents state, read from their sentences alone: values and the titles."""
    titles = {document.title for document in make_atlas().documents}
    forms = [
        (r.name, max(re.split(r"\{[xy]\}", text), key=len), re.compile(pattern(text)))
        for r in RELATIONS
        for text in r.stated
    ]
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for document in make_atlas().documents:
        for sentence in re.findall(r"[^.]+\.", document.text):
            for name, words_of_it, form in forms:
                match = words_of_it in sentence and form.fullmatch(sentence.strip())
                if (
                    match
                    and match["x"] in titles
                    and (match["y"] in titles or match["y"].isdigit())
                ):
                    found.setdefault((match["x"], name), []).append((match["y"], document.title))
    return found


def pattern(stated: str) -> str:
    return re.escape(stated).replace(r"\{x\}", "(?P<x>.+)").replace(r"\{y\}", "(?P<y>.+)")


def names_in(question: HopQuestion) -> set[str]:
    return {name for step in question.steps for name in (step.subject, step.value)}


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_documents_give_each_answer_and_no_other(hops: int) -> None:
    for seed in SEEDS:
        question = make_question(hops, seed)
        assert len(question.steps) == len(question.programs) == hops
        at = question.steps[0].subject
        for step in question.steps:
            values = {value for value, _ in read_facts()[at, step.relation]}
            assert len(values) == 1, (at, step.relation)
            at = values.pop()
        assert at == question.answer


@pytest.mark.slow
def test_every_fact_stands_in_the_one_document_of_its_subject() -> None:
    facts = {k: v for p in make_atlas().provinces for k, v in p.facts.items()}
    assert read_facts() == {(x, name): [(y, x)] for (x, name), y in facts.items()}


def test_there_are_documents_that_name_people_and_say_nothing() -> None:
    stating = {title for found in read_facts().values() for _, title in found}
    idle = [d for d in make_atlas().documents if d.title not in stating]
    assert len(idle) >= 4 * PROVINCES
    people = {x for x, name in read_facts() if name == "birthplace"}
    assert sum(any(person in d.text for person in people) for d in idle) >= 4 * PROVINCES


def test_names_are_of_one_thing_and_made_of_no_ordinary_word() -> None:
    named = [e for province in make_atlas().provinces for e in province.kinds]
    assert len(named) == len(set(named))
    plain = {w for relation in RELATIONS for text in relation.stated for w in words(text)}
    ends = {words(e)[-1] for e in named} - {"mills", "forge", "traders", "press"}
    assert ends and not plain & ends


@pytest.mark.parametrize(("hops", "seed"), QUESTIONS[::7])
def test_the_text_asks_for_the_chain_and_tells_no_answer(hops: int, seed: int) -> None:
    question = make_question(hops, seed)
    text = question.steps[0].subject
    for step in question.steps[:-1]:
        text = BY_NAME[step.relation].noun.format(x=text)
    assert text[1:] in question.text and question.text.endswith("?")
    for step in question.steps:
        assert step.value not in question.text
    assert len({s.subject for s in question.steps} | {question.answer}) == hops + 1


def test_no_answer_is_common() -> None:
    """Without a search an answer can only be guessed: none is more than a hundredth of all."""
    answers = [make_question(1, seed).answer for seed in range(2000)]
    assert max(answers.count(answer) for answer in set(answers)) <= 20


def test_held_out_people_and_places_are_in_no_training_question() -> None:
    training = [make_question(hops, seed) for hops in (1, 2, 3) for seed in range(600)]
    held_out = [make_question(hops, HELD_OUT + seed) for hops in (1, 2, 3) for seed in range(200)]
    numbers = {str(n) for n in range(3000)}
    mine = {name for q in training for name in names_in(q)} - numbers
    theirs = {name for q in held_out for name in names_in(q)} - numbers
    assert mine and theirs and not mine & theirs
    assert {q.province for q in training} == set(provinces(held_out=False))
    assert {q.province for q in held_out} == set(provinces(held_out=True))
    assert not set(provinces(True)) & set(provinces(False))


def test_seeds_differ_until_all_chains_are_used() -> None:
    tasks = search_tasks((1, 2, 3), 300) + search_tasks((1, 2, 3), 150, held_out=True)
    assert len({task.turns[0].user for task in tasks}) == len({t.id for t in tasks}) == 450
    assert [t.category for t in tasks[:4]] == ["hops-1", "hops-2", "hops-3", "hops-1"]
    with pytest.raises(ConfigError, match="no 5000 different questions"):
        search_tasks((1,), 5000)


def test_a_task_has_the_form_of_questions_and_gives_its_question_back() -> None:
    task = question_task(2, 17)
    question = make_question(2, 17)
    assert (task.env, task.category, task.turns) == ("search", "hops-2", (Turn(question.text),))
    assert task.world.items() >= {
        "answer": question.answer, "family": "hops", "difficulty": 2, "seed": 17,
    }.items()  # fmt: skip
    assert task.provenance.origin == "hops-2-17"
    assert task.provenance.scenario == f"hops-province-{question.province}"
    assert question_of(task) == question
    assert question_of(Task.from_json(task.to_json())) == question
    with pytest.raises(TaskError, match="not a generated search question"):
        question_of(Task("search", "x", (Turn("?"),), {"answer": "y"}))
    with pytest.raises(TaskError, match="made by another version"):
        question_of(dataclasses.replace(task, turns=(Turn("Who?"),)))


def test_units_and_the_word_lake_may_be_left_out() -> None:
    kinds = {BY_NAME[make_question(1, s).steps[-1].relation].name: make_question(1, s)
             for s in range(2000)}  # fmt: skip
    assert kinds["length"].aliases == (f"{kinds['length'].answer} kilometres",)
    assert kinds["lake"].answer == f"Lake {kinds['lake'].aliases[0]}"
    assert kinds["mayor"].aliases == ()


@pytest.mark.parametrize(("hops", "seed"), [(0, 1), (4, 1), (1, -1)])
def test_what_is_not_there_is_said(hops: int, seed: int) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 3 hops"):
        make_question(hops, seed)


@pytest.mark.parametrize(
    ("hops", "seed", "name"),
    [
        (1, 0, "3d094c3df2abb287"),
        (2, 17, "cf6ee93e71fb02d9"),
        (3, HELD_OUT + 5, "89c47584a9c3267f"),
    ],
)
def test_every_process_and_version_makes_the_same(hops: int, seed: int, name: str) -> None:
    assert question_task(hops, seed).id == name
