"""The same rows as JSON lines and as Parquet in every layout that `datasets` gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow
import pyarrow.parquet
import pytest

from rods.cli.structure import read_rows
from rods.config import BoundarySettings
from rods.envs.bfcl.files import load_entries
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.function_call.environment import FunctionCallEnvironment
from rods.envs.questions.files import load_question_tasks
from rods.envs.repo.swe import load_rows
from rods.errors import RodsError, StoreError, TaskError
from rods.infra.files import table_rows
from rods.infra.rows import file_rows
from rods.integrations.formats.logged import LogFormat, read_rewards
from rods.integrations.observe import observe
from rods.task import Task, Turn, read_tasks
from rods.trainers.examples import read_examples
from rods.trajectory_codec import from_json, read_parquet, to_json, write_parquet
from rods.types import Message, ToolCall
from rollout_cases import TEMPLATE, play, script
from verbs import rods
from worlds import notes_task

Row = dict[str, Any]
NESTED = (dict, list)


# -- layouts ---------------------------------------------------------------------------------------


def structs(rows: Sequence[Row]) -> Any:
    """Nested structs and lists of them: every struct has the fields of all rows."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    return pyarrow.table({n: pyarrow.array([row.get(n) for row in rows]) for n in names})


def texts(rows: Sequence[Row]) -> Any:
    """Nested columns as JSON text."""
    return structs(
        [{k: json.dumps(v) if isinstance(v, NESTED) else v for k, v in row.items()} for row in rows]
    )


def listed_texts(rows: Sequence[Row]) -> Any:
    """Lists of objects as lists of JSON texts, and objects as texts."""

    def told(value: Any) -> Any:
        if isinstance(value, list):
            return [json.dumps(item) if isinstance(item, dict) else item for item in value]
        return json.dumps(value) if isinstance(value, dict) else value

    return structs([{k: told(v) for k, v in row.items()} for row in rows])


def typed_json(rows: Sequence[Row]) -> Any:
    """Arrow's type for JSON, which `datasets` takes where rows differ; scalars in it are JSON."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    columns: Row = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, NESTED) for value in values):
            told = pyarrow.array([None if v is None else json.dumps(v) for v in values])
            kind = pyarrow.json_(pyarrow.string())
            columns[name] = pyarrow.ExtensionArray.from_storage(kind, told)
        else:
            columns[name] = pyarrow.array(values)
    return pyarrow.table(columns)


def maps(rows: Sequence[Row]) -> Any:
    """Objects whose values are of one kind as maps, wherever they stand."""
    table = structs(rows)
    fields = [pyarrow.field(field.name, _mapped(field.type)) for field in table.schema]
    made = [{f.name: _pairs(row.get(f.name), f.type) for f in fields} for row in rows]
    return pyarrow.Table.from_pylist(made, pyarrow.schema(fields))


def _mapped(kind: Any) -> Any:
    types = pyarrow.types
    if types.is_list(kind):
        return pyarrow.list_(_mapped(kind.value_type))
    if not types.is_struct(kind):
        return kind
    inner = [_mapped(field.type) for field in kind]
    if all(one == inner[0] for one in inner) and "role" not in {f.name for f in kind}:
        return pyarrow.map_(pyarrow.string(), inner[0])
    return pyarrow.struct([(f.name, one) for f, one in zip(kind, inner, strict=True)])


def _pairs(value: Any, kind: Any) -> Any:
    types = pyarrow.types
    if value is None:
        return None
    if types.is_map(kind):
        return [(key, _pairs(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {f.name: _pairs(value.get(f.name), f.type) for f in kind}
    return [_pairs(item, kind.value_type) for item in value] if types.is_list(kind) else value


DATA = ("arguments", "world")
"""Objects of the user's, in which a list of objects stays one."""


def sequences(rows: Sequence[Row], data: Sequence[str] = DATA) -> Any:
    """Lists of objects as objects of lists, as `datasets` keeps a `Sequence` of objects."""
    table = structs(rows)
    fields = [pyarrow.field(f.name, _in_columns(f.name, f.type, data)) for f in table.schema]
    made = [{f.name: _columns(row.get(f.name), f.type) for f in fields} for row in rows]
    return pyarrow.Table.from_pylist(made, pyarrow.schema(fields))


def noted_sequences(rows: Sequence[Row]) -> Any:
    """The same for the user's objects, too, with the note that `datasets` below 4 makes of it."""
    features = {field.name: _feature(field.type) for field in structs(rows).schema}
    note = json.dumps({"info": {"features": features}})
    return sequences(rows, ()).replace_schema_metadata({"huggingface": note})


def _feature(kind: Any) -> Any:
    types = pyarrow.types
    if types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "Sequence"}
    if types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": str(kind), "_type": "Value"}


