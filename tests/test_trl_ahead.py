"""TRL's asynchronous trainer through its own entrance: its trainer, its loader, its checkpoints.

The bundled policy on the benchmark, variants by the real worker; TRL's attention in plain torch
(`trl_cpu.py`). `.ci/hosts` runs these tests.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import rods
import trl_cpu
from pool_cases import FakeQueue
from rods.config import RunConfig
from rods.curriculum.online import OnlineCurriculum
from rods.errors import ConfigError, PrerequisiteError, TrainError
from rods.policy import Capabilities
from rods.reward import Score
from rods.trainers.hosted import Dealt
from rods.trajectory import Group
from trl_cases import REFUSED, SMALL, STEPS, environment, small, visits, wait_for
from worker_cases import ThreadProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.hosts,
    pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs trl: .ci/hosts"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*importing from 'trl.experimental'.*"),
]

AHEAD = ["rollout.schedule=pipelined", "train.dual_clip=0", "seed=7"]


class Update(NamedTuple):
    """What one update was made of."""

    dealt: list[Dealt]
    groups: list[Group]
    scores: list[list[Score]]
    rows: list[dict[str, Any]]
    """Judgements as they are logged."""
    samples: list[Any]
    """What TRL gets."""


class Pass(NamedTuple):
    """One forward pass of TRL's."""

    old: torch.Tensor
    new: torch.Tensor
    """Log-probabilities of the same tokens: those of sampling, and TRL's."""
    step: int


