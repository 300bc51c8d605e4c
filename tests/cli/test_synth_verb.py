"""Stand-alone synthesis: seeds from logs, `rods synth` and `rods inspect`."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopback import Loopback
from places import BENCHMARKS
from pool_cases import group, original, trajectory, variant
from rods.cli.inspect import VariantFinding, _summary
from rods.cli.synth import QUEUE
from rods.cli.synth.outcomes import table
from rods.config import BoundarySettings, EnvSettings, SynthesisSettings, load_config
from rods.curriculum.online import OnlineCurriculum
from rods.envs.originals import split_tasks
from rods.errors import TaskError
from rods.integrations.formats.logged import LogFormat, groups_of, read_rewards
from rods.integrations.observe import choose_seeds, observe
from rods.split import split
from rods.store import RunDirectory
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import USELESS
from rods.synthesis.collect import Collection
from rods.synthesis.gates.keeper import GATES
from rods.synthesis.llm.writer import make_llm_writer
from rods.synthesis.pipeline import Statistics
from rods.synthesis.worker.queue import SqliteQueue
from rods.synthesis.writer import WriterOptions
from rods.task import Task, read_tasks, write_tasks
from rods.trajectory_codec import write_parquet
from rods.types import Message, ToolCall
from synthesis_cases import ENVIRONMENT, sides, with_calls
from verbs import held, rods
from worlds import notes_task

SEEDS = [notes_task([(f"add {n}", [ToolCall("add", {"amount": n})])]) for n in range(1, 6)]


@pytest.fixture
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.synthesis.worker.generator.PAUSE", 0.01)
    monkeypatch.setattr("rods.synthesis.worker.generator.LONGEST", 0.02)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("rods.synthesis.collect.LOOK", 0.01)


@pytest.mark.usefixtures("quick_pauses")
@pytest.mark.parametrize(
    ("mode", "server", "words"),
    [
        ("http_500", {}, "Internal server error"),
        ("html", {}, "not what a chat server answers"),
        ("slow", {"delay": 60.0}, "no answer within 0.7 s"),
    ],
)
@pytest.mark.slow
def test_synth_says_why_a_server_fails_and_ends(
    mode: str,
    server: dict[str, Any],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(p.name for p in folder.iterdir())
    with Loopback(lambda body: "hello", hostile=[mode], **server) as loopback:
        asked = ["--writer", "llm", "--writer-url", loopback.url]
        asked += ["--synthesis.llm.timeout", "0.7" if mode == "slow" else "60"]
        where = ["--tasks", SEED_FILE, "--n", "500", "--out", "v.jsonl", *SMALL]
        assert rods("synth", *where, *asked, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert words in said and loopback.url in said and "No variant was made" in said
    if mode == "html":  # asking ends
        assert "is of use, the last:" in said and loopback.count <= 2 * USELESS
        assert "log in to the proxy" in said
    else:
        assert "synthesis pauses for" in said and "failed again after 6 pauses" in said
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("url", ["", "localhost:8000"])
def test_synth_without_a_server_makes_nothing(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    asked = ["--writer", "llm", *(["--writer-url", url] if url else [])]
    where = ["--tasks", SEED_FILE, "--n", "5", "--out", "v.jsonl", *SMALL]
    assert rods("synth", *where, *asked, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "synthesis.llm.url" in said
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("quick_pauses")
@pytest.mark.slow
def test_synth_says_that_answers_of_a_server_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer that is no plan is an answer: the next start need not ask for it."""
    with Loopback(lambda body: "no plan") as loopback:
        asked = ["--writer", "llm", "--writer-url", loopback.url, "--synthesis.attempts", "1"]
        where = ["--tasks", SEED_FILE, "--n", "1", "--out", "v.jsonl", *SMALL]
        assert rods("synth", *where, *asked, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "answers of the server are kept in v.jsonl.synthesis/answers.sqlite" in said
    assert (folder / "v.jsonl.synthesis" / "answers.sqlite").is_file()


# -- Seeds from logged rollouts -------------------------------------------------------------------

REWARDS = {0: [0, 0, 0.2, 0.2], 1: [0, 1, 0.5, 0.5], 2: [1, 1, 1, 0.9], 3: [0.25, 0.25], 4: [0, 1]}


def log(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_logged_groups_have_their_rbar_and_regions(tmp_path: Path) -> None:
    rows = [{"id": SEEDS[n].id, "score": r, "x": 1} for n, rs in REWARDS.items() for r in rs]
    random.Random(1).shuffle(rows)
    rows.append({"id": SEEDS[1].id, "score": None, "x": 0})
    read = read_rewards(log(tmp_path / "log.jsonl", rows))
    choice = choose_seeds(read, SEEDS, BoundarySettings(seeds=2), 0)
    found = {j.task_id: (round(j.rbar, 3), j.region, j.n_valid) for j in choice.judgements}
    assert [found[t.id] for t in SEEDS] == [
        (0.1, "hard", 4),
        (0.5, "boundary", 4),
        (0.975, "mastered", 4),
        (0.25, "boundary", 2),
        (0.5, "boundary", 2),
    ]
    assert {t.id for t in choice.seeds} == {SEEDS[1].id, SEEDS[4].id}, "phi is largest at one half"
    assert not choice.unjudged


def test_a_binary_signal_and_quotas_are_the_loops_own(tmp_path: Path) -> None:
    other = notes_task([("b", [ToolCall("total", {})])], category="miss_func", origin="notes_9")
    tasks = [*SEEDS, other]
    rows = [{"task_id": SEEDS[n].id, "reward": r} for n, rs in REWARDS.items() for r in rs]
    rows += [{"task_id": "notes_9", "reward": r} for r in (0.9, 0.9, 1.0, 0.0)]
    read = read_rewards(log(tmp_path / "log.jsonl", rows))
    binary = choose_seeds(read, tasks, BoundarySettings(seeds=2, signal="binary"), 0)
    rbar = {j.task_id: j.rbar for j in binary.judgements}
    assert [rbar[t.id] for t in tasks] == [0, 0.25, 0.75, 0, 0.5, 0.25]
    assert sorted(t.category for t in binary.seeds) == ["base", "miss_func"]


def test_a_task_of_two_names_has_one_newest_step(tmp_path: Path) -> None:
    task = notes_task([("b", [ToolCall("total", {})])], category="base", origin="notes_9")
    rows = [{"id": task.id, "reward": 0.0, "step": 1}] * 2
    rows += [{"id": "notes_9", "reward": 1.0, "step": 2}] * 2
    read = read_rewards(log(tmp_path / "log.jsonl", rows))
    (judgement,) = choose_seeds(read, [task], BoundarySettings(), 0).judgements
    assert (judgement.rbar, judgement.n_valid) == (1.0, 2)


def test_parquet_logs_and_other_columns(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"name": [SEEDS[0].id] * 2, "return": [0.5, 0.0], "reward": [9.0, 9.0]})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(TaskError, match=r"no column 'task_id' or 'id' or .*; there are 'name'"):
        read_rewards(tmp_path / "log.parquet")
    with pytest.raises(TaskError, match=r"row 1: the reward 9.0 is outside"):
        read_rewards(tmp_path / "log.parquet", LogFormat("name"))
    rows = read_rewards(tmp_path / "log.parquet", LogFormat("name", "return"))
    assert [r.reward for r in rows] == [0.5, 0.0]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(TaskError, match="not a Parquet file"):
        read_rewards(tmp_path / "bad.parquet")


def test_trajectories_of_our_own_runs_are_read(tmp_path: Path) -> None:
    first, second = original(1), original(2)
    older = [trajectory(first, i, solved=False) for i in range(2)]
    older += [trajectory(second, i, solved=i > 0) for i in range(2)]
    newer = [trajectory(first, 0, True), trajectory(first, 1, False)]
    newer.append(trajectory(first, 2, False, failure="the world broke"))
    (tmp_path / "trajectories").mkdir()
    for step, rows in ((1, older), (2, newer)):
        write_parquet(tmp_path / "trajectories" / f"step-{step:06d}.parquet", rows)
    file = tmp_path / "trajectories" / "step-000002.parquet"
    assert [row.reward for row in read_rewards(file)] == [1.0, 0.0, None]
    for folder in (tmp_path, file.parent):
        found = read_rewards(folder)
        newest = groups_of(found, lambda row: row.task)
        values = {name: [row.reward for row in rows] for name, rows in newest.items()}
        assert values == {first.id: [1.0, 0.0, None], second.id: [0.0, 1.0]}
    judged = {task.task: task for task in observe(read_rewards(tmp_path), BoundarySettings())}
    counts = [(judged[t.id].step, judged[t.id].valid, judged[t.id].seen) for t in (first, second)]
    assert counts == [(2, 2, 5), (1, 2, 2)]
    chosen = choose_seeds(read_rewards(tmp_path), [first, second], BoundarySettings(), 0)
    assert {task.id for task in chosen.seeds} == {first.id, second.id}
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="without files of rollouts"):
        read_rewards(tmp_path / "empty")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "nobody", "reward": 1}], r"log.jsonl:1: there is no task 'nobody'"),
        ([{"id": SEEDS[0].id, "reward": 1}], r"log.jsonl:1: task \w+ has one trajectory"),
        ([{"id": "notes_0", "reward": 1}] * 2, "is the origin of 5 of the seeds"),
        ([{"id": SEEDS[0].id, "reward": 1}, {"id": 3, "reward": 1.5}], "log.jsonl:2: the reward"),
        ([{"id": SEEDS[0].id, "reward": "1"}], "log.jsonl:1: the reward is '1'"),
        ([{"id": SEEDS[0].id, "reward": 10**400}], "log.jsonl:1: the reward is 10000"),
        ([{"id": SEEDS[0].id, "reward": float("nan")}], "log.jsonl:1: the reward nan"),
        ([{"id": SEEDS[0].id}], "no column 'reward' or 'score' or .*; there are 'id'"),
        ([], "holds no rollouts"),
    ],
)
def test_a_bad_log_is_named_by_line(rows: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=said):
        read = read_rewards(log(tmp_path / "log.jsonl", rows))
        choose_seeds(read, SEEDS, BoundarySettings(), 0)


