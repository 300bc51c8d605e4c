"""Stand-alone synthesis: the journal, threads, seeds from logs, `rods synth` and `rods inspect`."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopback import Loopback
from pool_cases import original, trajectory
from rods.config import BoundarySettings, EnvSettings, SynthesisSettings, load_config
from rods.envs.originals import parted_tasks
from rods.errors import StoreError, SynthesisError, TaskError, WriterError
from rods.settings import LlmWriterSettings
from rods.store import RunDirectory
from rods.synthesis.dataset.journal import SUSPENSIONS, DatasetMaker, Journal, Plan
from rods.synthesis.dataset.seeds import choose_seeds, read_rewards
from rods.synthesis.gates.keeper import Verdict
from rods.synthesis.rejection import Rejection
from rods.synthesis.writers.llm.baton import Baton
from rods.synthesis.writers.llm.writer import make_llm_writer
from rods.synthesis.writers.resample.writer import ResampleWriter
from rods.task import Provenance, Task, Turn, read_tasks, write_tasks
from rods.trajectory_codec import write_parquet
from rods.types import ToolCall
from synthesis_cases import ENVIRONMENT, sides, with_calls
from verbs import rods
from worlds import notes_task

SEEDS = [notes_task([(f"add {n}", [ToolCall("add", {"amount": n})])]) for n in range(1, 6)]


class Scribe:
    """A writer without any world: one proposal in three is turned down."""

    name = "scribe"

    def __init__(self, parallel: int = 1) -> None:
        self.parallel = parallel
        self.baton: Baton | None = None
        self.now: list[str] = []
        self.most = 0
        self.used = SimpleNamespace(calls=0, prompt_tokens=0, completion_tokens=0, cost=0.0)

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        self.used.calls += 1
        self.used.cost += 0.5
        assert seed.id not in self.now, "two proposals for one seed at once"
        self.now.append(seed.id)
        self.most = max(self.most, len(self.now))
        pause = rng.random() * 0.01
        if self.parallel > 1:
            time.sleep(pause)
        self.now.remove(seed.id)
        if rng.random() < 0.34:
            return Rejection("plan", "no_pattern", "nothing fits")
        amount = rng.randrange(10**9)
        words = " ".join(str(rng.randrange(10**6)) for _ in range(6))
        turn = Turn(f"{words} add {amount}", (ToolCall("add", {"amount": amount}),))
        origin = Provenance("notes_0", "notes_0", (seed.id,), "scribe:new")
        return dataclasses.replace(seed, turns=(turn,), provenance=origin)

    def usage(self) -> dict[str, Any]:
        return {"write": self.used}


class Content:
    """A gatekeeper that is content with everything."""

    def check(self, seed: Task, variant: Task, seen: Sequence[object] = ()) -> Verdict:
        return Verdict(None, 0.1)


def make(
    path: Path, writer: Scribe | None = None, n: int = 12, **knobs: Any
) -> tuple[DatasetMaker, Journal]:
    journal = Journal.open(path, {"n": n})
    plan = Plan(SEEDS, n, rng_seed=3, attempts=2, **knobs)
    maker = DatasetMaker(plan, writer or Scribe(), Content(), journal)  # pyright: ignore
    try:
        maker.run(lambda _: None)
    except Exception:
        journal.close()
        raise
    return maker, journal


# -- The journal ----------------------------------------------------------------------------------


def test_a_journal_torn_at_any_byte_ends_in_the_same_variants(tmp_path: Path) -> None:
    maker, journal = make(tmp_path / "whole")
    journal.close()
    whole = (tmp_path / "whole").read_bytes()
    head = whole.index(b"\n") + 1
    assert len(maker.accepted) == 12 and maker.statistics.rejected
    rng = random.Random(5)
    for cut in [head, len(whole), *(rng.randrange(head, len(whole)) for _ in range(25))]:
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:cut])
        again, journal = make(torn)
        journal.close()
        assert [t.to_json() for t in again.accepted] == [t.to_json() for t in maker.accepted]
        assert again.taken_over == sum(
            b'"variant": {' in line for line in whole[head:cut].splitlines(keepends=True)
            if line.endswith(b"\n")
        )  # fmt: skip
        assert again.statistics.tried == maker.statistics.tried
        assert again.spent["write", "cost"] == maker.spent["write", "cost"]


def test_threads_change_nothing_and_never_share_a_seed(tmp_path: Path) -> None:
    alone, first = make(tmp_path / "alone")
    crowd = Scribe(parallel=8)
    many, second = make(tmp_path / "many", crowd, concurrency=4)
    assert many.accepted == alone.accepted
    assert 1 < crowd.most <= 4
    strict = Scribe(parallel=8)
    strict.baton = Baton()
    one, third = make(tmp_path / "baton", strict, concurrency=4)
    assert one.accepted == alone.accepted
    assert strict.most == 1, "nobody gave the baton away"
    for journal in (first, second, third):
        journal.close()


def test_an_error_in_a_thread_reaches_the_caller_and_loses_nothing(tmp_path: Path) -> None:
    class Weak(Scribe):
        def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
            if self.used.calls == 9:
                raise TaskError("the pen is broken")
            return super().propose(seed, rng, history)

    journal = Journal.open(tmp_path / "j", {"n": 12})
    plan = Plan(SEEDS, 12, rng_seed=3, attempts=2, concurrency=3)
    maker = DatasetMaker(plan, Weak(parallel=3), Content(), journal)  # pyright: ignore
    with pytest.raises(TaskError, match="pen is broken"):
        maker.run(lambda _: None)
    journal.close()
    again, first = make(tmp_path / "j")
    whole, second = make(tmp_path / "k")
    first.close()
    second.close()
    assert again.taken_over >= 1
    assert again.accepted == whole.accepted


def test_variants_of_two_seeds_that_are_alike_are_one(tmp_path: Path) -> None:
    class Stubborn(Scribe):
        def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
            return super().propose(SEEDS[0], random.Random(rng.randrange(3)), history)

    maker, journal = make(tmp_path / "j", Stubborn(), n=4)
    journal.close()
    assert len(maker.accepted) == len({t.id for t in maker.accepted}) <= 3
    assert maker.statistics.rejected["gate", "novelty"] > 10
    assert maker.finished, "it gives up in the end"


def test_other_settings_and_foreign_files_are_refused(tmp_path: Path) -> None:
    Journal.open(tmp_path / "j", {"n": 1, "seed": 0}).close()
    with pytest.raises(StoreError, match=r"other settings \(seed: 0 -> 1\)"):
        Journal.open(tmp_path / "j", {"n": 1, "seed": 1})
    (tmp_path / "k").write_text("my diary\n")
    with pytest.raises(StoreError, match="no journal"):
        Journal.open(tmp_path / "k", {})
    assert (tmp_path / "k").read_text() == "my diary\n"
    with (tmp_path / "j").open("a") as file:
        file.write('{"variant": 7}\n')
    with pytest.raises(StoreError, match=r"j:2: a damaged line"):
        Journal.open(tmp_path / "j", {"n": 1, "seed": 0})


# -- Writers that fail ----------------------------------------------------------------------------


class Failing(Scribe):
    """A writer whose server is silent for some of its proposals."""

    def __init__(self, silent: set[int], error: WriterError, parallel: int = 1) -> None:
        super().__init__(parallel)
        self.silent, self.error, self.count = silent, error, 0

    def propose(self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()) -> Any:
        self.count += 1
        if self.count in self.silent:
            raise self.error
        return super().propose(seed, rng, history)


@pytest.fixture
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.synthesis.worker.patience.PAUSE", 0.01)
    monkeypatch.setattr("rods.synthesis.worker.patience.LONGEST", 0.02)
    monkeypatch.setattr("rods.synthesis.dataset.journal.LOOK", 0.01)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


@pytest.mark.usefixtures("quick_pauses")
@pytest.mark.parametrize("parallel", [1, 4])
def test_a_writer_that_is_down_is_suspended_and_nothing_is_lost(
    tmp_path: Path, parallel: int
) -> None:
    whole, first = make(tmp_path / "whole")
    error = WriterError("http://here: HTTP 500", down=True)
    writer = Failing({3, 4, 5, 9}, error, parallel)
    journal = Journal.open(tmp_path / "j", {"n": 12})
    plan = Plan(SEEDS, 12, rng_seed=3, attempts=2, concurrency=parallel)
    maker = DatasetMaker(plan, writer, Content(), journal)  # pyright: ignore
    said: set[str] = set()
    maker.run(lambda now: said.add(now.suspended))
    assert any("synthesis pauses for 0.01 s: http://here: HTTP 500" in text for text in said)
    assert maker.suspended == ""
    assert maker.accepted == whole.accepted
    first.close()
    journal.close()


@pytest.mark.usefixtures("quick_pauses")
def test_a_writer_that_stays_down_is_given_up_with_its_reason(tmp_path: Path) -> None:
    forever = set(range(5, 10**4))
    for name, error, pauses in (
        ("down", WriterError("HTTP 500", down=True), SUSPENSIONS),
        ("gone", WriterError("no key", fatal=True), SUSPENSIONS),
    ):
        writer = Failing(forever, error)
        with pytest.raises(SynthesisError, match=f"after {pauses} pauses: {error}"):
            make(tmp_path / name, writer)
        assert writer.count == 5 + pauses
    writer = Failing(set(range(10**4)), WriterError("no key", fatal=True))
    with pytest.raises(WriterError, match="no key"):
        make(tmp_path / "never", writer)
    assert writer.count == 1, "a wrong key is said at once"


@pytest.mark.usefixtures("quick_pauses")
@pytest.mark.parametrize(
    ("mode", "server", "words"),
    [
        ("http_500", {}, "HTTP 500: Internal server error"),
        ("html", {}, "not what a chat server answers"),
        pytest.param(*("slow", {"delay": 60.0}, "no answer within 0.7 s"), marks=pytest.mark.slow),
        ("empty", {"context": 50}, "the context overflows"),
        ("empty", {}, "the answer is empty"),
        ("http_429", {}, "HTTP 429: Rate limit reached"),
    ],
)
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
        where = ["--seeds", SEED_FILE, "--n", "500", "--out", "v.jsonl", *SMALL]
        assert rods("synth", *where, *asked, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "synthesis pauses for" in said and words in said and loopback.url in said
    assert "failed again after 6 pauses" in said and "nothing is kept" in said
    assert sorted({p.name for p in folder.iterdir()} - {"v.jsonl.answers"}) == before


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


def test_parquet_logs_and_other_columns(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"name": [SEEDS[0].id] * 2, "return": [0.5, 0.0], "reward": [9.0, 9.0]})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(TaskError, match="no column task_id or id or uid or origin; there are name"):
        read_rewards(tmp_path / "log.parquet")
    with pytest.raises(TaskError, match=r"row 1: the reward 9.0 is outside"):
        read_rewards(tmp_path / "log.parquet", "name")
    rows = read_rewards(tmp_path / "log.parquet", "name", "return")
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
        values = {t.id: [r.reward for r in found if r.task == t.id] for t in (first, second)}
        assert values == {first.id: [1.0, 0.0, None], second.id: [0.0, 1.0]}
    chosen = choose_seeds(read_rewards(tmp_path), [first, second], BoundarySettings(), 0)
    assert {task.id for task in chosen.seeds} == {first.id, second.id}
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="no trajectories of a run here"):
        read_rewards(tmp_path / "empty")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "nobody", "reward": 1}], r"log.jsonl:1: there is no task 'nobody'"),
        ([{"id": SEEDS[0].id, "reward": 1}], r"log.jsonl:1: task \w+ has one trajectory"),
        ([{"id": "notes_0", "reward": 1}] * 2, "is the origin of 5 of the seeds"),
        ([{"id": SEEDS[0].id, "reward": 1}, {"id": 3, "reward": 1.5}], "log.jsonl:2: the reward"),
        ([{"id": SEEDS[0].id, "reward": "1"}], "log.jsonl:1: the reward is '1'"),
        ([{"id": SEEDS[0].id, "reward": float("nan")}], "log.jsonl:1: the reward nan"),
        ([{"id": SEEDS[0].id}], "no column reward or score or progress; there are id"),
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


class Interrupting(ResampleWriter):
    """Presses Ctrl-C at its fourth proposal, once."""

    name = "resample"
    left = 3

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        Interrupting.left -= 1
        if Interrupting.left == -1:
            raise KeyboardInterrupt
        return super().propose(seed, rng, history)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a pool of few tasks, and the seeds of its training side."""
    monkeypatch.chdir(tmp_path)
    pool = [t for t in sides().train if t.category == "base"][:12]
    write_tasks(tmp_path / POOL, pool)
    write_tasks(tmp_path / SEED_FILE, parted_tasks(EnvSettings(tasks=(POOL,))).train)
    return tmp_path