class Trained(NamedTuple):
    config: RunConfig
    folder: Path
    updates: list[Update]
    passes: list[Pass]
    log: list[dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def on_a_cpu() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        trl_cpu.install(patch)
        yield


def ahead(*changes: str) -> RunConfig:
    return small(*AHEAD, *changes)


def train(folder: Path, config: RunConfig, resume: str | None = None, **others: Any) -> Trained:
    from rods.trainers.trl.ahead import CurriculumAsyncGRPOTrainer, async_grpo_args

    updates, passes, seen = list[Update](), list[Pass](), list[Any]()

    class Watched(CurriculumAsyncGRPOTrainer):
        def compute_loss(self, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
            loss = super().compute_loss(model, inputs, *more, **named)
            chosen = inputs["token_index"] >= 0
            found = seen.pop().flatten()[inputs["token_index"][chosen]]
            passes.append(Pass(inputs["old_log_probs"][chosen], found, self.state.global_step))
            return loss

    with rods.hosted(config) as run:
        trainer = Watched(run, async_grpo_args(config, str(folder), report_to="none", **others))
        forward, more, judge = trainer.model.forward, trainer.ahead._more, run.judge
        judged: list[Any] = []

        def watch_forward(*args: Any, **named: Any) -> Any:
            output = forward(*args, **named)
            seen.append(output.log_probs.detach())
            return output

        def watch_judge(dealt: list[Dealt], groups: list[Group]) -> list[list[Score]]:
            judged[:] = dealt, groups, judge(dealt, groups)
            return judged[2]

        def watch_more(timeout: float | None) -> list[Any]:
            samples = more(timeout)
            rows = [run.curriculum.log_row(j) for j in run.judged if j is not None]
            updates.append(Update(*judged, rows, samples))
            return samples

        trainer.model.forward = watch_forward
        run.judge = watch_judge  # type: ignore[method-assign]
        trainer.ahead.rollout_buffer._more = watch_more
        trainer.train(resume_from_checkpoint=resume)
        return Trained(config, folder, updates, passes, trainer.state.log_history)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A whole training; variants are made by a thread of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rods.synthesis.worker.client.Popen", ThreadProcess)
        config = ahead("updates=6", "train.aggregation=sequence")
        return train(tmp_path_factory.mktemp("ahead") / "out", config)


def test_it_trains_ahead_and_no_more_than_it_may(trained: Trained) -> None:
    steps = [row for row in trained.log if "loss" in row]
    assert len(steps) == len(trained.updates) == 6
    assert sum(row["grad_norm"] > 0 for row in steps) >= 3
    ages = [number - g.policy_version for number, u in enumerate(trained.updates) for g in u.groups]
    assert max(ages) == 1 and min(ages) >= 0, "some were played beside an update"
    assert not any("sample/dropped_stale_total" in row for row in steps)
    for number, row in enumerate(steps):
        theirs = [number - g.policy_version for g in trained.updates[number].groups]
        assert row["sample/staleness_max"] == row["rods/staleness_max"] == max(theirs)


def require_injection(trained: Trained) -> None:
    """Variants that were ordered in epoch 0 are played in epoch 1, and none before."""
    played = [d for update in trained.updates for d in update.dealt]
    assert {0, 1} <= {d.epoch for d in played}
    assert all(d.task.is_original for d in played if d.epoch == 0)
    variants = [d.task for d in played if d.epoch == 1 and not d.task.is_original]
    first = {d.task.id for d in played if d.epoch == 0}
    assert variants and all(set(t.provenance.ancestors) <= first for t in variants)


def test_a_task_injected_at_epoch_n_is_drawn_at_n_plus_1(trained: Trained) -> None:
    require_injection(trained)


def test_invariant_1_masks_are_exact_token_by_token(trained: Trained) -> None:
    inserted = taught = 0
    for update in trained.updates:
        ledgers = [t.ledger for g in update.groups for t in g.trajectories]
        assert len(update.samples) == len(ledgers) == 4
        for sample in update.samples:
            ids, mask = sample.input_ids.tolist(), sample.completion_mask.tolist()
            assert len(ids) == len(mask) == len(sample.old_log_probs)
            [ledger, *_] = [x for x in ledgers if x.ids[: len(ids)] == ids]
            said = np.where(ledger.mask[: len(ids)], ledger.logprobs[: len(ids)], 0.0)
            assert np.array_equal(sample.old_log_probs, said.astype(np.float32))
            assert ledger.mask[len(ids) - 1], "it ends with a sampled token"
            if sample.advantage:
                assert mask == [int(m) for m in ledger.mask[: len(ids)]]
                assert not any(ledger.mask[len(ids) :]), "nothing sampled is left out"
                inserted += mask[mask.index(1) :].count(0)
                taught += 1
            else:
                assert sum(mask) <= 1 and not any(ledger.mask[: len(ids) - 1])
    assert inserted > 20 and taught >= 6


def test_trl_computes_the_log_probabilities_of_sampling(trained: Trained) -> None:
    """Through its packing, with the weights that sampled."""
    tokens = 0
    for forward in trained.passes:
        groups = trained.updates[forward.step].groups
        if all(g.policy_version == forward.step for g in groups):
            assert torch.allclose(forward.new, forward.old, atol=1e-4, rtol=0)
            tokens += len(forward.old)
    assert tokens > 50
    assert trained.log[0]["ratio"] == pytest.approx(1.0, abs=1e-4)


def test_the_first_update_is_that_of_rods_train(trained: Trained, tmp_path: Path) -> None:
    """Same draws, judgements and gradient, in two forward passes of TRL's."""
    config = trained.config.model_copy(update={"updates": 1})
    run = rods.train(config, str(tmp_path / "local"))
    [local] = [row for row in run.metrics() if row["kind"] == "step"]
    assert local["judgements"] == trained.updates[0].rows
    assert float(str(local["grad_norm"])) > 0.01
    assert trained.log[0]["grad_norm"] == pytest.approx(local["grad_norm"], rel=0.01)


def test_the_boundary_sees_what_the_local_trainer_shows_it(
    trained: Trained, tmp_path: Path
) -> None:
    """The same trajectories, observed as `rods train` does it, give the same judgements."""
    first = [u for u in trained.updates if {d.epoch for d in u.dealt} == {0}]
    originals = {d.task.id: d.task for u in first for d in u.dealt}
    local = OnlineCurriculum(
        trained.config, list(originals.values()), tmp_path / "local.sqlite", FakeQueue()
    )
    for update in first:
        drawn = local.draw(2)
        assert [(t.id, e) for t, e in drawn] == [(d.task.id, d.epoch) for d in update.dealt]
        judged = local.observe_all(
            [(g, s, 0) for g, s in zip(update.groups, update.scores, strict=True)]
        )
        assert [local.log_row(j) for j in judged if j] == update.rows
    local.close()
    assert len(first) == 2


@pytest.mark.usefixtures("worker_thread")
def test_minibatches_and_passes_are_steps_of_trl(tmp_path: Path) -> None:
    config = ahead("updates=2", "train.minibatch=2", "train.epochs=2")
    made = train(tmp_path / "out", config)
    steps = [row for row in made.log if "loss" in row]
    assert len(made.updates) == 2 and len(steps) == 2 * 2 * 2
    assert [len(u.samples) for u in made.updates] == [8, 8]
    assert {p.name for p in (tmp_path / "out").glob("checkpoint-*")} == {
        "checkpoint-4",
        "checkpoint-8",
    }


def test_the_training_ends_with_the_last_task(tmp_path: Path) -> None:
    """Three tasks in batches of two: the last one is filled up with rows that carry no loss."""
    stages = 'stages=[{name="all", epochs=1}]'
    config = ahead("curriculum=static", stages, "env.train_tasks=3", "updates=9")
    ended = train(tmp_path / "out", config, save_steps=9)
    assert [len(u.dealt) for u in ended.updates] == [2, 1]
    assert all(s.advantage == 0 for s in ended.updates[-1].samples[2:])
    assert (tmp_path / "out" / "checkpoint-2" / "rods.pt").is_file()
    assert ended.log[-1]["step"] == 2
    with pytest.raises(TrainError, match="all stages are played"):
        train(tmp_path / "out", config, resume=str(tmp_path / "out" / "checkpoint-2"), save_steps=9)


def test_what_is_finished_or_within_an_update_is_not_gone_on_with(
    trained: Trained, tmp_path: Path
) -> None:
    from rods.trainers.trl.ahead import CurriculumAsyncGRPOTrainer

    shutil.copytree(trained.folder, tmp_path / "out")
    last = str(tmp_path / "out" / "checkpoint-6")
    with pytest.raises(TrainError, match="all 6 steps"):
        train(tmp_path / "out", trained.config, last)
    within = SimpleNamespace(
        state=SimpleNamespace(global_step=3),
        args=SimpleNamespace(max_steps=8),
        parts=SimpleNamespace(steps=2),
    )
    with pytest.raises(TrainError, match="after step 3, within an update of 2 steps"):
        CurriculumAsyncGRPOTrainer.require_left(within)


@pytest.mark.usefixtures("worker_thread")
def test_what_was_in_flight_at_a_checkpoint_is_drawn_again(
    trained: Trained, tmp_path: Path
) -> None:
    shutil.copytree(trained.folder, tmp_path / "out")
    before = visits(tmp_path / "out" / "checkpoint-3", tmp_path)
    in_flight = [(epoch, task) for epoch, _, task, status, *_ in before if status != "done"]
    resumed = train(tmp_path / "out", trained.config, str(tmp_path / "out" / "checkpoint-3"))
    assert len(resumed.updates) == 3
    again = [(d.epoch, d.task.id) for u in resumed.updates for d in u.dealt]
    assert len(set(again)) == len(again)
    assert again[: len(in_flight)] == in_flight[: len(again)]
    after = visits(tmp_path / "out" / "checkpoint-6", tmp_path)
    done = [row for row in before if row[3] == "done"]
    assert [row for row in after if row[:3] in {d[:3] for d in done}] == done, "judged once"
    assert sum(row[3] == "done" for row in after) == 6 * 2


def program(out: Path, settings: Sequence[str]) -> list[str]:
    words = [f"--{text}" for text in [*SMALL, *settings]]
    return [sys.executable, str(Path(trl_cpu.__file__)), "trl", *words, "--out", str(out)]


def stopped(out: Path, by: signal.Signals, settings: Sequence[str]) -> tuple[int, str]:
    """A training that gets a signal after its second checkpoint: its exit status and its words."""
    path = out.parent / "log"
    with path.open("w") as log:
        running = subprocess.Popen(
            program(out, settings), stdout=log, stderr=log, env=environment()
        )
        wait_for(out / "checkpoint-2" / "trainer_state.json", running)
        running.send_signal(by)
        ended = running.wait(120)
    return ended, path.read_text()


def test_invariant_8_a_killed_trainer_goes_on_with_the_same_pool(tmp_path: Path) -> None:
    """Exactly on-policy, so that a run which was not killed samples the same."""
    exact = [*AHEAD, "rollout.pipeline.staleness=0"]
    out = tmp_path / "out"
    ended, _ = stopped(out, signal.SIGKILL, exact)
    assert ended < 0
    assert not (out / f"checkpoint-{STEPS}").exists()
    made = subprocess.run(
        [*program(out, exact), "--resume"],
        capture_output=True, text=True, timeout=600, env=environment(),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rods.synthesis.worker.client.Popen", ThreadProcess)
        whole = train(tmp_path / "whole", small(*exact))
    assert all(g.policy_version == n for n, u in enumerate(whole.updates) for g in u.groups)
    last = visits(out / f"checkpoint-{STEPS}", tmp_path)
    assert last == visits(tmp_path / "whole" / f"checkpoint-{STEPS}", tmp_path)
    assert sum(row[3] == "done" for row in last) == STEPS * 2


def test_ctrl_c_ends_it_and_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended, said = stopped(out, signal.SIGINT, [*AHEAD, "updates=99"])
    assert ended == 130
    assert f"From the last checkpoint: rods trl --out {out} --resume" in said
    assert "Traceback" not in said


def test_what_stops_the_playing_stops_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("a world is broken")

    monkeypatch.setattr("rods.rollout.groups.Player.group", broken)
    with pytest.raises(ValueError, match="a world is broken"):
        train(tmp_path / "out", ahead("curriculum=static", 'stages=[{name="all", epochs=1}]'))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *REFUSED,
        (["train.kl=0.01"], "train.kl = 0.01"),
        (["train.entropy=0.001"], "train.entropy"),
        (["train.dual_clip=10"], "train.dual_clip = 10"),
        (["train.loss=gspo"], 'train.loss = "gspo"'),
        (["train.credit=turn"], 'train.credit = "turn"'),
        (["train.correction.method=recompute"], "recompute"),
        (["rollout.schedule=asynchronous"], 'rollout.schedule = "asynchronous"'),
    ],
)
def test_what_trl_has_not_is_refused(changes: Sequence[str], named: str, tmp_path: Path) -> None:
    from rods.trainers.trl.ahead import async_grpo_args

    with pytest.raises(ConfigError, match=named):
        async_grpo_args(ahead(*changes), str(tmp_path))


def test_several_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rods.trainers.trl.ahead import async_grpo_args

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="runs in one process"):
        async_grpo_args(ahead(), str(tmp_path))


