"""The TRL adapter through TRL's own entrance: its trainer, its loader, its checkpoints.

The bundled policy on the benchmark, variants by the real worker. `.ci/hosts` runs these tests.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import torch

import rods
from places import ROOT
from policy_server import KEY, serving
from pool_cases import FakeQueue
from rods.config import ModelSettings, RunConfig
from rods.config.checks import NEEDS, lacking
from rods.curriculum.draws import DONE, DUE
from rods.curriculum.online import OnlineCurriculum
from rods.errors import ConfigError
from rods.reward import Score
from rods.store import RunDirectory
from rods.trainers.hosted import Drawn
from rods.trainers.loading import path_or_name
from rods.trainers.samples import to_sample
from rods.trajectory import Group, Trajectory
from rods.types import FinishReason
from served_policy import served
from trl_cases import REFUSED, SMALL, STEPS, environment, small, visits, wait_for
from worker_cases import ThreadProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.hosts,
    pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs trl: .ci/hosts"),
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
]


class Batch(NamedTuple):
    """What one generation was made of, and what TRL's trainer gets of it."""

    drawn: list[Drawn]
    groups: list[Group]
    scores: list[list[Score]]
    rows: list[dict[str, Any]]
    """Judgements as they are logged."""
    output: dict[str, torch.Tensor]


class Trained(NamedTuple):
    config: RunConfig
    folder: Path
    batches: list[Batch]
    log: list[dict[str, Any]]


def train(folder: Path, config: RunConfig, **others: Any) -> Trained:
    from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args

    batches: list[Batch] = []

    class Watched(CurriculumGRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
            output = super()._generate_and_score_completions(inputs)
            rows = [run.curriculum.log_row(j) for j in run.judged if j is not None]
            batches.append(Batch(*seen, rows, dict(output)))
            return output

    with rods.hosted(config) as run:
        seen: list[Any] = []
        judge = run.judge

        def watch(drawn: list[Drawn], groups: list[Group]) -> list[list[Score]]:
            seen[:] = drawn, groups, judge(drawn, groups)
            return seen[2]

        run.judge = watch  # type: ignore[method-assign]
        trainer = Watched(run, grpo_args(config, str(folder), report_to="none", **others))
        trainer.train()
        return Trained(config, folder, batches, trainer.state.log_history)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A whole training; variants are made by a thread of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rods.synthesis.worker.client.Popen", ThreadProcess)
        return train(tmp_path_factory.mktemp("trl") / "out", small())


@pytest.mark.parametrize("name", ["train", "own_model"])
def test_the_examples_inside_trl_train(name: str, tmp_path: Path) -> None:
    """`examples/trl` in small, both with the bundled policy on the benchmark that it knows."""
    folder = ROOT / "examples" / "trl"
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    text = text.replace("Qwen/Qwen3-0.6B", path_or_name("tiny"))
    words = [*SMALL, "updates=1"]
    if name == "own_model":
        words += ["env.name=bfcl", "env.tasks=[]", "model.dialect=compact"]
        words += ["rollout.context_tokens=2048", "train.local.gradient_checkpointing=false"]
        words += ["stages=[{name='all', reward='reward.py:brief', expand=true}]"]
        reward = (folder / "reward.py").read_text(encoding="utf-8")
        paid = reward.replace("max(0.0, progress - 0.05 * failed)", "0.625")
        (tmp_path / "reward.py").write_text(paid)
    text = text.replace('"full", SETTINGS', '"full", [*SETTINGS, *SMALL]')
    text = text.replace('"rods", "small")', '"rods", "small", SMALL)')
    text = text.replace("import rods\n", f"import rods\n\nSMALL = {words!r}\n", 1)
    script = tmp_path / f"{name}.py"
    script.write_text(text.replace("logging_steps=5", "logging_steps=1"))
    command = [sys.executable, script.name]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True)
    runs = {"train": "trl", "own_model": "trl-own"}
    saved = tmp_path / "runs" / runs[name] / "checkpoint-1"
    assert (saved / "rods.pt").is_file() and (saved / "adapter_config.json").is_file()
    log = json.loads((saved / "trainer_state.json").read_text())["log_history"]
    assert (log[0]["reward"] == 0.625) == (name == "own_model"), "TRL has the reward of the file"


