"""The verl adapter through verl's own entrance: its V1 trainer on Ray, its loader, its checkpoints.

The bundled policy on the benchmark, variants by the real worker, a server of verl's on our engine
(`verl_cpu.py`, `verl_server.py`); what the trainer was given is read afterwards, step by step
(`verl_watch.py`). `.ci/hosts` runs these tests.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

import rods
from places import SOURCE, SUPPORT
from pool_cases import FakeQueue, judged_draws
from rods.config import RunConfig
from rods.config.bundled import BUNDLED
from rods.curriculum.draws import DONE, DUE
from rods.curriculum.online import OnlineCurriculum
from rods.errors import ConfigError, PrerequisiteError
from rods.integrations.verl.start import WITH_VALUES, require_trl_of_verl
from rods.registry import recipe_names
from rods.trainers.samples import host_row

pytestmark = [
    pytest.mark.slow,
    pytest.mark.hosts,
    pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs verl: .ci/hosts"),
    pytest.mark.timeout(2400),  # a start of Ray and verl takes minutes where cores are shared
    pytest.mark.filterwarnings("ignore"),  # verl's own
]

STEPS, K = 5, 4
SMALL = [
    f"updates={STEPS}", f"rollout.k={K}", "rollout.tasks_per_step=2", "env.train_tasks=4",
    "rollout.generated_tokens=144", "train.lr=2e-5", "rollout.step_tokens=24", "model.threads=1",
    "model.lora_rank=0", "model.dtype=float32",
    "boundary.low=0.0", "boundary.high=1.0", "boundary.cooldown_epochs=0.0",
    "replay.inject=1.0", "replay.retire=[]", "synthesis.drain_seconds=120.0",
    "train.minibatch=0", "train.schedule=constant", "train.aggregation=token",
    "train.local.checkpoint_steps=1", "train.credit=trajectory",
    "evaluation.tasks=1", "evaluation.variants=0", "evaluation.samples=0",
    'stages=[{name="all", epochs=9, expand=true}]',
]  # fmt: skip
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
ON_A_CPU = [
    f"{ROLLOUT}.name=rods_cpu", f"{ROLLOUT}.load_format=auto", f"{ROLLOUT}.agent.num_workers=1",
    f"{ROLLOUT}.full_determinism=True", f"{ROLLOUT}.free_cache_engine=False",
    f"{ACTOR}.use_torch_compile=False", f"{ACTOR}.fsdp_config.use_torch_compile=False",
    "trainer.device=cpu",
    "actor_rollout_ref.model.external_lib=verl_server",
    "actor_rollout_ref.model.use_remove_padding=False",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "+ray_kwargs.ray_init.address=local",
    "ray_kwargs.ray_init.num_cpus=16", "+ray_kwargs.ray_init.num_gpus=1",
    "+ray_kwargs.ray_init.include_dashboard=False",
]  # fmt: skip


class Step(NamedTuple):
    """What one update was made of."""

    drawn: list[Any]
    groups: list[Any]
    scores: list[Any]
    rows: list[dict[str, Any]]
    """Judgements as they are logged."""
    table: dict[str, list[Any]]
    """verl's batch, a list for each field."""
    metrics: dict[str, float]
    actors: list[str]
    """Classes of all actors of verl's Ray."""

    @property
    def played(self) -> list[tuple[int, Any]]:
        """Row of verl's batch and trajectory, of those that stand in it."""
        known = {
            (f"{d.epoch}:{d.task.id}", t.member): t
            for d, group in zip(self.drawn, self.groups, strict=True)
            for t in group.trajectories
        }
        table = self.table
        rows = range(len(table["ticket"]))
        return [
            (i, known[table["ticket"][i], int(table["session_id"][i])])
            for i in rows
            if not table["padding"][i]
        ]


def small(*changes: str) -> RunConfig:
    return rods.load_config("rods", "small", [*SMALL, *changes])


def command(folder: Path, *more: str) -> list[str]:
    how = "--resume" if (folder / "latest_checkpointed_iteration.txt").exists() else "--out"
    words = [sys.executable, "-m", "rods.cli.main", "verl", "--gpus", "1", how, str(folder)]
    return [*words, *(f"--{text}" for text in SMALL), *ON_A_CPU, *more]


