"""What a command line names and is not there is refused before torch is imported, in every verb.

So is everything else for which settings and files of tasks are enough.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rods.cli import common
from rods.errors import RodsError
from rods.trainers.packaged import PACKAGED
from verbs import rods

OWN = "--env.name ./gone.py:desk"
MINE = "--env.name mine/tools.py:bistro --env.held_out 0.5 --synthesis.writer graph"
TINY = f"{MINE} --env.tasks mine/tasks.jsonl --model tiny --profile small"
LINES = {
    **{
        f"{verb} {OWN}": "there is no file"
        for verb in ("train", "train --dry-run", "eval", "chat", "check", "trl", "verl", "inspect")
    },
    f"synth --out v.jsonl {OWN}": "there is no file",
    f"demonstrate --out d.parquet {OWN}": "there is no file",
    "train --env.tasks gone.jsonl": "gone.jsonl: there is no such file of tasks",
    "train --env.tasks gone:test": "gone:test: there is no such file of tasks",
    "eval --env.tasks=gone.jsonl": "gone.jsonl: there is no such file of tasks",
    'chat --evaluation.files ["gone.jsonl"]': "gone.jsonl: there is no such file of tasks",
    **{
        f"{verb} --recipe gone_tasks.toml": "env.tasks: gone.jsonl: there is no such file of tasks"
        for verb in (
            "train",
            "eval",
            "chat",
            "trl",
            "verl",
            "synth --out v.jsonl",
            "train --dry-run",
        )
    },
    "train --recipe gone_tasks.toml --profile own": "held.jsonl: there is no such file of tasks",
    "train --recipe ./nowhere.toml": "nowhere.toml: there is no such file of settings.",
    "eval nope.json": "nope.json: there is no such file, run or folder of a model.",
    "chat nope.toml": "nope.toml: there is no such file, run or folder of a model.",
    "export nope.jsonl --out x": "nope.jsonl: there is no such file, run or folder of a model.",
    "train --model nope.jsonl": "there is no such file nope.jsonl, neither a model nor a run",
    "train --train.filter dapoo": "there is no filter 'dapoo'. Did you mean 'dapo'?",
    "eval tiny --engine.name hff": "there is no engine 'hff'. Did you mean 'hf'?",
    "demonstrate --out d.parquet --engine.name hff": "there is no engine 'hff'.",
    "train --engine.name gone.py:mine": "there is no file",
    "train \u2014seed 3": "argument '\u2014seed': expected --section.key value.",
    "train --env.name bfcll": "there is no environment 'bfcll'. Did you mean 'bfcl'?",
    **{
        f"{verb} hermez": "there is no dialect 'hermez'. Did you mean 'hermes'?"
        for verb in (
            "eval --model.dialect",
            *(
                f"{name} --dialect"
                for name in ("eval", "chat", "train", "trl", "verl", "check --model tiny")
            ),
        )
    },
    "train --stages.0.reward gone.py:mine": "there is no file",
    "train --stages.0.reward progres": "stages.0.reward: there is no reward 'progres'. Did",
    "demonstrate --out d --writer graph,resampel": "no writer 'resampel'. Did you mean 'resample'?",
    "train --writer grap": "there is no writer 'grap'. Did you mean 'graph'?",
    **{
        f"{verb} graph,resample": "To mix two: --writer graph --synthesis.resample.share 0.5."
        for verb in ("train --writer", "synth --out v.jsonl --writer", "trl --synthesis.writer")
    },
    "demonstrate --out d --dialect torl,retool": "there is no dialect 'torl,retool'.",
    **{
        f"{verb} coldd": "model 'coldd': there is no folder coldd, neither a model nor a run yet. "
        "Is the name right? Did you mean 'cold'? `rods sft DATA --out coldd` makes it."
        for verb in (
            "train --model",
            "train --dry-run --model",
            "eval",
            "eval --model",
            "chat",
            "trl --model",
            "check --model",
            "export --out x",
            "sft gone.jsonl --out x --model",
        )
    },
    **{
        f"{verb} --recipe mine/recipe.toml --env.name mine/tools.py:bistro "
        "--env.tasks mine/tasks.jsonl --model.name=gone": "`rods sft DATA --out gone` makes it."
        for verb in ("train", "train --dry-run")
    },
    **{
        f"{verb} ./gone": "there is no"
        for verb in (
            "train --model",
            "eval",
            "chat",
            "eval --model",
            "export --out x",
            "check --model",
        )
    },
    "sft gone.jsonl --model tiny --out x": "gone.jsonl: there is no such file, folder or run",
    "sft gone.parquet --model tiny --out x": "run. `rods demonstrate` writes solved conversations.",
    "sft mine/tasks.jsonl --model tiny --out x": "this is a task, not a solved conversation.",
    "demonstrate --out d.csv --model tiny": "d.csv: expected .parquet, the form of conversations.",
    **{
        f"{verb} {TINY}": "this bundled policy was pretrained with other tools"
        for verb in (
            "train",
            "train --engine.name hf",
            "train --dry-run",
            "trl",
            "verl",
            "chat",
            "eval",
        )
    },
    **{
        f"{verb} {MINE} --env.tasks torn.jsonl": "torn.jsonl"
        for verb in (
            "train",
            "eval",
            "chat",
            "trl",
            "verl",
            "demonstrate --out d.parquet --model a/x",
        )
    },
    f"train {MINE} --env.tasks one.jsonl --model a/x": "you have 1 scenario",
    "trl --profile small --rollout.schedule pipelined": "TRL's GRPOTrainer does not support",
    "verl --profile small --rollout.schedule synchronous": "verl does not support",
    "check --dialect xml": "--dialect has no effect without --model",
    "check --env.name mine/tools.py:bistro --env.tasks torn.jsonl": "torn.jsonl",
}
"""Command lines, and what their refusal says."""
PROGRAM = """
import contextlib, io, json, sys
from rods.cli.main import main
said = {}
for line in json.loads(sys.argv[1]):
    sys.argv, shown = ["rods", *line.split()], io.StringIO()
    with contextlib.redirect_stderr(shown):
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = stop.code
    said[line] = [status, "torch" in sys.modules, shown.getvalue()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, bool, str]]:
    """Status, whether torch is loaded, and the message of each line, in one process."""
    place = tmp_path_factory.mktemp("named")
    (place / "gone_tasks.toml").write_text(
        'env.tasks = ["gone.jsonl"]\n[profile.first]\n[profile.own]\nenv.tasks = ["held.jsonl"]\n'
    )
    subprocess.run([sys.executable, "-m", "rods.cli.main", "init", "mine"], cwd=place, check=True)
    (place / "cold").mkdir()
    (place / "cold" / "adapter_config.json").touch()
    tasks = (place / "mine" / "tasks.jsonl").read_text(encoding="utf-8")
    (place / "one.jsonl").write_text(tasks.partition("\n")[0], encoding="utf-8")
    (place / "torn.jsonl").write_text(tasks[:200], encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, json.dumps([*LINES])]
    found = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize("line", LINES)
