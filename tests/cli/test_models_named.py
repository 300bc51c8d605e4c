"""What `--model` names: each verb says in words, and before it makes tasks, what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from verbs import rods

VERBS = [
    "eval --model",
    "eval --model.name",
    "eval",
    "chat --model",
    "train --dry-run --model",
    "demonstrate --n 1 --out d.parquet --model",
    "sft data.jsonl --out out --model",
    "trl --dry-run --updates 2 --model",
    "verl --dry-run --model",
    "check --model",
    "export --out out",
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("half").mkdir()
    Path("half/config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    Path("broken.gguf").write_text("no", encoding="utf-8")
    Path("notes.txt").write_text("no", encoding="utf-8")
    Path("data.jsonl").write_text('{"messages": []}\n', encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_name_is_refused_and_no_other_model_is_taken(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(*verb.split(), "", monkeypatch=monkeypatch) == 2
    assert "is empty. Leave it out, or give a folder or a name." in capsys.readouterr().err


NOTHING = {
    "notes.txt": "model 'notes.txt': this is a file; expected a folder of a model",
    "broken.gguf": "not a complete GGUF file",
    "empty": "has no config.json",
    "gone.gguf": "there is no file gone.gguf",
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", [v for v in VERBS if v.split()[0] in ("eval", "demonstrate")])
@pytest.mark.parametrize("name", [*NOTHING, "half"])
def test_what_holds_no_model_is_named_before_tasks_are_made(
    verb: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("tasks are made for a model that there is not")

    monkeypatch.setattr("rods.assemble.evaluated.held_out_tasks", never)
    assert rods(*verb.split(), name, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert NOTHING.get(name, "has no weights (*.safetensors)") in said
    assert "pydantic" not in said and "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "name"),
    [*zip([v for v in VERBS if v.split()[0] in ("trl", "verl", "check")], NOTHING, strict=False)],
)
def test_other_verbs_name_it_alike(
    verb: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(*verb.split(), name, monkeypatch=monkeypatch) == 2
    assert NOTHING[name] in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["eval", "chat"])
def test_only_a_profile_that_nobody_chose_is_called_unfit_for_an_own_model(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's own commands name a profile, and a model that was trained from its policy."""
    unfit = "For another model, --profile full may fit better."
    assert rods(verb, "half", monkeypatch=monkeypatch) == 2
    assert unfit in " ".join(capsys.readouterr().err.split())
    for profile in ("small", "smollm2"):
        assert rods(verb, "half", "--profile", profile, monkeypatch=monkeypatch) == 2
        assert unfit not in " ".join(capsys.readouterr().err.split())
