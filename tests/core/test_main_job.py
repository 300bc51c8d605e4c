"""The main job made small: the real benchmark, the bundled policy, the worker in its process."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import forked
from loopback import Loopback
from once import made_once
from places import BENCHMARKS
from scripted_author import ScriptedAuthor
from synthesis_cases import ENVIRONMENT, sides

UPDATES = 2
"""Variants of the first epoch are trained on in the second one."""
SMALL = [
    "--rollout.k", "2", "--rollout.tasks-per-step", "3", "--env.train-tasks", "3",
    "--evaluation.tasks", "1", "--evaluation.samples", "1", "--evaluation.variants", "0",
    "--stages", "[{name='all', epochs=9, expand=true}]",
    "--boundary.low", "0.0", "--boundary.high", "1.0", "--replay.inject", "1.0",
    "--replay.retire", "[0.0, 0.95]", "--boundary.cooldown-epochs", "0.0",
    "--rollout.generated-tokens", "96", "--rollout.step-tokens", "48", "--model.threads", "1",
]  # fmt: skip
"""An epoch is an update until the second one has variants; `kill_resume.py` has three stages."""
SHORT = ["--updates", "2"]
"""The second update is sampled with the weights of the first one, and its epoch has variants."""


def rods(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return forked.run(["-m", "rods.cli.main", *words], folder)


def records(run: Path, kind: str) -> list[dict[str, object]]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


WHOLE = [
    *SMALL, "--updates", str(UPDATES), "--engine.name", "hf",
    "--train.local.checkpoint-steps", "1",
    "--synthesis.drain-seconds", "60",  # or a busy machine injects less
]  # fmt: skip


@pytest.fixture
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from beginning to end, which nobody changes."""

    def make(folder: Path) -> None:
        made = rods("train", "--out", "one", *WHOLE, folder=folder)
        assert made.returncode == 0, made.stderr

    return made_once(tmp_path_factory, "main_job", make) / "one"


Differences = Callable[[Path, Path], list[str]]


@pytest.fixture
def differences(monkeypatch: pytest.MonkeyPatch) -> Iterator[Differences]:
    """What two runs disagree on, as `benchmarks/kill_resume.py` compares them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("kill_resume").differences
    sys.modules.pop("kill_resume")


@pytest.mark.slow
def test_invariant_9_the_same_seed_is_the_same_run_and_other_verbs_take_it(
    one: Path, tmp_path: Path, differences: Differences
) -> None:
    made = rods("train", "--out", "two", *WHOLE, folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "progress" in made.stdout and "report.html" in made.stderr
    two = tmp_path / "two"
    assert len(records(two, "step")) == UPDATES
    assert [r["when"] for r in records(two, "eval")] == ["before", "after"]
    page = (two / "report.html").read_text()
    assert "<figure" in page and "http://" not in page and "https://" not in page
    assert json.loads((two / "manifest.json").read_text())["finished"]
    assert sum(e["injected"] for e in records(two, "epoch")) > 0  # type: ignore[misc]
    assert differences(one, two) == []

    compared = rods("compare", str(one), "two", "--page", "compare.html", folder=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "compare.html").is_file()

    evaluated = rods("eval", "two", "--json", folder=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    after = records(two, "eval")[-1]["rows"]
    assert [r["progress"] for r in json.loads(evaluated.stdout)] == [r["progress"] for r in after]  # type: ignore[index, attr-defined]

    again = rods("train", "--resume", "two", "--train.lr", "1", folder=tmp_path)
    assert again.returncode == 2 and "train.lr" in again.stderr


@pytest.mark.slow
def test_invariant_8_the_real_run_survives_a_kill(
    one: Path, tmp_path: Path, differences: Differences
) -> None:
    """`benchmarks/kill_resume.py` kills more runs, more often and at any moment."""
    killed = tmp_path / "killed"
    words = [sys.executable, "-m", "rods.cli.main", "train", "--out", str(killed), *WHOLE]
    silent = subprocess.DEVNULL
    with subprocess.Popen(words, stdout=silent, stderr=silent) as process:
        while process.poll() is None and not [*killed.glob("checkpoint/step-*")]:
            time.sleep(0.05)
        time.sleep(0.5)  # within the next update
        assert process.poll() is None, "the run ended before its kill"
        process.kill()
    resumed = rods("train", "--resume", "killed", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert differences(one, killed) == []


@pytest.mark.slow
def test_a_chat_server_can_write_the_variants(tmp_path: Path) -> None:
    author = ScriptedAuthor(sides().train, ENVIRONMENT)
    with Loopback(author) as server:
        made = rods(
            "train", "--out", "run", *SMALL, *SHORT, "--curriculum", "rods",
            "--writer", "llm", "--writer-url", server.url, "--synthesis.llm.planner", "graph",
            "--synthesis.resample.share", "0.0", "--synthesis.drain-seconds", "60",
            "--engine.name", "hf",
            folder=tmp_path,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        assert server.count > 0
    last = records(tmp_path / "run", "step")[-1]["synthesis"]
    assert last["tried"] > 0 and not last["suspended"], last  # type: ignore[index, call-overload]
    assert last["usage"]["rewrite"]["calls"] > 0  # type: ignore[index, call-overload]


@pytest.mark.slow
def test_training_goes_on_without_a_server_that_is_not_there(tmp_path: Path) -> None:
    made = rods(
        "train", "--out", "run", *SMALL, *SHORT, "--curriculum", "rods",
        "--writer", "llm", "--writer-url", "http://127.0.0.1:9/v1",
        "--synthesis.drain-seconds", "60", "--engine.name", "processes",
        folder=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "synthesis pauses" in made.stderr
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["finished"]
    gaps = [float(str(row["gap_p99"])) for row in records(tmp_path / "run", "step")]
    assert len(gaps) == 2
    assert max(gaps) < 1e-4  # the weights of each update reach the processes