def environment(watched: Path | None = None, **more: str) -> dict[str, str]:
    known = os.environ.get("PYTHONPATH", "")
    own = {
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(SOURCE.parent), known]),
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",  # sixteen idle ones
        "PYTHONWARNINGS": "ignore",
    }
    if watched is not None:
        watched.mkdir(parents=True, exist_ok=True)
        own["RODS_WATCH"] = str(watched)
    return {**os.environ, **own, **more}


def steps_of(watched: Path) -> dict[int, Step]:
    files = sorted(watched.glob("step-*.pkl"))
    return {int(f.stem[5:]): Step(**pickle.loads(f.read_bytes())) for f in files}


def train(folder: Path, *more: str, **variables: str) -> dict[int, Step]:
    """A whole training; its steps by number."""
    watched = folder.with_suffix(".watched")
    made = subprocess.run(
        command(folder, *more),
        capture_output=True,
        text=True,
        env=environment(watched, **variables),
    )
    assert made.returncode == 0, (made.stdout + made.stderr)[-6000:]
    return steps_of(watched)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verl") / "out"


@pytest.fixture(scope="module")
def trained(folder: Path) -> dict[int, Step]:
    return train(folder)


AHEAD = ["--rollout.schedule", "pipelined"]
"""verl's mode `colocate_async`, one update behind at most."""


@pytest.fixture(scope="module")
def ahead_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ahead") / "out"


@pytest.fixture(scope="module")
def ahead(ahead_folder: Path) -> dict[int, Step]:
    return train(ahead_folder, *AHEAD, RODS_SLOW="1.0")


@pytest.fixture(params=["trained", "ahead"])
def either(request: pytest.FixtureRequest) -> dict[int, Step]:
    """A training in turn, or one whose rollouts go ahead."""
    steps: dict[int, Step] = request.getfixturevalue(request.param)
    return steps


def require_injection(steps: Mapping[int, Step]) -> None:
    """Variants that were ordered in epoch 0 are played by verl in epoch 1, and none before."""
    played = [d for step in steps.values() for d in step.drawn]
    assert {d.epoch for d in played} >= {0, 1}
    assert all(d.task.is_original for d in played if d.epoch == 0)
    variants = [d.task for d in played if d.epoch == 1 and not d.task.is_original]
    first = {d.task.id for d in played if d.epoch == 0}
    assert variants and all(set(t.provenance.ancestors) <= first for t in variants)


def test_a_task_injected_at_epoch_n_is_drawn_at_n_plus_1(trained: dict[int, Step]) -> None:
    assert list(trained) == [1, 2, 3, 4, 5]
    assert all(len(step.drawn) == 2 for step in trained.values())
    require_injection(trained)


def test_without_replay_the_contract_is_broken(tmp_path: Path) -> None:
    """What the test above asserts fails where nothing is injected."""
    fixed = train(tmp_path / "out", "--replay.inject", "0.0", "--updates", "3")
    assert {d.epoch for step in fixed.values() for d in step.drawn} == {0, 1}
    with pytest.raises(AssertionError):
        require_injection(fixed)


def test_invariant_1_masks_are_exact_token_by_token(either: dict[int, Step]) -> None:
    inserted = 0
    for step in either.values():
        table = step.table
        assert len(step.played) == 2 * K
        for i, trajectory in step.played:
            ledger = trajectory.ledger
            prompt, response = table["prompts"][i], table["responses"][i]
            whole = prompt + response
            assert whole == ledger.ids[: len(whole)], "sampled ids, never encoded again"
            assert not any(ledger.mask[len(whole) :]) and ledger.mask[len(whole) - 1]
            mask = [int(m) for m in ledger.mask[len(prompt) : len(whole)]]
            assert not any(ledger.mask[: len(prompt)]) and mask[0]
            trained_on = table["response_mask"][i]
            assert trained_on == table["loss_mask"][i]
            assert trained_on == mask or not any(trained_on), "all that was sampled, or nothing"
            logprobs = np.float32(ledger.logprobs[len(prompt) : len(whole)])
            assert np.array_equal(np.float32(table["rollout_log_probs"][i]), logprobs)
            assert table["old_log_probs"][i] == table["rollout_log_probs"][i]
            inserted += mask.count(0)
    assert inserted > 50, "the environment spoke within responses"


