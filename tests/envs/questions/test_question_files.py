"""Published data sets on disk: every form of a row, and what is said of broken ones."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.config import EnvSettings, parse_config
from rods.config.checks import require
from rods.envs.originals import original_tasks, split_tasks
from rods.envs.questions import QuestionSettings
from rods.envs.questions.families import question_task
from rods.envs.questions.files import load_question_tasks, read_row
from rods.errors import ConfigError, PrerequisiteError, TaskError
from rods.task import Provenance, write_tasks

DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
    "Find $x$.\n\nIt is odd.\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)


def verl(asked: str, truth: Any, **more: Any) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": asked}]
    return {"prompt": prompt, "reward_model": {"style": "rule", "ground_truth": truth}, **more}


FORMS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "orz": (
        [
            {"from": "human", "value": "What is $2+2$?"},
            {"from": "assistant", "ground_truth": {"value": "4"}},
        ],
        "What is $2+2$?",
        ("4",),
    ),
    "orz in a table": (
        {"0": {"from": "human", "value": "Q?"}, "1": {"ground_truth": {"value": "4"}}},
        "Q?",
        ("4",),
    ),
    "orz evaluation": (
        {"prompt": [{"from": "user", "value": "Q?"}], "final_answer": "4"},
        "Q?",
        ("4",),
    ),
    "dapo": (verl(DAPO, "34"), "Find $x$.\n\nIt is odd.", ("34",)),
    "dapo with a box": (
        verl(DAPO.replace("Answer: $Answer (without", "Answer: \\boxed{$Answer} (without"), "34"),
        "Find $x$.\n\nIt is odd.",
        ("34",),
    ),
    "torl": (verl("How many?", "1/2", data_source="math"), "How many?", ("1/2",)),
    "verl list": (verl("How many?", ["72"]), "How many?", ("72",)),
    "a wrapper that is not fixed": (
        verl("Think hard. How many? Answer in a box.", "1"),
        "Think hard. How many? Answer in a box.",
        ("1",),
    ),
    "search-r1": (
        verl("Answer the given question. Who?", {"target": ["x"]})
        | {"question": "who was it", "golden_answers": ["Ana Velm", "A. Velm", "Ana Velm"]},
        "who was it",
        ("Ana Velm", "A. Velm"),
    ),
    "search-r1 without golden answers": (
        verl("Wrapped", {"target": ["x", "y"]}, question="who"),
        "who",
        ("x", "y"),
    ),
    "nq": ({"id": "1", "question": "who", "golden_answers": ["x"]}, "who", ("x",)),
    "aime": ({"id": 60, "problem": "Find n.", "answer": "204", "year": 24}, "Find n.", ("204",)),
    "aime with capitals": (
        {"ID": "2024-I-1", "Problem": "Find n.", "Solution": "...", "Answer": 204},
        "Find n.",
        ("204",),
    ),
    "a float": ({"question": "Find n.", "answer": 25.0}, "Find n.", ("25",)),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_row(name: str) -> None:
    value, question, answers = FORMS[name]
    assert read_row(value, "file, row 1") == (question, answers)


DIGITS: dict[float | str, str] = {
    1234567.0: "1234567",
    1e16: "10000000000000000",
    0.1: "0.1",
    1e-7: "0.0000001",
    -2.50: "-2.5",
    123456.789012: "123456.789012",
    7: "7",
    " 7.0 ": "7.0",
}


@pytest.mark.parametrize(("number", "text"), DIGITS.items())
def test_a_number_keeps_its_digits(number: float | str, text: str) -> None:
    assert read_row({"problem": "Q", "answer": number}, "file, row 1").answers == (text,)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_deepmath_is_read(tmp_path: Path, kind: str) -> None:
    row = {"question": "Q?", "final_answer": "\\infty", "difficulty": 5.0, "r1_solution_1": "..."}
    path = tmp_path / f"deepmath.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(
            pytest.importorskip("pyarrow").Table.from_pylist([row]), path
        )
    else:
        path.write_text(json.dumps(row))
    (task,) = load_question_tasks(path, "python_tool")
    assert (task.turns[0].user, task.world["answer"]) == ("Q?", "\\infty")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"text": "x"}, r"missing among its keys \['text'\]. Expected a conversation"),
        ({"problem": "x"}, "question or answer is missing"),
        ({"problem": "Q", "answer": None}, r"of which \['answer'\] are null"),
        ({"problem": None, "answer": "1"}, r"of which \['problem'\] are null"),
        (7, r"it is 7 \(int\), expected an object"),
        ([{"from": "human", "value": "Q"}], "it is a list of 1"),
        ([["Q"], {"ground_truth": "1"}], r"message 1 is \['Q'\] \(list\), expected an object"),
        ([{"value": "Q"}, "A"], r"message 2 is 'A' \(str\), expected an object"),
        ([{"value": None}, {"ground_truth": "1"}], "message 1 says null, expected a text"),
        ({"prompt": ["Q"], "answer": "1"}, "message 1 is 'Q'"),
        ({"prompt": 7, "answer": "1"}, "the question is 7"),
        ({"prompt": "Q", "reward_model": "1"}, "reward_model is '1'"),
        ({"question": None, "golden_answers": ["1"]}, "the question is null"),
        ({"0": {"value": "Q"}, "1": "A"}, "column 1 is 'A'"),
        ({"problem": "Q", "answer": float("nan")}, "the answer is nan, which is not a number"),
        ({"problem": "Q", "answer": [1.0, float("inf")]}, "the answer is inf"),
        ({"problem": "Q", "answer": [None]}, "the answer is null"),
        ([{"value": "Q"}, {"value": "A"}], "key 'ground_truth' is missing"),
        ({"prompt": [{"role": "user"}], "reward_model": {"ground_truth": "1"}}, "'value' is miss"),
        ({"prompt": "Q", "reward_model": {"style": "rule"}}, "key 'ground_truth' is missing"),
        ({"problem": "Q", "answer": True}, r"the answer is True \(bool\)"),
        ({"problem": "Q", "answer": [[1]]}, r"the answer is \[1\] \(list\)"),
        ({"problem": "Q", "answer": ""}, "the answer is blank"),
        ({"problem": " ", "answer": "1"}, "the question is blank"),
        ({"question": "Q", "golden_answers": []}, "the answer is blank"),
    ],
)
def test_a_broken_row_is_named(value: Any, words: str) -> None:
    with pytest.raises(TaskError, match=rf"^train\.json, row 3: .*{words}"):
        read_row(value, "train.json, row 3")


ROWS = [
    {"problem": "One?", "answer": "1"},
    {"problem": "Two?", "answer": "2"},
    {"problem": "One?", "answer": "1"},
    {"problem": "One?", "answer": "3"},
]


def written(folder: Path, kind: str) -> Path:
    path = folder / f"aime24.{kind}"
    if kind == "json":
        path.write_text(json.dumps(ROWS))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        arrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(arrow.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet"])
def test_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    tasks = load_question_tasks(written(tmp_path, kind), "python_tool")
    assert [(t.turns[0].user, t.world["answer"], t.provenance.origin) for t in tasks] == [
        ("One?", "1", "aime24-1"),
        ("Two?", "2", "aime24-2"),
        ("One?", "3", "aime24-4"),
    ]
    assert {task.category for task in tasks} == {"aime24"}
    assert {task.env for task in tasks} == {"python_tool"}
    scenarios = [task.provenance.scenario for task in tasks]
    assert scenarios[0] == scenarios[2] != scenarios[1]


def test_nested_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "dapo-math-17k.parquet"
    rows = [FORMS["dapo"][0] | {"extra_info": {"index": "a"}}] * 3
    pyarrow.parquet.write_table(arrow.Table.from_pylist(rows), path)
    (task,) = load_question_tasks(path, "python_tool")
    assert (task.turns[0].user, task.world["answer"]) == ("Find $x$.\n\nIt is odd.", "34")
    assert task.category == "dapo-math-17k"


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (("system", "user"), "left out: system (2 rows). "),
        (
            ("system", "user", "assistant", "user"),
            "left out: assistant (2 rows) and system (2 rows). ",
        ),
        (("user",), ""),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_messages_that_no_task_gets_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, roles: tuple[str], words: str, as_text: bool
) -> None:
    path = tmp_path / "rows.jsonl"
    prompt: Any = [{"role": role, "content": f"says {role}"} for role in roles]
    prompt = json.dumps(prompt) if as_text else prompt
    rows = [{"prompt": prompt, "reward_model": {"ground_truth": str(n)}} for n in range(2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(load_question_tasks(path, "python_tool")) == 2
    assert words in caplog.text and bool(caplog.text) == bool(words)


def test_aliases_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "nq.jsonl"
    path.write_text(json.dumps({"question": "who", "golden_answers": ["x", "y", "z"]}) + "\n")
    (task,) = load_question_tasks(path, "search")
    assert (task.env, task.world["answer"], task.world["aliases"]) == ("search", "x", ["y", "z"])


def test_a_list_within_an_object(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"version": 1, "data": ROWS[:2]}))
    assert len(load_question_tasks(path, "python_tool")) == 2


def test_rows_of_ours_are_read_as_they_are(tmp_path: Path) -> None:
    tasks = [question_task("add", 1, seed) for seed in range(3)]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    read = load_question_tasks(tmp_path / "tasks.jsonl", "python_tool")
    assert read == tasks and read[0].provenance == tasks[0].provenance


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"problem": "Q", "answer": "1"}\n\n{"pro\n', r"a\.jsonl:3: not JSON"),
        (
            "a.jsonl",
            '{\n  "problem": "Q"\n}',
            r"a\.jsonl:1: not JSON: [^(]*, character 2. .*one object per line",
        ),
        ("a.json", "[1", r"a\.json: not JSON.* Fix it\.$"),
        ("a.json", '"x"', "not a list of rows"),
        ("a.json", '{"problem": "Q", "answer": "1"}', "not a list of rows"),
        ("a.json", '[{"problem": "Q", "answer": "1"}, {}]', r"a\.json, row 2: .* its keys \[\]"),
        ("a.parquet", "PAR1", "not a Parquet file, or cut short"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_text(text)
    with pytest.raises(TaskError, match=words):
        load_question_tasks(tmp_path / name, "python_tool")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no such file"):
        load_question_tasks(tmp_path / "no.json", "python_tool")


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PrerequisiteError, match=r"pip install -e '.*\[train\]'"):
        load_question_tasks(tmp_path / "a.parquet", "python_tool")


def test_settings_part_a_file(tmp_path: Path) -> None:
    path = tmp_path / "math.json"
    path.write_text(json.dumps([{"problem": f"{n}?", "answer": n} for n in range(40)]))
    split = split_tasks(EnvSettings(name="python_tool", tasks=(str(path),), held_out=0.25))
    assert (len(split.train), len(split.held_out)) == (30, 10)


def rows(path: Path, *numbers: int) -> str:
    path.write_text(json.dumps([{"problem": f"{n}?", "answer": n} for n in numbers]))
    return str(path)


def test_several_files_hold_a_question_once(tmp_path: Path) -> None:
    files = (rows(tmp_path / "a.json", 1, 2), rows(tmp_path / "b.json", 2, 3))
    tasks = original_tasks(EnvSettings(name="python_tool", tasks=files))
    assert [t.turns[0].user for t in tasks] == ["1?", "2?", "3?"]
    assert [t.category for t in tasks] == ["a", "a", "b"]


def test_evaluation_has_files_of_its_own_and_nothing_is_held_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = EnvSettings(
        name="python_tool", tasks=(rows(tmp_path / "train.json", *range(9)),), held_out=0.0
    )
    exams = (rows(tmp_path / "aime.json", 20, 21), rows(tmp_path / "math500.json", 3, 30))
    split = split_tasks(settings, exams)
    assert [t.category for t in split.held_out] == ["aime", "aime", "math500", "math500"]
    assert [t.turns[0].user for t in split.train] == [f"{n}?" for n in range(9) if n != 3]
    assert "1 training tasks stand in evaluation.files" in caplog.text
    assert split.digest != split_tasks(settings, exams[:1]).digest
    with pytest.raises(ConfigError, match="each training task shares a scenario with them"):
        split_tasks(settings, settings.tasks)
    plain = {"env": {"name": "python_tool", "tasks": settings.tasks, "held_out": 0}}
    with pytest.raises(ConfigError, match=r"nothing to evaluate on\..*name files"):
        require(parse_config(plain, "here"), "training")
    require(parse_config({**plain, "evaluation": {"files": exams}}, "here"), "training")


def test_what_was_made_of_an_evaluation_task_is_not_trained_on(tmp_path: Path) -> None:
    """Nor is the task itself under another name, nor a variant with a turn of its scenario."""
    made_of = EnvSettings(name="python_tool", tasks=(rows(tmp_path / "a.json", *range(5)),))
    exam, *others, free = original_tasks(made_of)
    own = exam.provenance.scenario
    near = (
        replace(exam, provenance=Provenance("same", "same")),
        replace(others[0], provenance=Provenance("made", "made", (exam.id,))),
        replace(others[1], provenance=Provenance("of_two", "of_two", scenarios=("of_two", own))),
    )
    files = str(tmp_path / "train.jsonl"), str(tmp_path / "exam.jsonl")
    write_tasks(files[0], [*near, others[2], free])
    write_tasks(files[1], [exam])
    settings = EnvSettings(name="python_tool", tasks=files[:1], held_out=0.0)
    assert split_tasks(settings, files[1:]).train == (others[2], free)


def test_a_task_with_turns_of_both_splits_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made_of = EnvSettings(name="python_tool", tasks=(rows(tmp_path / "a.json", *range(5)),))
    *tasks, last = original_tasks(made_of)
    names = [task.provenance.scenario for task in tasks]
    mixed = replace(last, provenance=Provenance("mixed", names[0], scenarios=tuple(names)))
    path = str(tmp_path / "tasks.jsonl")
    write_tasks(path, [*tasks, mixed])
    split = split_tasks(EnvSettings(name="python_tool", tasks=(path,), held_out=0.5))
    assert len(split.train) == len(split.held_out) == 2
    assert "env.tasks: 1 of 5 tasks mix turns of training scenarios" in caplog.text


def test_all_generated_questions_can_be_trained_on() -> None:
    settings = EnvSettings(
        name="python_tool", held_out=0.0, questions=QuestionSettings(count=8, families=("add",))
    )
    split = split_tasks(settings)
    assert (len(split.train), len(split.held_out)) == (8, 0)
