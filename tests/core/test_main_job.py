"""The main job made small: the real benchmark, the bundled policy, the worker in its process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import forked
from loopback import Loopback
from places import BENCHMARKS
from scripted_author import ScriptedAuthor
from synthesis_cases import ENVIRONMENT, sides

UPDATES = 3
SMALL = [
    *("--updates", str(UPDATES), "--rollout.k", "2", "--rollout.tasks-per-step", "3"),
    *("--env.train-tasks", "3", "--evaluation.tasks", "2", "--evaluation.variants", "1"),
    *("--evaluation.samples", "1", "--model.threads", "1"),
    *("--stages", "[{name='all', epochs=9, expand=true}]"),
    *("--boundary.low", "0.0", "--boundary.high", "1.0", "--replay.inject", "1.0"),
    *("--replay.retire", "[0.0, 0.95]", "--boundary.cooldown-epochs", "0.0"),
    *("--rollout.generated-tokens", "96", "--rollout.step-tokens", "48"),
]
"""An epoch is an update until the second one has variants; `kill_resume.py` has three stages."""


def rods(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return forked.run(["-m", "rods.cli.main", *words], folder)


def records(run: Path, kind: str) -> list[dict[str, object]]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


@pytest.mark.slow
def test_invariant_9_the_same_seed_is_the_same_run_and_other_verbs_take_it(tmp_path: Path) -> None:
    for name, words in (("one", []), ("two", []), ("fixed", ["--curriculum", "static"])):
        drain = ("--synthesis.drain-seconds", "60")  # or a busy machine injects less
        made = rods("train", "--out", name, *SMALL, *drain, *words, folder=tmp_path)
        assert made.returncode == 0, made.stderr
        assert "progress" in made.stdout and "report.html" in made.stderr
        run = tmp_path / name
        assert len(records(run, "step")) == UPDATES
        assert [r["when"] for r in records(run, "eval")] == ["before", "after"]
        page = (run / "report.html").read_text()
        assert "<figure" in page and "http://" not in page and "https://" not in page
        assert json.loads((run / "manifest.json").read_text())["finished"]
    assert sum(e["injected"] for e in records(tmp_path / "one", "epoch")) > 0  # type: ignore[misc]
    assert sum(e["injected"] for e in records(tmp_path / "fixed", "epoch")) == 0  # type: ignore[misc]

    keys = ("reward_mean", "loss", "grad_norm", "judgements")
    one, two = (
        [{k: r[k] for k in keys} for r in records(tmp_path / n, "step")] for n in ("one", "two")
    )
    assert one == two

    compared = rods("compare", "one", "fixed", "--page", "compare.html", folder=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "compare.html").is_file()

    evaluated = rods("eval", "--run", "one", "--json", folder=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    after = records(tmp_path / "one", "eval")[-1]["rows"]
    assert [r["progress"] for r in json.loads(evaluated.stdout)] == [r["progress"] for r in after]  # type: ignore[index, attr-defined]

    again = rods("train", "--resume", "one", "--train.lr", "1", folder=tmp_path)
    assert again.returncode == 2 and "train.lr" in again.stderr


@pytest.mark.slow
def test_invariant_8_the_real_run_survives_kills(tmp_path: Path) -> None:
    script = BENCHMARKS / "kill_resume.py"
    words = [sys.executable, str(script), "--kills", "2", "--updates", "6"]
    played = subprocess.run(words, capture_output=True, text=True, timeout=580)
    assert played.returncode == 0, played.stdout + played.stderr


@pytest.mark.slow
def test_a_chat_server_can_write_the_variants(tmp_path: Path) -> None:
    author = ScriptedAuthor(sides().train, ENVIRONMENT)
    with Loopback(author) as server:
        made = rods(
            *("train", "--out", "run", *SMALL, "--curriculum", "rods"),
            *("--writer", "llm", "--writer-url", server.url, "--synthesis.llm.planner", "graph"),
            *("--synthesis.resample.share", "0.0", "--synthesis.drain-seconds", "60"),
            folder=tmp_path,
        )
        assert made.returncode == 0, made.stderr
        assert server.count > 0
    last = records(tmp_path / "run", "step")[-1]["synthesis"]
    assert last["tried"] > 0 and not last["suspended"], last  # type: ignore[index, call-overload]
    assert last["usage"]["rewrite"]["calls"] > 0  # type: ignore[index, call-overload]


@pytest.mark.slow
def test_training_goes_on_without_a_server_that_is_not_there(tmp_path: Path) -> None:
    made = rods(
        *("train", "--out", "run", *SMALL, "--curriculum", "rods"),
        *("--writer", "llm", "--writer-url", "http://127.0.0.1:9/v1"),
        *("--synthesis.drain-seconds", "60", "--engine.name", "processes"),
        folder=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    assert "synthesis pauses" in made.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["finished"]
    gaps = [float(str(row["gap_p99"])) for row in records(tmp_path / "run", "step")]
    assert len(gaps) == UPDATES
    assert max(gaps) < 1e-4  # the weights of each update reach the processes