def test_rewards_and_advantages_are_those_of_the_recipe(either: dict[int, Step]) -> None:
    informative = 0
    for step in either.values():
        batch = _collected(step)
        samples = {(step.groups[s.group].task.id, s.member): s for s in batch.samples}
        values = {
            (group.task.id, t.member): score.value
            for group, row in zip(step.groups, step.scores, strict=True)
            for t, score in zip(group.trajectories, row, strict=True)
        }
        for i, trajectory in step.played:
            key = trajectory.task_id, trajectory.member
            points = step.table["rm_scores"][i]
            assert points[-1] == pytest.approx(values[key]) and not any(points[:-1])
            expected = host_row(trajectory, samples.get(key))
            carries = expected.trained if samples else expected.mask
            assert step.table["response_mask"][i] == carries
            assert step.table["advantages"][i] == pytest.approx(expected.advantages)
        informative += len(samples)
    assert informative > 0, "some group taught something"


def test_most_steps_update_the_policy(trained: dict[int, Step]) -> None:
    """Those in which some group taught something, and no other."""
    norms = {n: step.metrics.get("actor/grad_norm", 0.0) for n, step in trained.items()}
    teaching = {n for n, step in trained.items() if _collected(step).samples}
    assert {n for n, norm in norms.items() if norm > 0.0} == teaching
    assert len(teaching) >= 3, norms


def _collected(step: Step) -> Any:
    from rods.trainers.collect import collect

    return collect(step.groups, step.scores, "grpo")


def test_the_boundary_sees_what_the_local_trainer_shows_it(
    trained: dict[int, Step], tmp_path: Path
) -> None:
    """The same trajectories, observed as `rods train` does it, give the same judgements."""
    first = [trained[1], trained[2]]
    originals = {d.task.id: d.task for step in first for d in step.drawn}
    local = OnlineCurriculum(small(), list(originals.values()), FakeQueue())
    for step in first:
        drawn = local.draw(2)
        assert [(t.id, e) for t, e in drawn] == [(d.task.id, d.epoch) for d in step.drawn]
        judged = local.judge(step.groups, step.scores, [epoch for _, epoch in drawn])
        assert [local.log_row(j) for j in judged if j] == step.rows


def visits(checkpoint: Path) -> list[tuple[Any, ...]]:
    """All judgements in a checkpoint's pool, in the order of the draws."""
    import torch

    saved = torch.load(checkpoint / "data.pt", weights_only=False)
    return judged_draws(_found(saved, "curriculum"))