def test_without_the_stand_in_a_cpu_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rods.trainers.trl.ahead import CurriculumAsyncGRPOTrainer, async_grpo_args

    packing = importlib.import_module("trl.experimental.async_grpo.packing")
    monkeypatch.setattr(packing, "_flash_attn", packing.register_tree_attention)
    with rods.hosted(ahead()) as run, pytest.raises(ConfigError, match="needs a GPU"):
        CurriculumAsyncGRPOTrainer(run, async_grpo_args(run.config, str(tmp_path)))


def test_the_package_that_fetches_the_kernel_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from rods.trainers.trl.ahead_args import require_kernel

    packing = importlib.import_module("trl.experimental.async_grpo.packing")
    monkeypatch.setattr(packing, "_flash_attn", packing.register_tree_attention)
    monkeypatch.setitem(sys.modules, "kernels", None)
    with pytest.raises(PrerequisiteError, match="pip install kernels"):
        require_kernel(SimpleNamespace(use_cpu=False))


def test_an_engine_on_the_trainers_own_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rods.trainers.trl.shared import engine_of

    def own(*given: Any) -> Any:
        engine, template = engine_of(*given)
        engine.capabilities = Capabilities("shared")
        return engine, template

    monkeypatch.setattr("rods.trainers.trl.ahead.engine_of", own)
    with pytest.raises(ConfigError, match="weights of its own"):
        train(tmp_path / "out", ahead("curriculum=static", "rollout.pipeline.staleness=0"))


