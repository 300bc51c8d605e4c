"""A dialect that cannot write a call that a task wants is refused before anything is sampled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rods.assemble.refusals import require_writable, writers_of
from rods.config import load_config
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import ConfigError
from rods.task import Task, Turn
from rods.types import ToolCall
from verbs import rods

HYPHENS = ToolCall("get-weather", {"city": "Oslo"})
ARGUMENT = ToolCall("weather", {"city-name": "Oslo"})


def wanting(*calls: ToolCall) -> Task:
    return Task("notes", "base", (Turn("Rain?", calls),), {})


@pytest.mark.parametrize("call", [HYPHENS, ARGUMENT])
@pytest.mark.parametrize("dialect", ["pythonic", "compact"])
def test_the_call_and_dialects_that_write_it_are_named(dialect: str, call: ToolCall) -> None:
    config = load_config("rods", "small", [f"model.dialect={dialect}"])
    with pytest.raises(ConfigError) as error:
        require_writable(config, [wanting(ToolCall("ls")), wanting(call)])
    for part in (f'model.dialect = "{dialect}" cannot write calls such as {call.name}(', "hermes"):
        assert part in str(error.value)
    able = str(error.value).partition("Take one of ")[2]
    assert "pythonic" not in able and "compact" not in able and "torl" not in able


@pytest.mark.parametrize("dialect", ["hermes", "xml", "llama", "toolrl", "torl"])
def test_other_dialects_may_train_on_it(dialect: str) -> None:
    config = load_config("rods", "small", [f"model.dialect={dialect}"])
    require_writable(config, [wanting(HYPHENS), wanting(ARGUMENT)])


def test_every_dialect_writes_the_names_of_the_benchmark() -> None:
    assert {n for _, _, unable in writers_of(load_tasks()[::20]) for n in unable} == set()


def test_check_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"name": "get-weather", "description": "It.", "parameters": schema}]
    rows = [
        {"query": f"Rain in {city}?", "tools": tools, "answers": [call]}
        for city in ("Oslo", "Rome", "Bonn", "Bern", "Ulm", "Graz", "Linz", "Lyon")
        for call in [{"name": "get-weather", "arguments": {"city": city}}]
    ]
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("check", "--env.name", "function_call", "--env.tasks", "x.jsonl")
    rods(*words, monkeypatch=monkeypatch)
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("note: pythonic, compact cannot write get-weather(city='')") == 1