def _found(value: Any, key: str) -> Any:
    """What stands under a key somewhere in the state of verl's loader."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        rows = [_found(v, key) for v in value.values()]
        return next((row for row in rows if row is not None), None)
    return None


@pytest.mark.parametrize("victim", ["driver", "agent worker", "synthesis worker"])
def test_invariant_8_whoever_is_killed_the_pool_is_the_same(
    victim: str, trained: dict[int, Step], folder: Path, tmp_path: Path
) -> None:
    """A driver and an agent worker of verl's end the training, which goes on from its checkpoint; a
    synthesis worker is replaced.
    """
    out, words = tmp_path / "out", tmp_path / "log"
    with words.open("w") as log:
        watched = environment(out.with_suffix(".watched"))
        running = subprocess.Popen(
            command(out), stdout=log, stderr=log, env=watched, start_new_session=True
        )
        wait_for(out, 2, running)
        if victim == "driver":
            os.killpg(running.pid, signal.SIGKILL)
        else:
            kill(running, VICTIMS[victim])
        ended = running.wait(2000)
    if victim == "synthesis worker":
        assert ended == 0, words.read_text()[-6000:]
        resumed = steps_of(out.with_suffix(".watched"))
        assert list(resumed) == list(trained)
    else:
        assert ended != 0 and not (out / f"global_step_{STEPS}").exists()
        if victim == "agent worker":
            assert "AgentLoopWorker" in words.read_text(), "the log names who died"
        shutil.rmtree(out.with_suffix(".watched"))
        time.sleep(10.0)  # Ray's processes end when they see that their driver is gone
        resumed = train(out)
        assert min(resumed) in (3, 4) and max(resumed) == STEPS
    for step, record in resumed.items():
        drawn = [(d.task.id, d.epoch) for d in record.drawn]
        assert drawn == [(d.task.id, d.epoch) for d in trained[step].drawn]
    last = visits(out / f"global_step_{STEPS}")
    assert last == visits(folder / f"global_step_{STEPS}")
    assert {row[3] for row in last} <= {DONE, DUE} and len(last) > 4


VICTIMS = {"agent worker": "ray::AgentLoopWorker", "synthesis worker": "rods.synthesis.worker"}
"""Part of their command lines."""


def kill(running: subprocess.Popen[bytes], name: str) -> None:
    """SIGKILL to those processes below a training that are called so."""
    family = psutil.Process(running.pid).children(recursive=True)
    found = [process for process in family if name in " ".join(process.cmdline())]
    assert found, [process.cmdline()[:3] for process in family]
    for process in found:
        process.kill()


def wait_for(out: Path, step: int, running: subprocess.Popen[bytes], seconds: float = 2000) -> None:
    """Until verl has finished the checkpoint of a step."""
    tracker = out / "latest_checkpointed_iteration.txt"
    end = time.monotonic() + seconds
    while not (tracker.exists() and int(tracker.read_text() or 0) >= step):
        assert running.poll() is None and time.monotonic() < end, tracker
        time.sleep(0.2)


def draws_of(steps: Mapping[int, Step]) -> list[tuple[str, int]]:
    return [(d.task.id, d.epoch) for step in steps.values() for d in step.drawn]


def test_rollouts_that_go_ahead_are_one_update_behind_at_most(ahead: dict[int, Step]) -> None:
    assert list(ahead) == [1, 2, 3, 4, 5]
    behind = [
        number - 1 - group.policy_version for number, step in ahead.items() for group in step.groups
    ]
    assert len(behind) == 2 * STEPS and set(behind) == {0, 1}, behind
    drawn = draws_of(ahead)
    assert len(set(drawn)) == len(drawn), "no draw is trained on twice"
    require_injection(ahead)
    mixed = [
        trajectory
        for step in ahead.values()
        for _, trajectory in step.played
        if len({span.version for span in trajectory.spans if span.sampled}) > 1
    ]
    assert mixed, "trajectories go on under new weights"


def test_what_was_in_flight_at_a_kill_is_drawn_again(ahead_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(
            command(out, *AHEAD),
            stdout=log,
            stderr=log,
            env=environment(tmp_path / "killed"),
            start_new_session=True,
        )
        wait_for(out, 2, running)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    time.sleep(10.0)  # as above
    resumed = train(out, *AHEAD)
    first = min(resumed)
    assert first in (3, 4) and max(resumed) == STEPS
    before = {n: step for n, step in steps_of(tmp_path / "killed").items() if n < first}
    drawn = draws_of({**before, **resumed})
    assert len(drawn) == 2 * STEPS and len(set(drawn)) == len(drawn)
    last = visits(out / f"global_step_{STEPS}")
    judged = [(row[2], row[0]) for row in last if row[3] == DONE]
    assert sorted(judged) == sorted(drawn), "the pool knows all that was trained on, once"


def test_a_lost_group_is_played_again_and_the_last_step_is_filled(tmp_path: Path) -> None:
    out, marker = tmp_path / "out", tmp_path / "failed"
    few = ["--env.train_tasks", "5", "--updates", "9"]
    one = ["--stages", '[{name="all", epochs=1, expand=true}]']
    steps = train(out, *AHEAD, *few, *one, RODS_FAIL_ONCE=str(marker))
    drawn = draws_of(steps)
    assert [len(step.drawn) for step in steps.values()] == [2, 2, 1]
    assert len(set(drawn)) == 5, "five tasks, once each, then the training ends"
    assert marker.read_text() in {f"{epoch}:{task}" for task, epoch in drawn}
    assert (out / "global_step_3" / "data.pt").exists()


PPO = [
    "--train.advantage", "gae", "critic.model.external_lib=verl_server",
    "critic.model.use_remove_padding=False", "critic.fsdp.use_torch_compile=False",
    "+critic.model.override_config.attn_implementation=sdpa",
]  # fmt: skip


@pytest.fixture(scope="module")
def on_actors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where REINFORCE++ trained, with variants made by an actor."""
    out = tmp_path_factory.mktemp("reinforce") / "out"
    train(
        out, "--updates", "3", "algorithm.adv_estimator=reinforce_plus_plus", "--ray.writers", "1"
    )
    return out