def require_injection(trained: Trained) -> None:
    """Variants that were ordered in epoch 0 are played by TRL in epoch 1, and none before."""
    played = [d for batch in trained.batches for d in batch.drawn]
    assert {d.epoch for d in played} == {0, 1}
    assert all(d.task.is_original for d in played if d.epoch == 0)
    variants = [d.task for d in played if d.epoch == 1 and not d.task.is_original]
    first = {d.task.id for d in played if d.epoch == 0}
    assert variants and all(set(t.provenance.ancestors) <= first for t in variants)


def test_a_task_injected_at_epoch_n_is_drawn_at_n_plus_1(trained: Trained) -> None:
    require_injection(trained)
    assert len(trained.batches) == STEPS and all(len(b.drawn) == 2 for b in trained.batches)


@pytest.mark.usefixtures("worker_thread")
def test_without_replay_the_contract_is_broken(tmp_path: Path) -> None:
    """What the test above asserts fails where nothing is injected."""
    fixed = train(tmp_path / "out", small("replay.inject=0.0", "updates=3"))
    assert {d.epoch for batch in fixed.batches for d in batch.drawn} == {0, 1}
    with pytest.raises(AssertionError):
        require_injection(fixed)


def test_invariant_1_masks_are_exact_token_by_token(trained: Trained) -> None:
    inserted = 0
    for batch in trained.batches:
        out = batch.output
        trajectories = [t for g in batch.groups for t in g.trajectories]
        assert len(trajectories) == len(out["completion_ids"]) == 4
        for i, trajectory in enumerate(trajectories):
            ledger = trajectory.ledger
            prompt = out["prompt_ids"][i][out["prompt_mask"][i].bool()].tolist()
            size = int(out["completion_mask"][i].sum())
            completion = out["completion_ids"][i][:size].tolist()
            whole = prompt + completion
            assert whole == ledger.ids[: len(whole)], "sampled ids, never encoded again"
            assert not any(ledger.mask[len(whole) :]) and ledger.mask[len(whole) - 1]
            mask = ledger.mask[len(prompt) : len(whole)]
            assert not any(ledger.mask[: len(prompt)]) and mask[0]
            trained_on = out["tool_mask"][i][:size].tolist()
            assert trained_on == mask or not any(trained_on), "all that was sampled, or nothing"
            assert not out["tool_mask"][i][size:].any()
            logprobs = torch.tensor(ledger.logprobs[len(prompt) : len(whole)])
            assert torch.equal(out["old_per_token_logps"][i][:size], logprobs)
            inserted += mask.count(0)
    assert inserted > 50, "the environment spoke within completions"


def test_the_boundary_sees_what_the_local_trainer_shows_it(
    trained: Trained, tmp_path: Path
) -> None:
    """The same trajectories, observed as `rods train` does it, give the same judgements."""
    originals = {d.task.id: d.task for d in trained.batches[0].drawn + trained.batches[1].drawn}
    local = OnlineCurriculum(trained.config, list(originals.values()), FakeQueue())
    for batch in trained.batches[:2]:
        drawn = local.draw(2)
        assert [(t.id, e) for t, e in drawn] == [(d.task.id, d.epoch) for d in batch.drawn]
        judged = local.judge(batch.groups, batch.scores, [0] * len(batch.groups))
        assert [local.log_row(j) for j in judged if j] == batch.rows