def test_ctrl_c_keeps_what_was_made_and_resume_ends_in_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["synth", "--seeds", SEED_FILE, "--n", "5", *SMALL]
    words += ["--writer", "test_synth_verb:Interrupting"]
    Interrupting.left = 10**6
    assert rods(*words, "--out", "whole.jsonl", monkeypatch=monkeypatch) == 0
    assert "seconds per accepted" in capsys.readouterr().out
    Interrupting.left = 3
    assert rods(*words, "--out", "v.jsonl", monkeypatch=monkeypatch) == 130
    said = capsys.readouterr().err
    assert "interrupted" in said and "--resume" in said
    assert not (folder / "v.jsonl").exists()
    assert rods(*words, "--out", "v.jsonl", monkeypatch=monkeypatch) == 2
    assert "unfinished data set" in capsys.readouterr().err
    other = [*words, "--out", "v.jsonl", "--resume", "--seed", "4"]
    assert rods(*other, monkeypatch=monkeypatch) == 2
    assert "seed: 0 -> 4" in capsys.readouterr().err
    assert rods(*words, "--out", "v.jsonl", "--resume", monkeypatch=monkeypatch) == 0
    assert (folder / "v.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == [
        POOL,
        SEED_FILE,
        "v.jsonl",
        "whole.jsonl",
    ]
    assert rods(*words, "--out", "v.jsonl", "--resume", monkeypatch=monkeypatch) == 2
    assert "exists" in capsys.readouterr().err