def _in_columns(name: str, kind: Any, data: Sequence[str]) -> Any:
    types = pyarrow.types
    if name in data:
        return kind
    if types.is_list(kind) and types.is_struct(kind.value_type):
        inner = [
            (f.name, pyarrow.list_(_in_columns(f.name, f.type, data))) for f in kind.value_type
        ]
        return pyarrow.struct(inner)
    if types.is_list(kind):
        return pyarrow.list_(_in_columns(name, kind.value_type, data))
    if types.is_struct(kind):
        return pyarrow.struct([(f.name, _in_columns(f.name, f.type, data)) for f in kind])
    return kind


def _columns(value: Any, kind: Any) -> Any:
    types = pyarrow.types
    if types.is_struct(kind) and isinstance(value, list):
        return {f.name: [_columns(v.get(f.name), f.type.value_type) for v in value] for f in kind}
    if types.is_struct(kind) and value is not None:
        return {f.name: _columns(value.get(f.name), f.type) for f in kind}
    if types.is_list(kind) and value is not None:
        return [_columns(item, kind.value_type) for item in value]
    return value


def maps_of_texts(rows: Sequence[Row]) -> Any:
    """Objects as maps whose values are texts: those that are none as JSON."""

    def as_text(value: Any) -> Any:
        if isinstance(value, dict):
            return [(k, v if isinstance(v, str) else json.dumps(v)) for k, v in value.items()]
        return [as_text(item) for item in value] if isinstance(value, list) else value

    columns: Row = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        kind = pyarrow.map_(pyarrow.string(), pyarrow.string())
        if any(isinstance(v, list) and v and isinstance(v[0], dict) for v in values):
            kind = pyarrow.list_(kind)
        elif not any(isinstance(value, dict) for value in values):
            kind = None
        columns[name] = pyarrow.array([as_text(value) for value in values], kind)
    return pyarrow.table(columns)


def other_types(rows: Sequence[Row]) -> Any:
    """Texts as categories and large lists, as other programs write them."""
    table = structs(rows)
    fields = [pyarrow.field(field.name, _other(field.type)) for field in table.schema]
    return pyarrow.Table.from_pylist(table.to_pylist(), pyarrow.schema(fields))


def _other(kind: Any) -> Any:
    types = pyarrow.types
    if types.is_struct(kind):
        return pyarrow.struct([(field.name, _other(field.type)) for field in kind])
    if types.is_list(kind):
        return pyarrow.large_list(_other(kind.value_type))
    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) if types.is_string(kind) else kind


LAYOUTS: dict[str, Callable[[Sequence[Row]], Any]] = {
    "structs": structs,
    "sequences": sequences,
    "noted sequences": noted_sequences,
    "texts": texts,
    "lists of texts": listed_texts,
    "typed json": typed_json,
    "maps": maps,
    "other types": other_types,
}


# -- readers and rows ------------------------------------------------------------------------------

WEATHER = {
    "name": "weather",
    "description": "It.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
}
SAY = {
    "name": "say",
    "description": "Words.",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "enum": ["a", "b"]}},
        "required": ["text"],
    },
}
OSLO = {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}
SAID = {"name": "say", "arguments": {"text": "a"}}
XLAM: list[Row] = [
    {"id": 1, "query": "Rain?", "tools": [WEATHER], "answers": [OSLO]},
    {"id": 2, "query": "Say.", "tools": [WEATHER, SAY], "answers": [SAID, OSLO]},
]
N1: list[Row] = [
    {
        "tools": row["tools"],
        "answer": row["answers"],
        "conversations": [
            {"from": "human", "value": "First."},
            {"from": "function_call", "value": json.dumps(OSLO)},
            {"from": "observation", "value": "rain"},
            {"from": "human", "value": row["query"]},
        ],
    }
    for row in XLAM
]
NQ: list[Row] = [
    {"id": "a", "question": "Who?", "golden_answers": ["Ann", "Ann B."], "metadata": {"x": 1}},
    {"id": "b", "question": "Where?", "golden_answers": ["Oslo"], "metadata": {"y": [2]}},
]
SEARCH_R1: list[Row] = [
    {
        "data_source": "nq",
        "prompt": [{"role": "user", "content": row["question"]}],
        "reward_model": {"style": "rule", "ground_truth": {"target": row["golden_answers"]}},
        "extra_info": {"index": index, "split": "train"},
    }
    for index, row in enumerate(NQ)
]
DAPO: list[Row] = [
    {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": f"{n} + 1?"}],
        "reward_model": {"style": "rule", "ground_truth": str(n + 1)},
    }
    for n in range(3)
]
ORZ: list[Row] = [
    {
        "0": {"from": "human", "value": f"{n} + 1?"},
        "1": {"from": "assistant", "ground_truth": {"value": str(n + 1)}},
    }
    for n in range(3)
]