def test_the_engine_sleeps_through_updates_that_nothing_is_played_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[int] = []

    async def sleep(_: object) -> None:
        slept.append(1)

    monkeypatch.setattr("rods.engines.hf.HFPolicy.sleep", sleep)
    changes = ["curriculum=static", "updates=2"]
    train(tmp_path / "exact", ahead(*changes, "rollout.pipeline.staleness=0"))
    assert len(slept) == 2
    train(tmp_path / "beside", ahead(*changes))
    assert len(slept) == 2


def test_arguments_that_contradict_the_recipe_are_refused(tmp_path: Path) -> None:
    from rods.trainers.trl.ahead import CurriculumAsyncGRPOTrainer, async_grpo_args

    with rods.hosted(ahead()) as run:
        args = async_grpo_args(run.config, str(tmp_path), temperature=0.5, max_staleness=4)
        with pytest.raises(ConfigError, match=r"temperature\): 0.5, expected 1.*staleness\): 4"):
            CurriculumAsyncGRPOTrainer(run, args)
        args = async_grpo_args(run.config, str(tmp_path), token_budget=4096, queue_maxsize=9)
        with pytest.raises(ConfigError, match=r"queue_maxsize.*9.*token_budget"):
            CurriculumAsyncGRPOTrainer(run, args)
        args = async_grpo_args(run.config, str(tmp_path), enable_jit_checkpoint=True)
        with pytest.raises(ConfigError, match="enable_jit_checkpoint: True, expected False"):
            CurriculumAsyncGRPOTrainer(run, args)
        args = async_grpo_args(run.config, str(tmp_path))
        with pytest.raises(ConfigError, match="CurriculumAsyncGRPOTrainer got rollout_worker"):
            CurriculumAsyncGRPOTrainer(run, args, rollout_worker=object())


def test_an_argument_that_trl_has_not_is_refused(tmp_path: Path) -> None:
    from rods.trainers.trl.ahead import async_grpo_args

    with pytest.raises(ConfigError, match="AsyncGRPOConfig has no argument 'num_iterations'"):
        async_grpo_args(ahead(), str(tmp_path), num_iterations=2)
