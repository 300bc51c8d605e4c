"""Rewards that other trainers have logged, judged as in training: `rods observe`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pool_cases import group, judge, original
from rods.config import BoundarySettings
from rods.errors import TaskError
from rods.integrations.formats.logged import FOUND, LogFormat, read_rewards
from rods.integrations.observe import Observed, observe
from verbs import rods

SETTINGS = BoundarySettings()


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def judged(path: Path, reading: LogFormat = FOUND) -> dict[str, Observed]:
    return {task.task: task for task in observe(read_rewards(path, reading), SETTINGS)}


def test_the_judgement_is_that_of_training(tmp_path: Path) -> None:
    rewards = {"a": [0.0, 0.0, 0.25, 0.0], "b": [1.0, 0.0, 0.5, 0.5], "c": [1.0, 1.0, 1.0, 1.0]}
    path = lines(tmp_path / "log.jsonl", [{"task_id": t, "rewards": r} for t, r in rewards.items()])
    found = judged(path)
    assert {t: o.region for t, o in found.items()} == {
        "a": "hard",
        "b": "boundary",
        "c": "mastered",
    }
    for number, (task, values) in enumerate(rewards.items()):
        ours = judge(*group(original(number), values), SETTINGS, step=0)
        theirs = found[task]
        assert ours is not None
        assert (theirs.mean_reward, theirs.priority, theirs.region) == (
            ours.rbar,
            ours.phi,
            ours.region,
        )
        assert (theirs.low, theirs.high) == ours.interval
    assert next(iter(found)) == "b", "the most urgent first"


def test_verls_dumps_are_grouped_by_prompt_and_the_newest_step_counts(tmp_path: Path) -> None:
    def dump(step: int, scores: dict[str, list[float]]) -> None:
        rows = [
            {"input": task, "output": "x", "gts": None, "score": score, "step": step}
            | {"uid": f"{task}-{step}_{member}_0"}
            for task, values in scores.items()
            for member, score in enumerate(values)
        ]
        lines(tmp_path / f"{step}.jsonl", rows)

    dump(2, {"first": [0.0, 0.0], "second": [1.0, 0.0]})
    dump(10, {"first": [0.0, 1.0]})
    found = {task.where: task for task in judged(tmp_path).values()}
    first, second = found[f"{tmp_path}/10.jsonl:1"], found[f"{tmp_path}/2.jsonl:3"]
    assert (first.mean_reward, first.step, first.members, first.seen) == (0.5, 10, 2, 4)
    assert (second.mean_reward, second.step, second.seen) == (0.5, 2, 2)


def test_a_step_may_be_a_float_as_pandas_writes_it(tmp_path: Path) -> None:
    rows = [{"task_id": "a", "reward": 0.0, "step": 2.0}]
    rows += [{"task_id": "a", "reward": reward, "step": 3.0} for reward in (0.0, 1.0)]
    found = judged(lines(tmp_path / "log.jsonl", rows))["a"]
    assert (found.step, found.mean_reward, found.members, found.seen) == (3, 0.5, 2, 3)
    with pytest.raises(TaskError, match=r"the step is 2\.5, expected a whole number"):
        judged(lines(tmp_path / "half.jsonl", [{**rows[0], "step": 2.5}]))


def test_trls_completions_are_read(tmp_path: Path) -> None:
    def table(name: str, **columns: list[float]) -> Path:
        prompts = [[{"role": "user", "content": text}] for text in ("one", "one", "two", "two")]
        rows = {"step": [3] * 4, "prompt": prompts, "completion": prompts, **columns}
        path = tmp_path / name
        pyarrow.parquet.write_table(pyarrow.table(rows | {"advantage": [0.0] * 4}), path)
        return path

    path = table("completions_00003.parquet", solved=[1.0, -1.0, -1.0, float("nan")])
    found = list(judged(path, LogFormat(low=-1.0)).values())
    assert [(o.region, o.mean_reward, o.members, o.valid) for o in found] == [
        ("boundary", 0.5, 2, 2),
        ("unjudged", None, 2, 1),
    ]
    two = table("two.parquet", solved=[0.0] * 4, format_reward=[1.0] * 4)
    with pytest.raises(TaskError, match=r"two.parquet, row 1: .*solved, format_reward"):
        judged(two)
    assert {o.region for o in judged(two, LogFormat(reward_key="solved")).values()} == {"hard"}
    folder = tmp_path / "out"  # of TRL's trainer
    (folder / "checkpoint-2").mkdir(parents=True)
    (folder / "rods.json").write_text("{}")
    with pytest.raises(
        TaskError, match=r"without rewards. Log completions, .* rods trl --trl.log_completions"
    ):
        judged(folder)
    (folder / "completions").mkdir()
    path.rename(folder / "completions" / path.name)
    assert [o.region for o in judged(folder, LogFormat(low=-1.0)).values()] == [
        "boundary", "unjudged",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"task_id": "a", "reward": 1.5}, r"log.jsonl:2: the reward 1.5 is outside of \[0, 1\]"),
        ({"task_id": "a", "reward": "x"}, "log.jsonl:2: the reward is 'x'"),
        ({"task_id": "a", "reward": "x" * 99}, f"the reward is '{'x' * 59}, expected a number"),
        ({"task_id": "a", "rewards": [0, "x"]}, "log.jsonl:2: the reward is 'x'"),
        ({"task_id": "a"}, "log.jsonl:2: no column 'reward' or 'score'"),
        ({"reward": 1}, "log.jsonl:2: no column 'task_id'"),
        ({"task_id": "a", "reward": 1, "step": "x"}, "log.jsonl:2: the step is 'x'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    path = lines(tmp_path / "log.jsonl", [{"task_id": "a", "reward": 1}, row])
    with pytest.raises(TaskError, match=words):
        judged(path)


@pytest.mark.slow
def test_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"task_id": t, "rewards": r} for t, r in (("a", [0, 1]), ("b", [1, 1]), ("c", [0, None]))
    ]
    lines(Path("log.jsonl"), rows)

    def run(*words: str) -> tuple[int, str, str]:
        status = rods("observe", "log.jsonl", *words, monkeypatch=monkeypatch)
        return status, *capsys.readouterr()

    status, shown, said = run("--out", "all.csv")
    assert status == 0 and "0.500" in shown and "1 trajectory without a reward: left out." in said
    table = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert [(row["task"], row["region"]) for row in table] == [
        ("a", "boundary"),
        ("b", "mastered"),
        ("c", "unjudged"),
    ]
    status, shown, _ = run("--json", "--out", "all.json", "--boundary.high", "0.4")
    assert status == 0 and json.loads(shown)["counts"] == {"mastered": 2, "unjudged": 1}
    assert json.loads(Path("all.json").read_text()) == json.loads(shown)["tasks"]
    for words, wrong in (
        (("--out", "all.csv"), "all.csv: exists"),
        (("--out", "all.txt"), "ends in .json or .csv"),
        (("--range", "1,0"), "must be less"),
        (("--range", "x"), "expected two numbers"),
        (("--task-key", "name"), "log.jsonl:1: no column 'name'"),
    ):
        status, _, said = run(*words)
        assert status == 2 and wrong in said, words