def _tasks() -> list[Row]:
    add, note = ToolCall("add", {"amount": 2}), ToolCall("note", {"text": "x", "tag": "t"})
    said = (Message("user", "Hi."), Message("assistant", "", (note,)), Message("tool", "ok"))
    talked = Task("notes", "base", (Turn("go on", (add,)),), {"count": 1}, dialogue=said)
    plain = notes_task([("add two", [add]), ("note", [note])], withheld={0: ("note",)})
    deep = ToolCall("note", {"text": "x", "tag": "t", "more": [{"a": 1}, {"b": {"c": "d"}}]})
    # `Dataset.from_list` keeps the columns of the first row alone.
    return cast("list[Row]", [t.to_json() for t in (talked, plain, notes_task([("u", [deep])]))])


def _steps() -> list[Row]:
    task = notes_task([("u", [])])
    texts = [
        "[note(text='x')]",
        "[add(amount=2)]",
        "nothing",
        "[add(amount=3), divide(by=0)]",
        "ok",
    ]
    rows: list[Any] = [to_json(play(task, script(text, "done", "done"))) for text in texts]
    return [{**row, "seconds": 0.5} for row in rows]  # `datasets` reads fewer digits


TASKS, STEPS = _tasks(), _steps()


def tuning() -> list[Row]:
    """Rows of Environment Tuning; the configurations of worlds differ."""
    made: list[Row] = []
    for task in load_tasks()[:3]:
        truth = [[str(call) for call in turn.ground_truth] for turn in task.turns]
        kwargs = {
            "id": task.provenance.origin,
            "involved_classes": task.world["classes"],
            "question": [[{"role": "user", "content": turn.user}] for turn in task.turns],
            "initial_config": json.dumps(task.world["initial_config"]),
            "ground_truth": truth,
        }
        made.append({"data_source": "x", "extra_info": {"interaction_kwargs": kwargs}})
    return made


def carrying() -> list[Row]:
    return [
        {"prompt": "x", "extra_info": {"index": n, "task": json.dumps(row)}}
        for n, row in enumerate(TASKS)
    ]


TRL: list[Row] = [
    {
        "step": 1,
        "prompt": [{"role": "user", "content": text}],
        "completion": [{"role": "assistant", "content": "c", "tool_calls": [OSLO]}],
        "solved": reward,
        "advantage": 0.0,
    }
    for text, reward in (("one", 1.0), ("one", None), ("one", 0.0), ("two", None), ("two", 1.0))
]
VERL: list[Row] = [
    {"input": f"p{n // 2}", "output": "o", "score": n % 2, "step": 1, "more": {"a": n}}
    for n in range(4)
]
GROUPS: list[Row] = [{"task_id": "a", "rewards": [1.0, 0.0, None]}, {"task_id": "b", "rewards": []}]
TOOLACE: list[Row] = [
    {
        "system": f"The functions in JSON format:\n{json.dumps([WEATHER, SAY])}.\nGo.",
        "conversations": [
            {"from": "user", "value": f"Rain {n}?"},
            {"from": "assistant", "value": '[weather(city="Oslo", days=2)]'},
            {"from": "tool", "value": '[{"name": "weather", "results": {}}]'},
            {"from": "user", "value": "Say."},
            {"from": "assistant", "value": '[say(text="a")]'},
        ],
    }
    for n in range(2)
]
DEEPMATH: list[Row] = [
    {"question": f"{n} + 1?", "final_answer": str(n + 1), "difficulty": 3.0} for n in range(2)
]
TARGETS: list[Row] = [
    {"problem": f"{n} + 1?", "answer": {"target": [str(n + 1)]}} for n in range(2)
]
MESSAGES: list[Row] = [
    {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "Rain?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": call} for call in said],
            },
            *({"role": "tool", "content": f"r{n}"} for n in range(len(said))),
            {"role": "assistant", "content": "Yes."},
        ],
        "tools": [{"type": "function", "function": tool} for tool in (WEATHER, SAY)],
    }
    for said in ([OSLO], [SAID, OSLO])
]
PIECES: list[Row] = [
    {"task_id": "a", "pieces": [["What?", False], ["It.", True]]},
    {"task_id": "b", "pieces": [["Q", False], ["A", True], ["r", False], ["B", True]]},
]
SWE: list[Row] = [
    {
        "instance_id": f"a__b-{n}",
        "repo": "a/b",
        "problem_statement": "It fails.",
        "test_patch": "+++ b/t.py",
        "FAIL_TO_PASS": ["t.py::a", f"t.py::{n}"],
        "PASS_TO_PASS": [],
    }
    for n in range(2)
]


def calls(path: Path) -> list[Any]:
    return [task.to_json() for task in FunctionCallEnvironment().load(path)]