def test_the_first_update_is_that_of_rods_train(trained: Trained, tmp_path: Path) -> None:
    """Same seed, same start: the same draws, trajectories, judgements and gradient."""
    config = small("updates=1")
    run: RunDirectory = rods.train(config, str(tmp_path / "local"))
    [local] = [row for row in run.metrics() if row["kind"] == "step"]
    assert local["judgements"] == trained.batches[0].rows
    assert trained.log[0]["grad_norm"] == pytest.approx(local["grad_norm"], rel=0.02)
    assert trained.log[0]["rods/boundary"] == local["buffer"]["boundary"]  # type: ignore[index]


def test_advantages_are_those_of_the_recipe(trained: Trained) -> None:
    for batch in trained.batches:
        rows = iter(batch.output["advantages"])
        for group, scores in zip(batch.groups, batch.scores, strict=True):
            values = torch.tensor([s.value for s in scores])
            flat = bool(values.std() < 1e-12)
            for trajectory, value, row in zip(group.trajectories, values, rows, strict=False):
                sample = to_sample(trajectory, 0.0)
                found = row[row != 0]
                assert flat or value == values.mean() or len(found) == sample.sampled
                assert all(torch.sign(found) == torch.sign(value - values.mean()))


def test_the_completions_that_trl_logs_have_the_advantages_of_the_recipe(tmp_path: Path) -> None:
    """Those that TRL computes of the rewards are divided by their deviation; these are not."""
    text = "from rods.reward import Score\ndef paid(task, trajectory):\n"
    (tmp_path / "reward.py").write_text(f"{text}    return Score(trajectory.member / 4, {{}})\n")
    stages = f'stages=[{{name="all", reward="{tmp_path}/reward.py:paid", epochs=9}}]'
    config = small(
        "updates=1", "curriculum=static", "train.advantage=dr_grpo", "rollout.k=4", stages
    )
    ended = train(tmp_path / "out", config, log_completions=True, num_completions_to_print=1)
    [batch] = ended.batches
    [file] = (tmp_path / "out" / "completions").glob("*.parquet")
    values = [score.value for row in batch.scores for score in row]
    means = [sum(s.value for s in row) / 4 for row in batch.scores for _ in row]
    expected = [value - mean for value, mean in zip(values, means, strict=True)]
    table = importlib.import_module("pandas").read_parquet(file)
    assert table["recipe_reward"].tolist() == pytest.approx(values)
    assert table["advantage"].tolist() == pytest.approx(expected) and any(expected)
    regions = {name: ended.log[0][f"rods/regions/{name}"] for name in ("hard", "boundary")}
    assert sum(regions.values()) + ended.log[0]["rods/regions/mastered"] == 2


def test_a_cut_trajectory_is_trained_on_unless_trl_masks_it(tmp_path: Path) -> None:
    """TRL zeroes its mask of completions; tokens without loss must not dilute the loss, either."""
    words = ["rollout.tasks_per_step=4", "rollout.generated_tokens=120", "rollout.step_tokens=60"]
    config = small("updates=1", "curriculum=static", *words)
    for masks in (False, True):
        out = train(tmp_path / f"{masks}", config, mask_truncated_completions=masks)
        [batch] = out.batches
        members = [t for group in batch.groups for t in group.trajectories]
        cut = torch.tensor([t.steps[-1].finish is FinishReason.LENGTH for t in members])
        assert cut.any() and not cut.all() and all(t.valid for t in members)
        assert all(score.valid for row in batch.scores for score in row)
        shown = batch.output["completion_mask"].any(1)
        assert torch.equal(shown, ~cut if masks else torch.ones_like(cut))
        loss = batch.output["completion_mask"] * batch.output["tool_mask"]
        assert batch.output["num_items_in_batch"] == loss.sum() > 0


def test_the_training_ends_with_the_last_task(tmp_path: Path) -> None:
    """Three tasks in batches of two: the last batch is filled up with rows that carry no loss."""
    stages = 'stages=[{name="all", epochs=1}]'
    config = small("curriculum=static", stages, "env.train_tasks=3", "updates=9")
    ended = train(tmp_path / "out", config, save_steps=9)
    assert [len(batch.drawn) for batch in ended.batches] == [2, 1]
    last = ended.batches[-1].output
    assert last["completion_mask"][2:].sum() == 2 and not last["tool_mask"][2:].any()
    assert (tmp_path / "out" / "checkpoint-2" / "rods.pt").is_file()
    assert ended.log[-1]["step"] == 2