def test_what_is_missing_is_refused_without_torch(
    line: str, refusals: dict[str, tuple[int, bool, str]]
) -> None:
    status, torch, said = refusals[line]
    assert (status, torch) == (2, False), said
    assert LINES[line] in said and "asking" not in said


class _ReachedError(RodsError): ...


@pytest.mark.parametrize("verb", ["eval", "chat", "eval --model", "train --model", "check --model"])
@pytest.mark.parametrize(
    ("name", "asked"),
    [("org/model", True), ("tiny", False), (common.PACKAGED, False), ("own", False)],
)
def test_a_hub_is_announced_before_it_is_asked(
    verb: str,
    name: str,
    asked: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def reached(*_: object, **__: object) -> None:
        raise _ReachedError("reached")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "own").mkdir()
    for module in ("evaluate", "train", "check"):
        monkeypatch.setattr(f"rods.cli.{module}.load_config", reached)
    monkeypatch.setattr("rods.cli.check._template", reached)
    assert rods(*verb.split(), name, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert (f"asking the model hub for {name}\n" in said) is asked
    if name != "own" or "--model" in verb:
        assert said.endswith("rods: reached\n")


def test_names_of_packaged_models_are_known_without_torch() -> None:
    assert [*PACKAGED] == [common.PACKAGED]