def questions(path: Path) -> list[Any]:
    return [task.to_json() for task in load_question_tasks(path, "search")]


def ours(path: Path) -> list[Any]:
    return [task.to_json() for task in read_tasks(path)]


def bfcl(path: Path) -> list[Any]:
    return [task.to_json() for task in load_entries(path)]


def trajectories(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return [from_json(json.loads(line)) for line in path.read_text().splitlines()]
    return list(read_parquet(path))


def observed(path: Path) -> list[Any]:
    found = observe(read_rewards(path), BoundarySettings())
    return [row._replace(where="") for row in found]


def swe(path: Path) -> list[Any]:
    return [task.to_json() for task in load_rows(path, "repo")]


def supervised(path: Path) -> list[Any]:
    found = read_examples([path], TEMPLATE, vocabulary=10_000, most=10_000)
    return [(sample.ids.tolist(), sample.mask.tolist()) for sample in found.samples]


READERS: dict[str, tuple[Callable[[Path], list[Any]], Callable[[], list[Row]]]] = {
    "xlam": (calls, lambda: XLAM),
    "tool_n1": (calls, lambda: N1),
    "tasks as steps": (ours, lambda: TASKS),
    "nq": (questions, lambda: NQ),
    "search_r1": (questions, lambda: SEARCH_R1),
    "dapo": (questions, lambda: DAPO),
    "orz": (questions, lambda: ORZ),
    "tasks as questions": (questions, lambda: TASKS),
    "tasks": (ours, lambda: TASKS),
    "carried tasks": (ours, carrying),
    "tasks of bfcl": (bfcl, lambda: TASKS),
    "environment tuning": (bfcl, tuning),
    "trajectories": (trajectories, lambda: STEPS),
    "completions of trl": (observed, lambda: TRL),
    "trajectories observed": (observed, lambda: STEPS),
    "log of verl": (observed, lambda: VERL),
    "rewards of groups": (observed, lambda: GROUPS),
    "swe": (swe, lambda: SWE),
    "toolace": (calls, lambda: TOOLACE),
    "deepmath": (questions, lambda: DEEPMATH),
    "targets": (questions, lambda: TARGETS),
    "messages": (supervised, lambda: MESSAGES),
    "pieces": (supervised, lambda: PIECES),
}
ALONE = {"pieces": ("texts", "typed json")}
"""Layouts of rows that others cannot hold: Arrow has no list of texts and booleans."""
CASES = [(name, layout) for name in READERS for layout in ALONE.get(name, LAYOUTS)]


def lines(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layout"), CASES)
def test_the_same_comes_out_of_every_layout(name: str, layout: str, tmp_path: Path) -> None:
    read, made = READERS[name]
    rows = made()
    expected = read(lines(tmp_path / "rows.jsonl", rows))
    assert expected
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(LAYOUTS[layout](rows), path)
    # The name is part of a task's origin, not of what is asked.
    assert read(path) == expected


NO_TEXTS = ("pieces", "targets")
"""Arrow has no list of texts and booleans; a text in `target` is itself the answer."""


@pytest.mark.parametrize("name", [name for name in READERS if name not in NO_TEXTS])
def test_maps_of_texts_give_the_same_or_an_error_with_its_row(name: str, tmp_path: Path) -> None:
    read, made = READERS[name]
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(maps_of_texts(made()), path)
    try:
        found = read(path)
    except RodsError as error:
        assert re.search(r"rows\.parquet, row \d+: ", str(error))
    else:
        assert found == read(lines(tmp_path / "rows.jsonl", made()))


@pytest.mark.parametrize(
    ("read", "row", "said"),
    [
        (calls, {**XLAM[0], "tools": {"name": ["a", "b"], "description": ["d"]}}, "tools is an"),
        (ours, {**TASKS[1], "turns": {"user": ["u", "v"], "ground_truth": [[]]}}, "turns is an"),
        (questions, {"prompt": {"role": ["user"], "content": []}, "answer": "1"}, "question is an"),
        (supervised, {"messages": {"role": ["user"], "content": []}}, "messages is an"),
    ],
    ids=["tools", "turns", "question", "messages"],
)
def test_an_object_of_lists_that_differ_in_length_is_named(
    read: Callable[[Path], Any], row: Row, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(structs([row]), path)
    with pytest.raises(RodsError, match=f"row 1: .*{said} object of lists that differ in length"):
        read(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**MESSAGES[0], "messages": ["hi"]}, "an entry of messages is 'hi', expected an object"),
        ({**MESSAGES[0], "tools": ["hi"]}, "an entry of tools is 'hi', expected an object"),
        ({"pieces": ["hi"]}, "an entry of pieces is 'hi', expected a list"),
        (
            TASKS[0],
            "this is a task, not a solved conversation. Make these first: `rods demonstrate",
        ),
        (STEPS[0], "expected either `pieces` or `messages`; trajectories only as Parquet"),
    ],
    ids=["messages", "tools", "pieces", "task", "trajectory"],
)
def test_a_demonstration_of_another_kind_is_named(row: Row, said: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"x\.jsonl:1: .*{said}"):
        supervised(lines(tmp_path / "x.jsonl", [row]))