# -- The verbs ------------------------------------------------------------------------------------

POOL, SEED_FILE = "pool.jsonl", "seeds.jsonl"
SMALL = ["--env.tasks", POOL]
HELLO = Message("user", "Hello.")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker_thread: None) -> Path:
    """The working directory: a pool of few tasks, and the seeds of its training split."""
    monkeypatch.chdir(tmp_path)
    pool = [t for t in sides().train if t.category == "base"][:12]
    write_tasks(tmp_path / POOL, pool)
    write_tasks(tmp_path / SEED_FILE, split_tasks(EnvSettings(tasks=(POOL,))).train)
    return tmp_path


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_made_and_resume_ends_in_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synth", "--tasks", SEED_FILE, "--n", "5", *SMALL, "--writer", "resample"]
    assert rods(*words, "--out", "whole.jsonl", monkeypatch=monkeypatch) == 0
    assert "seconds per variant" in capsys.readouterr().out
    take = Collection._take  # pyright: ignore

    def interrupted(self: Collection, variant: Task | None) -> None:
        if len(self.accepted) == 3:
            raise KeyboardInterrupt
        take(self, variant)

    with monkeypatch.context() as keyboard:
        keyboard.setattr(Collection, "_take", interrupted)
        assert rods(*words, "--out", "v.jsonl", monkeypatch=monkeypatch) == 130
    said = capsys.readouterr().err
    assert "interrupted. 3 variants are kept" in said and "--resume v.jsonl" in said
    assert not (folder / "v.jsonl").exists()
    assert rods(*words, "--out", "v.jsonl", monkeypatch=monkeypatch) == 2
    assert "unfinished data set" in capsys.readouterr().err
    other = [*words, "--resume", "v.jsonl", "--seed", "4"]
    assert rods(*other, monkeypatch=monkeypatch) == 2
    assert "seed: 0 -> 4" in capsys.readouterr().err
    assert rods(*words, "--resume", "v.jsonl", monkeypatch=monkeypatch) == 0
    assert "variants exist already" in capsys.readouterr().err
    assert (folder / "v.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == [
        POOL,
        SEED_FILE,
        "v.jsonl",
        "whole.jsonl",
    ]
    assert rods(*words, "--resume", "v.jsonl", monkeypatch=monkeypatch) == 2
    assert "exists" in capsys.readouterr().err
    assert rods(*words, "--resume", "new.jsonl", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "new.jsonl: there is nothing to resume. Begin with --out new.jsonl." in said
    assert rods(*words, "--resume", "v.jsonl", "--out", "w.jsonl", monkeypatch=monkeypatch) == 2
    assert "--out w.jsonl: v.jsonl resumes in its own folder" in capsys.readouterr().err
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "needs --out FILE, or --resume FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--format", "trl"], "TRL cannot express it: it withholds tools"),
        (["--format", "verifiers"], "verifiers cannot express it: its dialogue"),
        (["--format", "verl"], "v.jsonl: this format is Parquet. Let the name end in .parquet."),
        (["--format", "jsonl", "--dialect", "zerotir"], "model.dialect: 'zerotir' is inline"),
        (["--format", "nothing"], "--format 'nothing': expected one of jsonl"),
    ],
)
def test_what_a_format_refuses_is_refused_before_a_variant_is_made(
    asked: list[str],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each of two seeds is refused by one format; one variant needs the first alone."""
    spoken = dataclasses.replace(next(read_tasks(folder / SEED_FILE)), dialogue=(HELLO,))
    withholding = next(task for task in sides().train if task.category == "miss_func")
    odd = [spoken, withholding] if "trl" in asked else [withholding, spoken]
    write_tasks(folder / "odd.jsonl", odd)
    before = sorted(p.name for p in folder.iterdir())
    with monkeypatch.context() as without:
        without.setattr("rods.cli.synth._make", lambda *_: pytest.fail("variants are made"))
        where = ["--tasks", "odd.jsonl", "--n", "1", "--out", "v.jsonl", *SMALL]
        assert rods("synth", *where, *asked, monkeypatch=without) == 2
    assert words in capsys.readouterr().err
    assert sorted(p.name for p in folder.iterdir()) == before


def test_only_seed_tasks_of_the_named_categories_are_varied(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the categories that TRL can express become rows for it."""
    ours = [
        next(task for task in sides().train if task.category == c) for c in ("miss_func", "base")
    ]
    write_tasks(folder / "both.jsonl", ours)
    where = ["--tasks", "both.jsonl", "--n", "1", "--writer", "resample", *SMALL]
    words = [*where, "--format", "trl", "--out", "v.jsonl"]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 2
    assert "Take the other categories: --categories base." in capsys.readouterr().err
    assert rods("synth", *words, "--categories", "base", monkeypatch=monkeypatch) == 0
    assert {task.category for task in read_tasks(folder / "v.jsonl")} == {"base"}
    for odd, said in (
        (["--categories", "odd"], "there is no task of odd; expected some of base, miss_func."),
        (["--categories", "base,mis_func"], "base, miss_func. Did you mean 'miss_func'?"),
        (["--categories", "base", "--from-scratch", "1"], "--tasks, --categories, --n: no effect"),
    ):
        assert rods("synth", *where, "--out", "w.jsonl", *odd, monkeypatch=monkeypatch) == 2
        assert said in capsys.readouterr().err
    own = ["--env.tasks", "both.jsonl", "--env.held_out", "0", "--categories", "miss_param"]
    assert rods("synth", *own, "--out", "w.jsonl", *SMALL, monkeypatch=monkeypatch) == 2
    said = "there is no training task of miss_param; expected some of base"
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--out", "--resume"])
def test_of_two_that_start_at_once_one_makes_the_data_set(
    how: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["synth", "--tasks", SEED_FILE, "--n", "2", *SMALL, "--writer", "resample"]
    beside = folder / "v.jsonl.synthesis"
    beside.mkdir()
    with held(folder / "v.jsonl"):
        if how == "--resume":
            (beside / QUEUE).write_bytes(b"the other's")
        before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
        assert rods(*words, how, "v.jsonl", monkeypatch=monkeypatch) == 2
        assert "v.jsonl: another process writes it. Wait for it" in capsys.readouterr().err
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


@pytest.mark.slow
def test_the_same_seed_gives_the_same_variants_in_training_and_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rods.assemble import worker_of
    from rods.assemble.tasks import splits_of

    made_with = ["env.tasks=pool.jsonl", "synthesis.writer=graph", "synthesis.resample.share=0.3"]
    asked = ["seed=7", "rollout.k=4", "boundary.seeds=6", "synthesis.drain_seconds=100"]
    grow = "stages=[{name='grow', epochs=6, expand=true}]"
    config = load_config("rods", "small", [*made_with, *asked, grow, "env.train_tasks=0"])
    originals = splits_of(config, ENVIRONMENT)
    (folder / "run").mkdir()
    with worker_of(config, originals, folder / "run") as worker:
        pool = OnlineCurriculum(config, originals.originals, worker)
        while not pool.done:
            pool.start_epoch()
            while tasks := [lease.task for lease in pool.lease(4)]:
                for task in tasks:
                    pool.observe(*group(task, [1.0, 0.0, 1.0, 0.0]))
    queue = SqliteQueue(folder / "run" / "synthesis.sqlite")
    beside = {task.id: queue.variants(task.id, 10**6) for task in originals.originals}
    queue.close()
    words = ["--tasks", SEED_FILE, "--n", "24", "--seed", "7", "--out", "v.jsonl", "--profile"]
    words += ["small", *(f"--{setting}" for setting in made_with)]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 0
    alone = list(read_tasks(folder / "v.jsonl"))
    compared = 0
    for seed, theirs in beside.items():
        ours = [task for task in alone if task.provenance.ancestors[0] == seed]
        both = min(len(ours), len(theirs))
        assert ours[:both] == theirs[:both]
        compared += both
    assert compared >= 10, beside
    assert max(map(len, beside.values())) > 2, "no seed was ordered twice"


@pytest.mark.slow
def test_mistakes_of_synth_are_one_message_and_leave_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.jsonl").write_text((folder / SEED_FILE).read_text() + '{"env": "bfcl"}\n')
    write_tasks(folder / "held.jsonl", split_tasks(EnvSettings(tasks=(POOL,))).held_out)
    log(folder / "log.jsonl", [{"uid": "nobody", "reward": 0.5}] * 2)
    seed = next(read_tasks(folder / SEED_FILE)).id
    log(folder / "hard.jsonl", [{"uid": seed, "reward": 0.0}] * 2)
    before = sorted(p.name for p in folder.iterdir())
    for words, said in (
        (["--tasks", "broken.jsonl"], "broken.jsonl:10"),
        (["--tasks", "absent.jsonl"], "absent.jsonl"),
        (["--tasks", "held.jsonl"], "seeds are of held-out scenarios"),
        (["--format", "csv"], "expected one of jsonl, datasets, verl, trl"),
        (["--writer", "nobody"], "synthesis.writer: there is no writer 'nobody'"),
        (["--out", "pool.jsonl/v.jsonl"], "pool.jsonl is a file; expected a folder"),
        (["--from-trajectories", "log.jsonl"], "log.jsonl:1: there is no task 'nobody'"),
        (["--from-trajectories", "hard.jsonl"], "none of 1 tasks is on the boundary"),
        (["--dialect", "klingon"], "no dialect 'klingon'"),
    ):
        assert rods("synth", *SMALL, "--out", "v.jsonl", *words, monkeypatch=monkeypatch) == 2, (
            words
        )
        assert said in capsys.readouterr().err
        assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("where", ["log.jsonl", "logs"])
def test_seeds_of_a_log_make_the_data_set(
    where: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = list(read_tasks(folder / SEED_FILE))
    rows = [{"task_id": t.id, "reward": r} for t in tasks[:4] for r in (0.0, 0.1)]
    rows += [{"origin": tasks[4].provenance.origin, "reward": r} for r in (0.2, 0.9)]
    (folder / "logs").mkdir()
    log(folder / "log.jsonl" if where != "logs" else folder / "logs" / "1.jsonl", rows)
    words = ["--tasks", SEED_FILE, "--from-trajectories", where, "--n", "2"]
    words += ["--writer", "resample", "--out", "v.jsonl", *SMALL]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "tasks: 4 hard, 1 boundary, 0 mastered, 0 unjudged; seeds: 1" in said
    made = list(read_tasks(folder / "v.jsonl"))
    assert len(made) == 2 and all(tasks[4].id in t.provenance.ancestors for t in made)


@pytest.mark.slow
def test_tasks_that_do_not_replay_are_skipped_counted_and_named(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    from rods.assemble import assemble, start_run
    from rods.assemble.tasks import splits_of

    good = list(read_tasks(folder / SEED_FILE))
    broken = with_calls(good[0], 0, (ToolCall("cd", {"folder": "no such folder"}),))
    write_tasks(folder / "mixed.jsonl", [broken, *good])
    words = ["synth", "--n", "1", "--writer", "resample", *SMALL]
    asked = [*words, "--tasks", "mixed.jsonl", "--out", "v.jsonl"]
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    said = caplog.text
    assert f"mixed.jsonl: task {broken.id} ({broken.provenance.origin}, turn 1) is skipped" in said
    assert f"1 of {len(good) + 1} tasks are skipped" in said
    write_tasks(folder / "bad.jsonl", [broken])
    asked = [*words, "--tasks", "bad.jsonl", "--out", "w.jsonl"]
    assert rods(*asked, monkeypatch=monkeypatch) == 2
    assert f"none of 1 tasks replays, the first: task {broken.id}" in capsys.readouterr().err
    write_tasks(folder / "all.jsonl", [*read_tasks(folder / POOL), broken])
    config = load_config("rods", "small", ["env.tasks=all.jsonl", "env.train_tasks=0"])
    sides = splits_of(config, ENVIRONMENT)
    assert broken.id not in {t.id for t in (*sides.train, *sides.originals, *sides.held_out)}
    assert f"env.tasks, training split: task {broken.id}" in caplog.text
    run = start_run(config, "new")
    monkeypatch.setattr("rods.trainers.loading.load_model", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), assemble(config, run):
        pass
    (row,) = RunDirectory.open(run.path).manifest["skipped"]
    assert (row["task"], row["origin"], row["turn"]) == (broken.id, broken.provenance.origin, 0)
    assert "no such folder" in row["detail"]


@pytest.mark.parametrize(
    ("far", "middle"), [([0.9, 0.1], "0.500"), ([0.2, 0.9, 0.1], "0.200"), ([0.3], "0.300")]
)
def test_the_median_of_an_even_number_lies_between_the_middle_two(
    far: list[float], middle: str
) -> None:
    made = [variant(original(0), n) for n in range(len(far))]
    findings = [VariantFinding(t, original(0), d, {}) for t, d in zip(made, far, strict=True)]
    assert f"from the seed task {middle}." in _summary(findings, len(far))
    statistics = Statistics(tried=len(far), accepted=len(far), distances=far)
    worker = SimpleNamespace(usage=dict)
    collection: Any = SimpleNamespace(statistics=lambda: statistics, accepted=made, worker=worker)
    names, values, _ = (list(column.cells) for column in table(collection, "variants").columns)
    assert str(names[-1]).startswith("median structural distance") and values[-1] == middle


@pytest.mark.slow
def test_inspect_shows_variants_and_flags_a_broken_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tasks", SEED_FILE, "--n", "3", *SMALL, "--out", "v.jsonl"]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 0
    assert "by: graph, and resample for 25% of the candidates" in capsys.readouterr().err
    (folder / "v.jsonl").unlink()
    assert rods("synth", *words, "--writer", "resample", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().err
    assert "by: resample\n" in said
    read = re.search(r"^Read them: rods (inspect .*)$", said, re.MULTILINE)
    assert read and rods(*shlex.split(read[1]), monkeypatch=monkeypatch) == 0, said
    capsys.readouterr()
    assert rods("inspect", "v.jsonl", "--n", "1", *SMALL, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    good = list(read_tasks(folder / "v.jsonl"))
    assert f"variant {good[0].id}" in shown and good[1].id not in shown
    for words in ("3 variants: 3 accepted, 0 rejected; median structural distance from", "turn 1"):
        assert words in shown, words
    number = len(GATES)
    accepted = f"{number} of {number + 1} gates; retold is checked only when the variant is made"
    assert accepted in re.sub(r"[\s│|]+", " ", shown), "the writer's own gate is not asked again"
    assert "original task" in shown and "turn 0" not in shown
    unknown = with_calls(good[0], 0, (ToolCall("fly_away", {}),))
    stranger = dataclasses.replace(
        good[1], provenance=dataclasses.replace(good[1].provenance, ancestors=("0" * 16,))
    )
    write_tasks(folder / "b.jsonl", [unknown, stranger, good[2]])
    assert rods("inspect", "b.jsonl", "--json", *SMALL, monkeypatch=monkeypatch) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["ok"] for row in rows] == [False, True, True]
    assert "fly_away" in rows[0]["verdicts"]["offered"] and rows[1]["seed"] is None
    assert rods("inspect", "b.jsonl", "--n", "0", *SMALL, monkeypatch=monkeypatch) == 1
    shown = capsys.readouterr().out
    assert "the seed of 1 is unknown" in shown and "all 5 gates" not in shown
    only = ["inspect", "b.jsonl", "--task", good[2].id, *SMALL]
    assert rods(*only, monkeypatch=monkeypatch) == 0
    assert "1 variant: 1 accepted" in capsys.readouterr().out
    assert rods("inspect", "b.jsonl", "--task", "none", monkeypatch=monkeypatch) == 2


def test_the_short_options_are_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--writer", "llm", "--writer-url", "http://localhost:1/v1", "--writer-model", "7"]
    assert rods("train", "--dry-run", "--json", *words, monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]["synthesis"]
    found = (shown["writer"], shown["llm"]["url"], shown["llm"]["model"])
    assert found == ("llm", "http://localhost:1/v1", {"all": "7"})


SERVER = ("--writer-url", "http://localhost:1/v1")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["trl", "verl"])
def test_a_writer_that_is_named_works_alone_inside_other_trainers(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--profile", "small", "--synthesis.writer", "llm", "--synthesis.llm.url", SERVER[1]]
    assert rods(verb, "--dry-run", "--json", *words, monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]["synthesis"]
    assert (shown["resample"]["share"], shown["drain_seconds"]) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "share", "waits"),
    [
        ([], 0.25, 20.0),  # the small profile asks for both
        (["--synthesis.writer", "graph"], 0.0, 20.0),
        (["--writer", "llm", *SERVER], 0.0, 0.0),
        (["--writer", "rods.writers.graph.writer:GraphWriter"], 0.0, 0.0),
        (["--writer", "graph", "--synthesis.resample.share", "0.5"], 0.5, 20.0),
        (["--writer", "llm", *SERVER, "--synthesis.drain-seconds=7"], 0.0, 7.0),
        (["--profile", "full"], 0.0, 0.0),
    ],
)
def test_a_writer_that_is_named_works_alone_and_no_server_is_waited_for(
    words: list[str],
    share: float,
    waits: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    status = 2 if "full" in words else 0  # its model is on the hub, so no memory is planned
    assert rods("train", "--dry-run", "--json", *words, monkeypatch=monkeypatch) == status
    shown = json.loads(capsys.readouterr().out)["settings"]["synthesis"]
    assert (shown["resample"]["share"], shown["drain_seconds"]) == (share, waits)


def test_cost_and_the_longest_answer_are_settings() -> None:
    server = LlmWriterSettings(url="http://localhost:1/v1", max_tokens=77, price=(2.0, 3.0))
    options = SynthesisSettings(writer="llm", llm=server)
    writer = make_llm_writer(sides().train[:4], ENVIRONMENT, WriterOptions(options, None))
    asked = writer._server.settings  # type: ignore[attr-defined]
    writer.close()
    assert (asked.max_tokens, asked.price) == (77, (2.0, 3.0))


@pytest.mark.slow
def test_a_killed_synth_is_resumed_to_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synth", *SMALL, "--n", "40", "--writer", "resample"]
    assert rods(*words, "--out", "whole.jsonl", monkeypatch=monkeypatch) == 0
    queue = folder / "v.jsonl.synthesis" / "synthesis.sqlite"
    process = subprocess.Popen([sys.executable, "-m", "rods.cli.main", *words, "--out", "v.jsonl"])
    while outcomes(queue) <= 2:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGSTOP)
    assert rods(*words, "--resume", "v.jsonl", monkeypatch=monkeypatch) == 2
    assert "another process" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "v.jsonl").exists()
    assert rods(*words, "--resume", "v.jsonl", monkeypatch=monkeypatch) == 0
    assert (folder / "v.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
    assert not queue.parent.exists()


def outcomes(queue: Path) -> int:
    """How many a queue holds; 0 while it is being made."""
    try:
        file = sqlite3.connect(f"file:{queue}?mode=ro", uri=True)
        count = file.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]
        file.close()
    except sqlite3.OperationalError:
        return 0
    return count


def test_seed_tasks_without_a_variant_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A code that the class computes cannot be renamed, so its task has no variant."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    place, out, file = (
        BENCHMARKS / "strangers",
        tmp_path / "variants.jsonl",
        tmp_path / "tasks.jsonl",
    )
    known = list(read_tasks(place / "locker.jsonl"))
    sides = split(known, held_out_share=0.25)
    barren = next(task for task in known if "pick_up" in str(task.turns))
    if barren in sides.held_out:  # it takes the place of a training task
        name = sides.train[0].provenance
        known = [task for task in known if task not in (barren, sides.train[0])]
        known.append(dataclasses.replace(barren, provenance=name))
    write_tasks(file, known)
    where = ("--env.name", f"{place / 'locker.py'}:environment", "--env.tasks", str(file))
    words = ("--writer", "resample", "--n", "6", "--env.held_out", "0.25", "--out", str(out))
    assert rods("synth", *where, *words, "--json", monkeypatch=monkeypatch) == 0
    printed = capfd.readouterr()
    rows = json.loads(printed.out)["by_seed"]
    assert sum(row["accepted"] for row in rows) == 6 and len(rows) > 1
    [low] = [row for row in rows if not row["accepted"]]
    assert low["rejected"][0]["words"] == "a call failed" and low["rejected"][0]["count"] >= 3
    said = " ".join(printed.err.split())
    assert re.search(r"1 of \d seed tasks with a yield below 20%: \w+, 0 of \d+ cand", said), said
    assert re.search(r"\d of 6 variants from \d+ candidates?\. ", said), said