def test_mistakes_of_synth_are_one_message_and_leave_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.jsonl").write_text((folder / SEED_FILE).read_text() + '{"env": "bfcl"}\n')
    write_tasks(folder / "held.jsonl", parted_tasks(EnvSettings(tasks=(POOL,))).held_out)
    log(folder / "log.jsonl", [{"uid": "nobody", "reward": 0.5}] * 2)
    seed = next(read_tasks(folder / SEED_FILE)).id
    log(folder / "hard.jsonl", [{"uid": seed, "reward": 0.0}] * 2)
    before = sorted(p.name for p in folder.iterdir())
    for words, said in (
        (["--seeds", "broken.jsonl"], "broken.jsonl:10"),
        (["--seeds", "absent.jsonl"], "absent.jsonl"),
        (["--seeds", "held.jsonl"], "seeds are of held-out scenarios"),
        (["--format", "csv"], "expected one of jsonl, parquet, bfcl"),
        (["--writer", "nobody"], "synthesis.writer: 'nobody'"),
        (["--out", "no/such/v.jsonl"], "there is no folder no/such"),
        (["--from-trajectories", "log.jsonl"], "log.jsonl:1: there is no task 'nobody'"),
        (["--from-trajectories", "hard.jsonl"], "none of 1 tasks is on the boundary"),
        (["--dialect", "klingon"], "no dialect 'klingon'"),
    ):
        assert rods("synth", *SMALL, "--out", "v.jsonl", *words, monkeypatch=monkeypatch) == 2, (
            words
        )
        assert said in capsys.readouterr().err
        assert sorted(p.name for p in folder.iterdir()) == before