def test_numbers_of_a_trajectory_may_be_json_text(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    expected = [from_json(row) for row in STEPS]
    write_parquet(path, expected)
    rows = [row for _, row in table_rows(path, "x", StoreError)]
    pyarrow.parquet.write_table(texts(rows), path)
    assert list(read_parquet(path)) == expected
    rows = [{**STEPS[0], "spans": [{"ids": [1, 2], "logprobs": [0.5], "version": 0}]}]
    pyarrow.parquet.write_table(structs(rows), path)
    with pytest.raises(StoreError, match=r"x\.parquet, row 1: .*2 sampled ids came with 1 log"):
        list(read_parquet(path))


def arrow_file(path: Path, table: Any) -> None:
    """As `datasets` saves: Arrow's stream, in batches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pyarrow.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=1)


def parquet_file(path: Path, table: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)


def save_to_disk(folder: Path, rows: Sequence[Row]) -> Path:
    """A `Dataset` in two files, beside what `map` left in the folder later."""
    table = structs(rows)
    for number, part in enumerate((table.slice(0, 1), table.slice(1))):
        arrow_file(folder / f"data-{number:05d}-of-00002.arrow", part)
    arrow_file(folder / "cache-0a1b2c.arrow", pyarrow.table({"other": [1]}))
    (folder / "state.json").write_text('{"_data_files": []}')
    (folder / "dataset_info.json").write_text("{}")
    return folder


def saved_splits(folder: Path, rows: Sequence[Row]) -> Path:
    """A `DatasetDict`."""
    save_to_disk(folder / "train", rows)
    arrow_file(folder / "test" / "data-00000-of-00001.arrow", pyarrow.table({"other": [1]}))
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return folder


def of_hub(folder: Path, rows: Sequence[Row]) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("---\nconfigs: []\n---\n")
    parquet_file(folder / "data" / "train-00000-of-00001.parquet", structs(rows))
    parquet_file(folder / "data" / "validation-00000-of-00001.parquet", pyarrow.table({"o": [1]}))
    return folder


def of_lines(folder: Path, rows: Sequence[Row]) -> Path:
    (folder / "train").mkdir(parents=True)
    lines(folder / "train" / "part-1.jsonl", rows[:1])
    lines(folder / "train" / "part-2.jsonl", rows[1:])
    lines(folder / "test.jsonl", [{"other": 1}])
    return folder


def named_split(folder: Path, rows: Sequence[Row]) -> Path:
    parquet_file(folder / "data" / "sft-00000-of-00001.parquet", structs(rows))
    parquet_file(folder / "data" / "rl-00000-of-00001.parquet", pyarrow.table({"o": [1]}))
    return folder.with_name(f"{folder.name}:sft")


FOLDERS = (save_to_disk, saved_splits, of_hub, of_lines, named_split)
NOT_FOLDERS = ("trajectories", "pieces", "environment tuning", "rewards of groups")
"""Files of a run, rows that Arrow cannot hold as they are, rows that differ, and a single row."""
READ_FOLDERS = [name for name in READERS if name not in NOT_FOLDERS]


@pytest.mark.parametrize("lay_out", FOLDERS)
@pytest.mark.parametrize("name", READ_FOLDERS)
def test_a_data_set_in_a_folder_is_read_as_its_rows(
    name: str, lay_out: Callable[[Path, Sequence[Row]], Path], tmp_path: Path
) -> None:
    read, made = READERS[name]
    rows = made()
    folder = lay_out(tmp_path / "rows", rows)
    assert read(folder) == read(lines(tmp_path / f"{folder.name}.jsonl", rows))


WAYS = [(name, way) for name in READERS for way in ("from_list", "load_dataset")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), [w for w in WAYS if w != ("pieces", "from_list")])
def test_what_datasets_itself_writes_is_read(name: str, way: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    read, made = READERS[name]
    rows = made()
    file = lines(tmp_path / "rows.jsonl", rows)
    if way == "from_list":
        data = datasets.Dataset.from_list(rows)
    else:
        data = datasets.load_dataset("json", data_files=str(file), cache_dir=str(tmp_path))["train"]
    data.to_parquet(tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet") == read(file)
    if name in READ_FOLDERS:
        folder = tmp_path / "saved" / "rows"
        datasets.DatasetDict({"train": data, "test": data}).save_to_disk(str(folder))
        assert read(folder) == read(file)
        assert len(read(folder.with_name("rows:test"))) == len(read(file))


def test_fields_that_no_row_had_vanish_and_nulls_of_maps_and_json_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    rows = [{"a": {"x": 1, "y": None}}, {"a": {"z": [{"u": 1}, {"v": None}, None]}}, {"a": None}]
    for layout, expected in (
        (structs, [{"x": 1}, {"z": [{"u": 1}, {}, None]}, None]),
        (typed_json, [row["a"] for row in rows]),
    ):
        pyarrow.parquet.write_table(layout(rows), path)
        assert [row["a"] for _, row in table_rows(path, "x", TaskError)] == expected
    kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    table = pyarrow.table({"a": pyarrow.array([[("x", 1), ("y", None)]], kind)})
    pyarrow.parquet.write_table(table, path)
    assert [row["a"] for _, row in table_rows(path, "x", TaskError)] == [{"x": 1, "y": None}]


UNSAYABLE = {
    "timestamp": datetime(2024, 5, 1),
    "decimal128": Decimal("1.5"),
    "binary": b"x",
}


@pytest.mark.parametrize("kind", UNSAYABLE)
def test_what_json_cannot_say_is_named_by_file_row_and_column(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    answer = {"name": "say", "arguments": {"text": UNSAYABLE[kind]}}
    rows: list[Row] = [*XLAM, {"query": "q", "tools": [SAY], "answers": [answer]}]
    rows[:2] = [{**row, "answers": []} for row in XLAM]
    pyarrow.parquet.write_table(structs(rows), path)
    said = rf"x\.parquet, row 3, column answers: holds a value of type {kind}.*Store the column as"
    with pytest.raises(TaskError, match=said):
        calls(path)
    log = [{"task_id": "a", "reward": n, "when": UNSAYABLE[kind]} for n in (0, 1)]
    pyarrow.parquet.write_table(structs(log), path)
    assert len(read_rewards(path)) == 2, "columns that nobody reads may hold anything"


BROKEN: list[tuple[Callable[[Path], Any], Row, str]] = [
    (ours, {**TASKS[1], "turns": "[{"}, "turns is a text, but not of JSON"),
    (ours, {**TASKS[1], "world": '{"a"'}, "world is a text, but not of JSON"),
    (ours, {**TASKS[0], "dialogue": "[{"}, "dialogue is a text, but not of JSON"),
    (calls, {**XLAM[0], "tools": "[{"}, "tools is a text, but not of JSON"),
    (calls, {**XLAM[0], "answers": "x"}, 'answers must be a list, got "x"'),
    (questions, {**NQ[0], "golden_answers": "[1"}, "golden_answers is a text, but not of JSON"),
    (questions, {**DAPO[0], "reward_model": "{"}, "reward_model is a text, but not of JSON"),
    (bfcl, {"extra_info": '{"interaction_kwargs": {'}, "is not JSON"),
    (swe, {**SWE[0], "problem_statement": None}, "problem_statement: expected a text, got None"),
]


@pytest.mark.parametrize(("read", "row", "said"), BROKEN, ids=[case[2] for case in BROKEN])
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_text_that_is_no_json_is_named(
    read: Callable[[Path], Any], row: Row, said: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"x{ending}"
    if ending == ".parquet":
        pyarrow.parquet.write_table(structs([row]), path)
    else:
        lines(path, [row])
    with pytest.raises(RodsError, match=rf"x{ending}(:|, row )1.*{said}"):
        read(path)


def test_a_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    raw = pyarrow.array([b"ok", b"a\xed\xa0\x80"], pyarrow.binary())
    column = pyarrow.StringArray.from_buffers(2, *raw.buffers()[1:])
    pyarrow.parquet.write_table(pyarrow.table({"question": column, "answer": ["1", "2"]}), path)
    with pytest.raises(TaskError, match=r"x\.parquet, after row 0: a text is not UTF-8"):
        questions(path)
    with pytest.raises(StoreError, match="not UTF-8"):
        list(read_parquet(path))


# -- half characters in files ----------------------------------------------------------------------

HALF = r'"a\ud800"'
HALVES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "tasks": (ours, json.dumps(TASKS[1]).replace('"add two"', HALF)),
    "tasks of bfcl": (bfcl, json.dumps(TASKS[1]).replace('"add two"', HALF)),
    "questions": (questions, json.dumps(NQ[0]).replace('"Who?"', HALF)),
    "answers": (questions, json.dumps(NQ[0]).replace('"Ann B."', HALF)),
    "calls": (calls, json.dumps(XLAM[0]).replace('"Rain?"', HALF)),
    "calls in text": (calls, json.dumps({**XLAM[0], "answers": json.dumps([OSLO])})),
    "observed": (read_rewards, f'{{"task_id": {HALF}, "reward": 1}}'),
}


@pytest.mark.parametrize("name", HALVES)
def test_half_a_character_in_a_file_is_named_with_its_row(name: str, tmp_path: Path) -> None:
    read, line = HALVES[name]
    line = line.replace('\\"Oslo\\"', '\\"a\\\\ud800\\"')
    (tmp_path / "x.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"x\.jsonl(:|, row )1: half a character"):
        read(tmp_path / "x.jsonl")


HALF_TEXT = r'{"name": "a\ud800", "origin": "a\ud800"}'
DEEP_TEXT = '{"a":' * 5000 + "1" + "}" * 5000
STRUCTURED: dict[str, tuple[Callable[[Path], Any], Row, tuple[str | int, ...]]] = {
    "world": (ours, TASKS[1], ("world",)),
    "arguments": (ours, TASKS[1], ("turns", 0, "ground_truth", 0, "arguments")),
    "provenance of bfcl": (bfcl, TASKS[1], ("provenance",)),
    "task": (ours, {"task": ""}, ("task",)),
    "extra_info.task": (ours, {"extra_info": {"task": ""}}, ("extra_info", "task")),
    "initial_config": (bfcl, {}, ("extra_info", "interaction_kwargs", "initial_config")),
    "FAIL_TO_PASS": (swe, SWE[0], ("FAIL_TO_PASS",)),
    "golden_answers": (questions, NQ[0], ("golden_answers",)),
}


def _put(value: Any, path: Sequence[str | int], new: str) -> Any:
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = _put(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("fault", ["half a character", "too deep"])
def test_json_in_a_text_is_as_bounded_as_json(
    fault: str, name: str, ending: str, tmp_path: Path
) -> None:
    read, row, path = STRUCTURED[name]
    text = DEEP_TEXT if fault == "too deep" else HALF_TEXT
    if name in ("FAIL_TO_PASS", "golden_answers") and fault != "too deep":
        text = r'["a\ud800"]'
    if name.endswith("task") and fault != "too deep":
        text = json.dumps({**TASKS[1], "world": HALF_TEXT})
    file = tmp_path / f"x{ending}"
    broken = [_put(row or tuning()[0], path, text)]
    if ending == ".parquet":
        pyarrow.parquet.write_table(texts(broken), file)
    else:
        lines(file, broken)
    with pytest.raises(RodsError, match=rf"x{ending}(:|, row )1"):
        read(file)


@pytest.mark.parametrize("name", ["xlam", "tool_n1", "nq", "dapo", "tasks", "completions of trl"])
def test_a_row_that_is_nested_too_deep_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(DEEP_TEXT + "\n", encoding="utf-8")
    with pytest.raises(RodsError, match=r"x\.jsonl(:|, row )1: not JSON"):
        READERS[name][0](path)
    kind = pyarrow.json_(pyarrow.string())
    column = pyarrow.ExtensionArray.from_storage(kind, pyarrow.array([DEEP_TEXT]))
    pyarrow.parquet.write_table(pyarrow.table({"answer": column}), tmp_path / "x.parquet")
    with pytest.raises(TaskError, match=r"x\.parquet, row 1, column answer: not JSON"):
        questions(tmp_path / "x.parquet")


@pytest.mark.parametrize("read", [ours, bfcl, questions, calls, swe])
def test_empty_lines_before_the_first_task_count_for_nothing(
    read: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    tasks = [{**row, "env": "function_call"} for row in TASKS[1:]] if read is calls else TASKS
    path = lines(tmp_path / "x.jsonl", tasks)
    expected = read(path)
    path.write_text("\ufeff\r\n\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert read(path) == expected
    assert [row.line for row in read_rows(path)] == [*range(3, len(tasks) + 3)]


def test_a_file_that_cannot_be_read_is_named() -> None:
    """It is there, and reading it fails, as without the right to."""
    for read in (ours, questions, observed):
        with pytest.raises(TaskError, match=r"^/proc/self/mem: cannot be read: "):
            read(Path("/proc/self/mem"))


def test_rewards_of_a_group_may_be_json_text(tmp_path: Path) -> None:
    group = [{"task_id": "a", "rewards": [1.0, 0.0, None]}]
    pyarrow.parquet.write_table(texts(group), tmp_path / "x.parquet")
    assert observed(tmp_path / "x.parquet") == observed(lines(tmp_path / "x.jsonl", group))


@pytest.mark.slow
def test_check_and_convert_name_the_row_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text(HALVES["tasks"][1] + "\n", encoding="utf-8")
    for words in (
        ["check", "--tasks", "x.jsonl"],
        ["convert", "--tasks", "x.jsonl", "--out", "y.jsonl"],
    ):
        assert rods(*words, monkeypatch=monkeypatch) == 2
        assert re.search(r"x\.jsonl(:|, row )1: half a character", capsys.readouterr().err)
    assert not Path("y.jsonl").exists()


# -- logs of rewards, names of files ---------------------------------------------------------------


@pytest.mark.parametrize("null", [None, float("nan")])
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_reward_function_that_gave_none_counts_for_nothing_row_by_row(
    null: float | None, ending: str, tmp_path: Path
) -> None:
    def table(name: str, **columns: list[float | None]) -> Path:
        count = len(next(iter(columns.values())))
        rows = [
            {"step": 1, "prompt": f"p{n // 2}", "completion": "c", "advantage": 0.0}
            | {key: values[n] for key, values in columns.items()}
            for n in range(count)
        ]
        path = tmp_path / (name + ending)
        if ending == ".jsonl":
            return lines(path, rows)
        pyarrow.parquet.write_table(structs(rows), path)
        return path

    path = table("one", solved=[null, 1.0, 0.0, null, null, null])
    assert [row.reward for row in read_rewards(path)] == [None, 1.0, 0.0, None, None, None]
    path = table("two", solved=[null, 1.0, 0.0], polite=[1.0, null, null])
    with pytest.raises(TaskError, match=r"several columns may be the reward: .*--reward-key"):
        read_rewards(path)  # not the one that happens to stand in a row
    named = read_rewards(path, LogFormat(reward_key="solved"))
    assert [row.reward for row in named] == [None, 1.0, 0.0]
    path = table("none", solved=[null, null])
    assert [row.reward for row in read_rewards(path)] == [None, None]


@pytest.mark.slow
def test_the_hint_about_a_range_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines(tmp_path / "log.jsonl", [{"task_id": "a", "reward": r} for r in (-1, 1)])
    assert rods("observe", str(path), monkeypatch=monkeypatch) == 2
    assert "such as --range -1,1" in capsys.readouterr().err
    assert rods("observe", str(path), "--range", "-1,1", monkeypatch=monkeypatch) == 0


@pytest.mark.parametrize("name", ["x.dir", "x", "x.jsonl.gz"])
def test_a_table_is_known_by_its_content_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    pyarrow.parquet.write_table(structs(TASKS), path)
    assert ours(path) == bfcl(path) == TASKS
    assert [row.line for row in read_rows(path)] == [1, 2, 3]
    pyarrow.parquet.write_table(structs(XLAM), path)
    assert len(calls(path)) == 2
    pyarrow.parquet.write_table(structs(TRL), path)
    assert len(read_rewards(path)) == 5


def test_json_lines_may_be_called_json(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.json", XLAM)
    assert [row for *_, row in file_rows(path, "steps", TaskError)] == XLAM
    path.write_text(json.dumps(XLAM), encoding="utf-8")
    assert [row for *_, row in file_rows(path, "steps", TaskError)] == XLAM


@pytest.mark.slow
def test_convert_reads_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["convert", "--categories", "base"]
    assert rods(*words, "--format", "verl", "--out", "x.dir", monkeypatch=monkeypatch) == 0
    assert rods("convert", "--tasks", "x.dir", "--out", "y.jsonl", monkeypatch=monkeypatch) == 0
    base = [t.id for t in load_tasks() if t.category == "base"]
    assert [t.id for t in read_tasks(Path("y.jsonl"))] == base


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "x.jsonl"],
        ["check", "--tasks", "x.jsonl"],
        ["inspect", "x.jsonl", "--structure", "--task", "1"],
        ["synth", "--tasks", "x.jsonl", "--out", "v.jsonl"],
        ["convert", "--tasks", "x.jsonl", "--out", "v.jsonl"],
        ["eval", "--env.tasks", "x.jsonl"],
        ["eval", "--evaluation.files", "x.jsonl"],
        ["train", "--env.tasks", "x.jsonl", "--out", "run"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_foreign_tasks_name_the_option_to_give(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for env, how in (
        (
            "notes",
            "--env.name FILE.py:NAME, where it is made, or (not in convert) --recipe FILE.toml.",
        ),
        ("repo", "--env.name repo."),
    ):
        lines(Path("x.jsonl"), [{**row, "env": env} for row in TASKS])
        assert rods(*words, monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert f"has a task of the environment '{env}', but env.name is 'bfcl'. Add {how}" in said


@pytest.mark.slow
def test_prompts_without_ids_are_called_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    rows = [{"input": "What?", "output": "x", "score": s, "step": 1} for s in (0.0, 1.0)]
    lines(Path("logs/1.jsonl"), rows)
    words = ["synth", "--out", "v.jsonl", "--from-trajectories"]
    assert rods(*words, "logs", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "1 prompts have no task id" in said and "--task-key" in said
    assert "not among the seed" not in said
    assert rods(*words, "logs/1.jsonl", monkeypatch=monkeypatch) == 2
    assert "no task's id stands there, only a prompt" in capsys.readouterr().err
