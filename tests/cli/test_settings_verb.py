"""`rods settings`, `rods recipes`, and what a shell completes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from places import SOURCE
from rods.cli import main as program
from rods.cli.evaluate import chosen
from rods.config import SMALL, keys, load_config
from rods.registry import recipe_names
from verbs import rods


def printed(
    *words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """The JSON that a verb prints."""
    assert rods(*words, "--json", monkeypatch=monkeypatch) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_every_setting_is_listed_with_its_values_and_meaning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed("settings", monkeypatch=monkeypatch, capsys=capsys)
    listed = [row["key"].replace("stages.N", "stages.0") for row in rows]
    assert sorted(listed) == keys()
    assert all(row["meaning"] and row["values"] != "any value" for row in rows)
    assert not [row for row in rows if "None" in row["values"] or "str" in row["values"].split()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("train.lr", "train.lr = 1e-06; small: 0.002\n    number, above 0. Peak learning rate"),
        (
            "rollout.tasks-per-step",
            "rollout.tasks_per_step = 32; small: 12\n    whole number, at least 1.",
        ),
        ("train.loss", 'train.loss = "clipped"\n    one of "clipped", "gspo".'),
        ("env.tasks", "env.tasks = []\n    list, each text."),
        ("replay.retire", "replay.retire = [0.2, 0.95]\n    list of 2, each number, at least 0,"),
        ("stages.0.name", "stages.N.name = none\n    text. Unique name"),
        ("model", 'model.name = "tiny"; full: "Qwen/Qwen3-4B-Instruct-2507"\n    text.'),
    ],
)
def test_a_setting_says_default_values_and_meaning(
    name: str, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("settings", name, monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert out.startswith(start)
    assert (f"--{start.split()[0]} VALUE, or in a recipe" in out) is (name != "model")
    assert ("name = VALUE under [[stages]]" in out) is (name == "stages.0.name")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["torl", "envtuning"])
def test_the_values_of_a_recipe_stand_beside_the_defaults(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("settings", "--recipe", recipe)
    rows = {r["key"]: r for r in printed(*words, monkeypatch=monkeypatch, capsys=capsys)}
    config = load_config(recipe, SMALL)
    assert rows["train.lr"]["value"] == [config.train.lr] != [rows["train.lr"]["default"]]
    assert rows["stages.N.reward"]["value"] == [stage.reward for stage in config.stages]
    other = "env.search.corpus"
    assert rows[other]["value"] == [], "a section that this recipe does not read"


@pytest.mark.slow
def test_all_recipes_are_listed_with_a_profile_for_a_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed("recipes", monkeypatch=monkeypatch, capsys=capsys)
    assert [row["name"] for row in rows] == recipe_names()
    for row in rows:
        config = load_config(row["name"], row["cpu_profile"])
        assert config.model.name.startswith("tiny") and row["profiles"][-1] == "full"
        assert row["teaches"] and row["commands"][0].startswith("rods train")
    assert rods("recipes", monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert all(any(line.split()[:1] == [name] for line in lines) for name in recipe_names())


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_shows_claim_and_commands(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed("recipes", name, monkeypatch=monkeypatch, capsys=capsys)
    assert rods("recipes", name, monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert "## Claim" in out and "## Curve" not in out
    assert found["commands"] and all(command in out for command in found["commands"][:1])
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert rods("recipes", name, monkeypatch=monkeypatch) == 0
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    prose = [line for line in shown.splitlines() if not line.startswith("    ")]
    assert "Claim" in shown and not [line for line in prose if "##" in line or "`" in line]
    assert all(f"    {command}" in shown for command in found["commands"][:1])
    files = re.findall(r"rods/[\w/.]+\.py", found["page"])
    assert files and all((SOURCE.parent / file).is_file() for file in files)
    assert f"Folder of this recipe: {SOURCE / 'recipes' / name}" in out
    for text in (out, shown, found["page"]):
        for mark in ("<!--", "-->", "](", "![", "../", "[how]", "(how)"):
            assert mark not in text, mark


COMPLETED = {
    "rods tr": {"train", "trl"},
    "rods train --recipe to": {"torl", "toolrl", "tool_n1"} - {"tool_n1"} | {"tool_n1"},
    "rods train --recipe torl --profile sm": {"small", "smollm2"},
    "rods train --train.filtering.": {k for k in (f"--{k}" for k in keys()) if "filtering" in k},
    "rods sft --resu": {"--resume"},
}


def completed(instruction: str, line: str = "rods") -> str:
    """What a shell gets from the program; torch must not be imported for it."""
    code = "import sys; from rods.cli.main import main\ntry: main()\n"
    code += "finally: assert 'torch' not in sys.modules"
    asked = {"_RODS_COMPLETE": instruction, "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(len(line.split()) - 1)
    words, variables = [sys.executable, "-c", code], {**os.environ, **asked}
    made = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    assert not made.stderr
    return made.stdout


@pytest.mark.slow
@pytest.mark.parametrize("line", COMPLETED)
def test_a_shell_completes_verbs_options_settings_and_recipes(line: str) -> None:
    assert set(completed("complete_bash", line).split()) == COMPLETED[line]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str) -> None:
    assert f"_RODS_COMPLETE=complete_{shell}" in completed(f"source_{shell}")


@pytest.mark.slow
@pytest.mark.parametrize("verb", program._VERBS)
def test_help_has_no_types_of_python(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(verb, "--help", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert not [w for w in ("<str", "<int", "<float", "<list", "Path", "/--no-") if w in out]


@pytest.mark.parametrize(
    ("verb", "default"),
    [
        *((verb, "small; if you name a model: full") for verb in ("train", "trl", "verl")),
        *((verb, "small; a run or checkpoint keeps its own settings") for verb in ("eval", "chat")),
        *((verb, "small") for verb in ("synth", "inspect")),
        ("demonstrate", "full"),
        ("settings", "both; with --recipe: small"),
    ],
)
def test_each_help_states_its_own_default_profile(
    verb: str, default: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(verb, "--help", monkeypatch=monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"another of the recipe. [default: {default}]" in shown
    if verb in ("eval", "chat"):  # the row of a model's name has no other profile
        command = SimpleNamespace(params=[])
        context = SimpleNamespace(args=[], command=command, get_parameter_source=lambda _: None)
        config, run = chosen(cast("Any", context), "rods", "small", ("a/b", ""), {})
        assert run is None and config.rollout == load_config("rods", "small").rollout