def test_seeds_of_a_log_make_the_data_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = list(read_tasks(folder / SEED_FILE))
    rows = [{"task_id": t.id, "reward": r} for t in tasks[:4] for r in (0.0, 0.1)]
    rows += [{"origin": tasks[4].provenance.origin, "reward": r} for r in (0.2, 0.9)]
    log(folder / "log.jsonl", rows)
    words = ["--seeds", SEED_FILE, "--from-trajectories", "log.jsonl", "--n", "2"]
    words += ["--writer", "resample", "--out", "v.jsonl", *SMALL]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "all" in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["all", "5", "4", "1", "0", "0", "1"]
    made = list(read_tasks(folder / "v.jsonl"))
    assert len(made) == 2 and all(tasks[4].id in t.provenance.ancestors for t in made)


def test_tasks_that_do_not_replay_are_skipped_counted_and_named(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    from rods.assemble import assemble, sides_of, start_run

    good = list(read_tasks(folder / SEED_FILE))
    broken = with_calls(good[0], 0, (ToolCall("cd", {"folder": "no such folder"}),))
    write_tasks(folder / "mixed.jsonl", [broken, *good])
    words = ["synth", "--n", "1", "--writer", "resample", *SMALL]
    asked = [*words, "--seeds", "mixed.jsonl", "--out", "v.jsonl"]
    assert rods(*asked, monkeypatch=monkeypatch) == 0
    said = caplog.text
    assert f"mixed.jsonl: task {broken.id} ({broken.provenance.origin}, turn 0) is skipped" in said
    assert f"1 of {len(good) + 1} tasks are skipped" in said
    write_tasks(folder / "bad.jsonl", [broken])
    asked = [*words, "--seeds", "bad.jsonl", "--out", "w.jsonl"]
    assert rods(*asked, monkeypatch=monkeypatch) == 2
    assert f"none of 1 tasks replays, the first: task {broken.id}" in capsys.readouterr().err
    write_tasks(folder / "all.jsonl", [*read_tasks(folder / POOL), broken])
    config = load_config("rods", "quick", ["env.tasks=all.jsonl", "env.train_tasks=0"])
    sides = sides_of(config, ENVIRONMENT)
    assert broken.id not in {t.id for t in (*sides.train, *sides.originals, *sides.held_out)}
    assert f"env.tasks, training side: task {broken.id}" in caplog.text
    run = start_run(config, "new")
    monkeypatch.setattr("rods.assemble.load_model", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), assemble(config, run):
        pass
    (row,) = RunDirectory.open(run.path).manifest["skipped"]
    assert (row["task"], row["origin"], row["turn"]) == (broken.id, broken.provenance.origin, 0)
    assert "no such folder" in row["detail"]


def test_inspect_shows_variants_and_flags_a_broken_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", SEED_FILE, "--n", "3", *SMALL, "--out", "v.jsonl"]
    assert rods("synth", *words, monkeypatch=monkeypatch) == 0
    assert "by: graph, and resample for 25% of the proposals" in capsys.readouterr().err
    (folder / "v.jsonl").unlink()
    assert rods("synth", *words, "--writer", "resample", monkeypatch=monkeypatch) == 0
    assert "by: resample\n" in capsys.readouterr().err
    capsys.readouterr()
    assert rods("inspect", "v.jsonl", "--n", "1", *SMALL, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    good = list(read_tasks(folder / "v.jsonl"))
    assert f"variant {good[0].id}" in shown and good[1].id not in shown
    assert "3 variants: 3 pass every gate, 0 fail" in shown and "profile distance" in shown
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
    assert "the seed of 1 is unknown" in capsys.readouterr().out
    only = ["inspect", "b.jsonl", "--task", good[2].id, *SMALL]
    assert rods(*only, monkeypatch=monkeypatch) == 0
    assert "1 variants: 1 pass" in capsys.readouterr().out
    assert rods("inspect", "b.jsonl", "--task", "none", monkeypatch=monkeypatch) == 2


def test_the_short_options_are_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--writer", "a:b", "--writer-url", "http://localhost:1/v1", "--writer-model", "7"]
    assert rods("train", "--dry-run", *words, monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["synthesis"]
    found = (shown["writer"], shown["llm"]["url"], shown["llm"]["model"])
    assert found == ("a:b", "http://localhost:1/v1", "7")


@pytest.mark.parametrize(
    ("words", "share", "waits"),
    [
        ([], 0.25, 20.0),  # the quick profile asks for both
        (["--writer", "graph"], 0.0, 20.0),
        (["--synthesis.writer", "graph"], 0.0, 20.0),
        (["--writer", "llm", "--writer-url", "http://localhost:1/v1"], 0.0, 0.0),
        (["--writer", "my.module:Writer"], 0.0, 0.0),
        (["--writer", "graph", "--synthesis.resample.share", "0.5"], 0.5, 20.0),
        (["--writer", "llm", "--synthesis.drain-seconds=7"], 0.0, 7.0),
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
    assert rods("train", "--dry-run", *words, monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["synthesis"]
    assert (shown["resample"]["share"], shown["drain_seconds"]) == (share, waits)


def test_cost_and_the_longest_answer_are_settings() -> None:
    server = LlmWriterSettings(
        url="http://localhost:1/v1", max_tokens=77, price_in=2.0, price_out=3.0
    )
    options = SynthesisSettings(writer="llm", llm=server)
    writer = make_llm_writer(sides().train[:4], ENVIRONMENT, options)
    asked = writer._server.settings  # type: ignore[attr-defined]
    writer.close()
    assert (asked.max_tokens, asked.price_in, asked.price_out) == (77, 2.0, 3.0)


@pytest.mark.slow
def test_a_killed_synth_is_resumed_to_the_same_bytes(folder: Path) -> None:
    command = [sys.executable, "-m", "rods.cli.main", "synth", *SMALL]
    command += ["--n", "60", "--writer", "resample"]
    assert subprocess.run([*command, "--out", "whole.jsonl"], check=False).returncode == 0
    command += ["--out", "v.jsonl", "--resume"]
    journal = folder / "v.jsonl.journal"
    for wanted in (2, 30):
        process = subprocess.Popen(command)
        while not journal.exists() or journal.read_bytes().count(b"\n") <= wanted:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGSTOP)
        if wanted == 2:
            second = subprocess.run(command, capture_output=True, check=False)
            assert second.returncode == 2 and b"another process" in second.stderr
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (folder / "v.jsonl").exists()
    assert subprocess.run(command, check=False).returncode == 0
    assert (folder / "v.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
    assert not journal.exists()


def test_importing_what_synthesis_needs_imports_no_torch() -> None:
    code = (
        "import sys, rods.cli.synth, rods.cli.inspect, rods.synthesis.dataset.journal, "
        "rods.synthesis.dataset.seeds, rods.synthesis.dataset.exports, "
        "rods.synthesis.worker.client, rods.envs.originals; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    make(tmp_path / "j", Scribe(parallel=8), concurrency=5)[1].close()
    assert threading.active_count() <= before