def command(folder: Path, *more: str, how: str = "--out") -> list[str]:
    return ["-m", "rods.cli.main", "trl", how, str(folder), *(f"--{t}" for t in SMALL), *more]


def test_there_must_be_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    words = [sys.executable, *command(tmp_path / "out", how="--resume")]
    made = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=300)
    assert made.returncode == 2 and "there is no checkpoint to resume" in made.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_with_checkpoints_is_not_begun_anew(tmp_path: Path) -> None:
    """Their numbers would be mixed with those of the new training."""
    (tmp_path / "checkpoint-9").mkdir()
    words = [sys.executable, *command(tmp_path)]
    made = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=300)
    assert (
        made.returncode == 2
        and f"Continue from the last one with --resume {tmp_path}" in made.stderr
    )
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-9"]


def test_invariant_8_a_killed_trainer_goes_on_with_the_same_pool(
    trained: Trained, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    begun = [sys.executable, *command(out)]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(begun, stdout=log, stderr=log, env=environment())
        wait_for(out / "checkpoint-2" / "trainer_state.json", running)
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert not (out / f"checkpoint-{STEPS}").exists()
    again = [sys.executable, *command(out, how="--resume")]
    made = subprocess.run(again, capture_output=True, text=True, timeout=600, env=environment())
    assert made.returncode == 0, made.stderr
    last = visits(out / f"checkpoint-{STEPS}")
    assert last == visits(trained.folder / f"checkpoint-{STEPS}")
    assert {row[3] for row in last} <= {DONE, DUE} and len(last) > 4


def test_a_synthesis_worker_that_is_killed_is_replaced(trained: Trained, tmp_path: Path) -> None:
    """The training goes on beside it, to the same pool."""
    out, text = tmp_path / "out", tmp_path / "log"
    with text.open("w") as log:
        words = [sys.executable, *command(out)]
        running = subprocess.Popen(words, stdout=log, stderr=log, env=environment())
        wait_for(out / "checkpoint-1" / "trainer_state.json", running)
        family = psutil.Process(running.pid).children(recursive=True)
        workers = [p for p in family if "rods.synthesis.worker" in " ".join(p.cmdline())]
        assert len(workers) == 1
        workers[0].kill()
        assert running.wait(600) == 0, text.read_text()[-3000:]
    last = visits(out / f"checkpoint-{STEPS}")
    assert last == visits(trained.folder / f"checkpoint-{STEPS}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[list[str]]:
    """Settings of an engine behind HTTP, which gets its weights as files."""
    settings = ModelSettings(device="cpu", dtype="float32")
    with serving(served(settings, rows=4, context=2048, key=KEY)) as url:
        yield [
            "engine.name=openai", f"engine.url={url}",
            "engine.weights=folder", f"engine.folder={tmp_path}",
        ]  # fmt: skip


def test_a_server_plays_what_the_engine_in_process_plays(
    trained: Trained, server: list[str], tmp_path: Path
) -> None:
    made = train(tmp_path / "out", small(*server))
    assert len(made.batches) == STEPS
    for theirs, ours in zip(made.batches, trained.batches, strict=True):
        assert [d.task.id for d in theirs.drawn] == [d.task.id for d in ours.drawn]
        for one, other in zip(theirs.groups, ours.groups, strict=True):
            for a, b in zip(one.trajectories, other.trajectories, strict=True):
                assert [s.ids for s in a.spans] == [s.ids for s in b.spans]
                assert sampled(a) == pytest.approx(sampled(b), abs=1e-4)


def sampled(trajectory: Trajectory) -> list[float]:
    return [p for span in trajectory.spans for p in span.logprobs or ()]


@pytest.mark.parametrize("behind", [False, True])
def test_two_processes_play_what_one_plays(
    behind: bool, trained: Trained, server: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    more = [f"--{setting}" for setting in server] if behind else []
    words = [sys.executable, *launcher, *command(out, "--updates", "2", *more)]
    made = subprocess.run(words, capture_output=True, text=True, timeout=900, env=environment())
    assert made.returncode == 0, made.stderr
    both = visits(out / "checkpoint-2")
    one = visits(trained.folder / "checkpoint-2")
    assert both[:2] == one[:2], "before an update the weights are the same to the last bit"
    assert [row[:4] for row in both] == [row[:4] for row in one]
    assert all(row[3] == DONE for row in both)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *REFUSED,
        (["train.correction.method=truncated"], "truncated"),
        (["rollout.schedule=pipelined"], "rollout.schedule"),
        *[
            (["train.loss=gspo", f"train.credit={c}"], f'train.credit = "{c}" with train.loss')
            for c in ("turn", "call")
        ],
    ],
)
def test_what_trl_has_not_is_refused(changes: Sequence[str], named: str, tmp_path: Path) -> None:
    from rods.integrations.trl import grpo_args

    with pytest.raises(ConfigError, match=named):
        grpo_args(small(*changes), str(tmp_path))


def test_arguments_that_contradict_the_recipe_are_refused(tmp_path: Path) -> None:
    from rods.integrations.trl import CurriculumGRPOTrainer, grpo_args

    with rods.hosted(small()) as run:
        args = grpo_args(run.config, str(tmp_path))
        for changed, named in (
            ({"temperature": 0.5}, r"rollout.temperature\): 0.5, expected 1"),
            ({"top_k": 5, "vllm_mode": "server"}, r"top_k.*: 5, expected 0; vllm_mode"),
            ({"max_steps": 0}, "max_steps: 0, expected a whole number of at least 1"),
        ):
            own = copy.copy(args)
            for name, value in changed.items():  # as a GRPOConfig that the user made
                setattr(own, name, value)
            with pytest.raises(ConfigError, match=named):
                CurriculumGRPOTrainer(run, own)
        with pytest.raises(ConfigError, match=r"reward_funcs .use --stages\.0\.reward"):
            CurriculumGRPOTrainer(run, args, reward_funcs=[len])


def test_values_that_trl_refuses_are_refused_in_its_words(tmp_path: Path) -> None:
    from rods.integrations.trl import grpo_args

    for given in ({"optim": "adamm"}, {"dataloader_prefetch_factor": 2}):
        with pytest.raises(
            ConfigError, match=r"GRPOConfig refuses its arguments: .*(ada|prefetch)"
        ):
            grpo_args(small(), str(tmp_path), **given)


def test_an_argument_that_trl_has_not_is_refused_with_the_nearest(tmp_path: Path) -> None:
    from rods.integrations.trl import grpo_args

    named = r"GRPOConfig has no argument 'loging_steps'\. Did you mean 'logging_steps'\?"
    with pytest.raises(ConfigError, match=named):
        grpo_args(small(), str(tmp_path), loging_steps=5)


def test_trackers_and_their_project_are_trl_s(tmp_path: Path) -> None:
    from rods.integrations.trl import grpo_args

    args = grpo_args(small("track.names=tensorboard", "track.project=mine"), str(tmp_path))
    assert (args.report_to, args.project) == (["tensorboard"], "mine")
    assert grpo_args(small(), str(tmp_path)).report_to == []
    assert grpo_args(small(), str(tmp_path), report_to="wandb").report_to == ["wandb"]


def test_no_need_is_met_by_every_host() -> None:
    from rods.integrations.trl.args import HOST as TRL
    from rods.integrations.verl.checks import HOST as VERL

    assert lacking(RunConfig(), TRL) == []
    assert TRL.lacks | VERL.lacks == NEEDS.keys()