@pytest.fixture(scope="module")
def ppo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ppo") / "out"
    train(out, "--updates", "3", *PPO)
    return out


@pytest.mark.parametrize("algorithm", ["on_actors", "ppo"])
def test_verl_s_own_algorithms_train_on_what_we_play(
    algorithm: str, request: pytest.FixtureRequest
) -> None:
    out: Path = request.getfixturevalue(algorithm)
    steps = steps_of(out.with_suffix(".watched"))
    assert list(steps) == [1, 2, 3]
    for step in steps.values():
        for i, trajectory in step.played:
            row = host_row(trajectory, None)
            assert step.table["response_mask"][i] == row.mask, "whatever was sampled carries loss"
            assert np.isfinite(step.table["advantages"][i]).all()
        assert np.isfinite(step.metrics["actor/grad_norm"])
    assert any(any(row) for step in steps.values() for row in step.table["advantages"])


def accepted(out: Path) -> dict[tuple[str, int], str]:
    """Variants by seed and number."""
    with sqlite3.connect(out / "rods" / "synthesis.sqlite") as db:
        rows = db.execute("SELECT seed, number, task FROM outcomes WHERE task IS NOT NULL")
        made = {(seed, number): task for seed, number, task in rows}
    db.close()
    return made


def test_an_actor_in_verl_s_ray_makes_the_same_variants(
    trained: dict[int, Step], folder: Path, on_actors: Path
) -> None:
    """The worker joins the Ray of the task runner that started it, and ends nothing there."""
    for step in steps_of(on_actors.with_suffix(".watched")).values():
        assert step.actors.count("WriterActor") == 1
    assert not any("WriterActor" in step.actors for step in trained.values())
    here, there = accepted(folder), accepted(on_actors)
    both = here.keys() & there.keys()
    assert both and all(here[key] == there[key] for key in both)


@pytest.mark.parametrize("nodes", [1, 4])
def test_full_recipes_compose_to_what_verl_accepts(nodes: int, tmp_path: Path) -> None:
    from rods.integrations.verl.config import compose

    config = rods.load_config("rods", "full")
    cfg = compose(config, str(tmp_path), ["trainer.logger=[console,wandb]"], nodes, 8)
    assert (cfg.trainer.nnodes, cfg.trainer.n_gpus_per_node) == (nodes, 8)
    assert (cfg.data.train_batch_size, cfg.actor_rollout_ref.rollout.n) == (32, 16)
    actor = cfg.actor_rollout_ref.actor
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.kl_loss_coef) == (0.2, 0.28, 0.01)
    assert actor.use_kl_loss and actor.loss_agg_mode == "token-mean" and actor.optim.lr == 1e-6
    assert actor.fsdp_config.fsdp_size == (-1 if nodes == 1 else 8)
    assert list(cfg.trainer.logger) == ["console", "wandb"]
    assert cfg.algorithm.adv_estimator == "rods"


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("recipe", ["rods", "otc_ppo"])
def test_megatron_s_names_are_found(recipe: str, nodes: int, tmp_path: Path) -> None:
    from rods.integrations.verl.config import compose

    megatron = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4"
    config = rods.load_config(recipe, "full", [f"model.name={BUNDLED['tiny']}"])
    cfg = compose(config, str(tmp_path), ["model_engine=megatron", megatron], nodes, 8)
    actor = cfg.actor_rollout_ref.actor
    assert actor.strategy == cfg.critic.strategy == "megatron"
    assert actor.megatron.tensor_model_parallel_size == 4
    assert (actor.optim.lr, actor.optim.lr_decay_style) == (config.train.lr, config.train.schedule)
    assert actor.optim.clip_grad == config.train.local.grad_clip


