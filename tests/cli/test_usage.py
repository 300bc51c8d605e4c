"""Command lines that cannot be meant: the program states the nearest name, or the usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.cli.common import say
from verbs import rods

MEANT = (
    ("convert --out x --format trll", "trl"), ("convert --out x --split trian", "train"),
    ("export x --out y --dtype bf16", "bfloat16"), ("export x --out y --dtype floot32", "float32"),
    ("demonstrate --out x --dialect retol", "retool"), ("eval --suite bfc", "bfcl-multi-turn"),
    ("train --train.algorithm grop", "--train.advantage grpo"),
    ("train --train.loss grop", "--train.advantage grpo"), ("train --train.loss gsop", "gspo"),
    ("train --engine.kind vlm", "--engine.name vllm"), ("train --model.dtype bf16", "bfloat16"),
    ("train --recipe static", "--curriculum static"), ("train --profile torl", "--recipe torl"),
    ("train --curriculum torl", "--recipe torl"), ("train --recipe smollm", "--profile smollm2"),
    ("train --env.name torl", "--recipe torl"), ("train torl", "--recipe torl"),
    ("train static", "--curriculum static"), ("train -lr 3", "--train.lr"),
    ("eval \u2014seed 3", "--seed"), ("train --track wandbb", "wandb"),
    ("settings torl", "--recipe torl"), ("settings recipe", "--recipe"),
    ("settings bfloat16", "model.dtype"), ("settings --rec torl", "--recipe"),
    ("report --jsn", "--json"), ("static", "rods train --curriculum static"),
    ("--recipe torl", "rods train --recipe"), ("experiment bfc", "bfcl"),
)  # fmt: skip
"""Lines with a wrong word, and what is typed for the nearest option, setting or value."""
USAGE = (
    ("report", "RUN is missing (Folder of a run). Expected: `rods report RUN`."),
    ("compare", "Expected: `rods compare RUNS`."), ("init", "Expected: `rods init NAME`."),
    ("observe", "LOG is missing"), ("experiment a b", "argument 'b': expected --section.key"),
    ("export", "RUN_OR_MODEL is missing"), ("convert", "Expected: `rods convert --out <path>`."),
    ("export x", "--out is missing (Folder to write; must be new). Expected: `rods export RUN_OR"),
    ("recipes torl x", "argument x is not expected. Expected: `rods recipes [NAME]`."),
    ("settings a b", "argument b is not expected. Expected: `rods settings [NAME]`."),
    ("doctor x", "argument x is not expected. Expected: `rods doctor`."),
    ("doctor --foo", "there is no option --foo. `rods doctor --help` lists them."),
    ("report -r x", "there is no option -r. `rods report --help` lists them."),
    ("--foo", "there is no option --foo. `rods --help` lists them."),
    ("train --seed", "option --seed: a value is missing. Expected: `rods train --seed <number>`."),
    ("check --every=3", "option --every takes no value. Expected: `rods check --every`."),
    ("convert --out x --env.name grpo", "'grpo'. grpo is a value of train.advantage, which this"),
    ("convert --out x --env.name torl", "'torl'. torl is a recipe, which this command does not"),
    ("view --env.name hermes", "hermes is a value of model.dialect, which this command does not"),
    ("convert --out x --env.name bfcll", "there is no environment 'bfcll'. Did you mean 'bfcl'?"),
    ("sft made.jsonl --out x --dialect hermes", "option --dialect. `rods sft --help`"),
    *((f"{verb} --dialect xml --model.dialect xml", "--model.dialect is given twice")
      for verb in ("train", "eval", "chat", "trl", "verl")),
    ("train -r x", "argument '-r': expected --section.key value. Options have two dashes; --help"),
    ("eval -r x", "argument '-r': expected --section.key value. Options have two dashes; --help"),
    ("train --updates", "a value is missing. Give one: `rods settings updates` lists"),
    ("train --model tiny --model.name tiny-math", "--model.name is given twice"),
    ("synth --out x --writer graph --synthesis.writer llm", "--synthesis.writer is given twice"),
    ("convert --out x --tasks made.jsonl --env.tasks made.jsonl", "--env.tasks is given twice"),
    ("check --tasks made.jsonl --env.tasks made.jsonl", "in the place of --env.tasks. Give one."),
    ("demonstrate --out x --model tiny --needed 1", "--needed: no effect with --model"),
    ("demonstrate --out x --parallel 1", "--parallel: conversations of tasks need"),
    ("demonstrate --out x --profile small", "--profile: conversations of tasks need"),
    ("demonstrate --out x --results 1", "--results has no effect without --dialect search_r1"),
    ("serve-env --openenv --idle 9 --seconds 9", "--seconds, --idle: no effect with --openenv"),
    ("serve-env --dialect xml", "--dialect: no effect without --openenv. Leave it out."),
    ("serve-env --sessions 0", "--sessions must be greater than or equal to 1; got '0'"),
    ("serve-env --idle 0", "--idle must be greater than or equal to 1; got '0'"),
    ("serve-env --seconds 0", "--seconds must be greater than or equal to 1; got '0'"),
    ("synth --out x --task-key id", "--task-key: no effect without --from-trajectories LOG"),
    ("synth --out x --from-scratch 2 --n 9", "--n: no effect with --from-scratch"),
    ("view --recipe torl", "--recipe: no effect without --tasks FILE"),
    ("inspect made.jsonl --structure --tasks made.jsonl", "--tasks: no effect with --structure"),
    ("convert --out x --run y --format datasets --dialect xml", "--dialect: no effect with --run"),
    *((f"{verb} made.jsonl", "this is a file; expected a folder of a model")
      for verb in ("eval", "chat", "train --model", "check --model", "export --out x")),
)  # fmt: skip
"""Lines that cannot be meant, and what is stated of them."""
HINTS = [(line, f" Did you mean '{meant}'?") for line, meant in MEANT]
HINTS.append(("train --name x", "'--engine.name' or '--env.name' or '--model.name' or "))


@pytest.mark.slow
@pytest.mark.parametrize(("line", "said"), [*HINTS, *USAGE])
def test_a_line_that_cannot_be_meant_is_one_message_before_any_work(
    line: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.jsonl").touch()
    assert rods(*line.split(), monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("rods: ") and said in shown, "no announcement, no words of Click"
    assert [path.name for path in tmp_path.iterdir()] == ["made.jsonl"]


def test_long_notes_are_wrapped_and_errors_stay_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, path = "word " * 60, "runs/" + "long/" * 40
    say(f"{words}\n{path}")
    lines = capsys.readouterr().err.splitlines()
    assert all(len(line) <= 120 for line in lines[:-1]) and lines[-1] == path
    say(words + path, always=True)
    assert capsys.readouterr().err.splitlines() == [words + path]