REFUSED = {"toolrl": "train.kl_in", "zerotir": "train.filtering"}


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_composes_or_says_why_not(recipe: str, nodes: int, tmp_path: Path) -> None:
    from rods.integrations.verl.config import compose

    config = rods.load_config(recipe, "full")
    if recipe in REFUSED:
        with pytest.raises(ConfigError, match=REFUSED[recipe]):
            compose(config, str(tmp_path), [], nodes, 8)
        return
    # PPO's critic is read from its folder, and no hub can be asked.
    model = config.model.model_copy(update={"name": str(BUNDLED["tiny"])})
    cfg = compose(config.model_copy(update={"model": model}), str(tmp_path), [], nodes, 8)
    assert cfg.data.train_batch_size == config.rollout.tasks_per_step
    assert cfg.actor_rollout_ref.actor.optim.lr == config.train.lr
    expected = "gae" if config.train.advantage == "gae" else "rods"
    assert cfg.algorithm.adv_estimator == expected
    assert cfg.actor_rollout_ref.rollout.max_model_len == config.rollout.context_tokens


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("actor_rollout_ref.rollout.n=8", f"rollout.n=8, expected {K}"),
        ("trainer.v1.trainer_mode=colocate_async", "trainer_mode=colocate_async, expected sync"),
        ("actor_rollout_ref.rollot.n=4", "rollot"),
        ("actor_rollout_ref.model.path=other", "model.path=other, expected"),
        ("actor_rollout_ref.rollout.max_model_len=99", "max_model_len=99, expected"),
        ("data.max_response_length=99", "max_response_length=99, expected"),
        ("data.custom_cls.name=Mine", "custom_cls.name=Mine, expected CurriculumDataset"),
        ("actor_rollout_ref.rollout.top_k=50", "top_k=50, expected -1"),
        ("actor_rollout_ref.actor.loss_agg_mode=mean", "verl refuses the configuration"),
    ],
)
def test_overrides_that_contradict_are_refused(asked: str, named: str, tmp_path: Path) -> None:
    from rods.integrations.verl.config import compose

    with pytest.raises(ConfigError, match=named):
        compose(small(), str(tmp_path), [asked])


def test_an_estimator_of_verl_s_takes_no_credit_away(tmp_path: Path) -> None:
    from rods.integrations.verl.config import compose

    with pytest.raises(ConfigError, match=r'knows no train\.credit = "turn"'):
        compose(small("train.credit=turn"), str(tmp_path), ["algorithm.adv_estimator=grpo"])


def test_a_checkpoint_without_our_state_is_refused(
    trained: dict[int, Step], folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(folder, out)
    latest = int((out / "latest_checkpointed_iteration.txt").read_text())
    (out / f"global_step_{latest}" / "data.pt").unlink()
    before = (out / "rods" / "synthesis.sqlite").read_bytes()
    words = command(out, "--updates", "6")  # one more, or the training is finished
    made = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=2000)
    assert made.returncode == 2 and "data.pt is missing" in made.stderr
    assert (out / "rods" / "synthesis.sqlite").read_bytes() == before, "what was there is kept"


@pytest.mark.parametrize("source", ["", f"{WITH_VALUES} = None"], ids=["newer", "known"])
def test_a_trl_that_verl_fails_beside_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_trl_of_verl()  # none is installed here
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    if source:
        require_trl_of_verl()
    else:
        with pytest.raises(PrerequisiteError, match="cannot run beside the TRL"):
            require_trl_of_verl()
    sys.modules.pop("trl", None)
