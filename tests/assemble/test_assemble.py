"""From settings to parts: stop ids, and the length of a run."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import AsyncMock, Mock

import pytest

from fake_tokenizer import FakeTokenizer
from rods.assemble import evaluated, outlook, stage_lines, total_steps, train, worker_of
from rods.assemble.engines import engine_of, template_of
from rods.assemble.library import evaluate
from rods.assemble.tasks import Splits
from rods.config import RunConfig, StageSettings
from rods.errors import PolicyError
from rods.report.live import TrainDisplay
from rods.store import RunDirectory, new_run_dir
from rods.task import Provenance, Task, Turn
from rods.trainers.hosted import HostedRun
from rods.types import FinishReason
from tiny_models import build

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {
    "model": {"device": "cpu", "dtype": "float32"},
    "rollout": {"context_tokens": 64, "k": 2, "tasks_per_step": 1},
}


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
def test_stop_ids_of_the_generation_config_are_honoured(kind):
    config = RunConfig.model_validate(SMALL)
    model = build(kind)

    def generate(template):
        async def play():
            session = engine_of(config, model, template).open(1)
            return await session.generate([5, 6, 7], 20, 0.0)

        return asyncio.run(play())

    tokenizer = FakeTokenizer()
    free = generate(template_of(model, tokenizer))
    assert free.finish is FinishReason.LENGTH
    third = next(t for i, t in enumerate(free.ids) if i >= 2 and t not in free.ids[:i])
    model.generation_config.eos_token_id = [96, third]
    template = template_of(model, tokenizer)
    stopped = generate(template)
    assert stopped.finish is FinishReason.STOP
    assert stopped.ids == free.ids[: free.ids.index(third) + 1]
    assert template.decode([100 + ord("a"), third]) == "a"
    assert template.stop_ids[0] == template.end_id


@pytest.mark.parametrize(("stated", "bytes_"), [(0, None), (2, int(1.8 * 2**30))])
def test_an_evaluation_takes_the_memory_that_the_settings_state(stated, bytes_, monkeypatch):
    given = []
    monkeypatch.setattr("rods.assemble.engines.make_engine", given.append)
    config = RunConfig.model_validate({**SMALL, "train": {"local": {"memory_gib": stated}}})
    engine_of(config, build("llama"), template_of(build("llama"), FakeTokenizer()))
    cache = given[0].cache
    assert cache == bytes_ if stated else cache > 2**28


def tasks(count):
    return [Task("none", "base", (Turn(f"task {i}"),), {}) for i in range(count)]


def run(**changes):
    stages = (StageSettings(name="a", epochs=2, tasks=5), StageSettings(name="b", epochs=3))
    rollout = {"tasks_per_step": 4}
    return RunConfig.model_validate({"stages": stages, "rollout": rollout, **changes})


@pytest.mark.parametrize("fault", [None, PolicyError("the server is gone")])
def test_an_evaluation_closes_its_environment(fault, monkeypatch):
    environment = Mock()
    rows = AsyncMock(return_value=[{"task_id": "a"}], side_effect=fault)
    monkeypatch.setattr(evaluated, "environment_of", lambda _: environment)
    monkeypatch.setattr(evaluated, "splits_of", Mock(return_value=Mock(held_out=[])))
    monkeypatch.setattr(evaluated, "_evaluated", lambda *_: (None, None))
    monkeypatch.setattr(evaluated, "held_out_tasks", Mock(return_value=[]))
    monkeypatch.setattr("rods.assemble.engines.engine_of", lambda *_: AsyncMock())
    monkeypatch.setattr(evaluated, "evaluate_tasks", rows)
    with pytest.raises(PolicyError) if fault else nullcontext():
        assert evaluate(RunConfig.model_validate(SMALL)) == [{"task_id": "a"}]
    environment.close.assert_called_once()


def test_the_outlook_says_when_variants_enter_and_when_too_little_is_held_out():
    def of(**settings):
        held_out = tasks(settings.pop("scenarios", 5))
        return outlook(run(**settings), Splits(tasks(9), tasks(9), held_out, ""))

    stages = (StageSettings(name="a", epochs=2), StageSettings(name="b", expand=True))
    assert of(stages=stages, scenarios=2) == (
        "Training tasks: 9. Held-out tasks: 2. Variants are made in the stage b (stages.1), "
        "which begins after 5 updates. No variant is drawn before update 7. "
        "Fewer than 4 held-out scenarios rarely show a difference: write more tasks, or raise "
        "env.held_out."
    )
    short = of(stages=stages, updates=6)
    assert "So with updates = 6 no variant can enter: use at least 7, or shorten" in short
    assert "So with" not in of(stages=stages, updates=7)
    first = of(stages=stages[1:])
    assert "begins with the first update. No variant is drawn before update 3." in first
    none = "None can enter: too few tasks or epochs. Raise them or replay.inject."
    assert none in of(stages=stages[1:], replay={"inject": 0.1})
    assert of(stages=stages, curriculum="static", updates=7).endswith(
        "At most 7 updates, no variants."
    )
    assert of(stages=stages, curriculum="static").endswith("At most 16 updates, no variants.")
    assert of(updates=1).endswith("At most 1 update, no variants.")
    assert "At most 1 update. " in of(stages=stages[1:], updates=1)


def test_the_outlook_counts_held_out_tasks_scenarios_and_what_is_evaluated():
    held_out = [
        replace(task, provenance=Provenance("t", scenario=f"s{number // 3}"))
        for number, task in enumerate(tasks(9))
    ]
    splits = Splits(tasks(9), tasks(9), held_out, "")
    settings = run(evaluation={"tasks": 4}, updates=1)
    assert "Held-out tasks: 9 (3 scenarios), 4 of them for evaluation. " in outlook(
        settings, splits
    )
    alone = splits._replace(held_out=tasks(9))
    assert "Held-out tasks: 9. " in outlook(run(updates=1), alone)


def test_a_stage_states_no_more_updates_than_the_run_makes():
    a, b = (line.rpartition(", ")[0] for line in stage_lines(run(), tasks(9)))
    assert stage_lines(run(updates=10), tasks(9)) == [f"{a}, 3 updates", f"{b}, 7 updates"]
    assert stage_lines(run(updates=9), tasks(9)) == [
        f"{a}, 3 updates",
        f"{b} or until the updates end",
    ]
    assert stage_lines(run(updates=3), tasks(9)) == [
        f"{a}, 3 updates",
        f"{b}, not reached with updates = 3",
    ]


@pytest.mark.parametrize(
    ("count", "size", "lengths"),
    [
        (9, 4, ["3 updates", "7 updates"]),
        (2, 4, ["1 update", "2 updates"]),
        (2, 32, ["1 update", "in the last update of the stage before"]),
    ],
)
def test_a_host_fills_its_batches_from_the_next_epoch(count, size, lengths, tmp_path):
    """Its dry run counts the updates that its draws make, from a pool however small."""
    config = run(rollout={"tasks_per_step": size})
    lines = stage_lines(config, tasks(count), hosted=True)
    assert [line.rpartition(", ")[2] for line in lines] == lengths
    sides = Splits(tasks(count), tasks(count), tasks(5), "")
    worker = partial(worker_of, config, sides, hosted=True)
    with HostedRun(config, Mock, tasks(count), worker, Mock) as process:
        process.open(tmp_path)
        made = 0
        while not process.over:
            assert len(process.draw(size, made)) == size or process.over
            made += 1
    assert made == total_steps(config, tasks(count), hosted=True)
    assert f"At most {made} update" in outlook(config, sides, hosted=True)


def test_the_length_of_a_run_follows_from_a_pool_that_does_not_grow():
    assert total_steps(run(), tasks(9)) == 10  # 2 * 5 + 3 * 9 tasks, four an update
    assert total_steps(run(updates=7), tasks(9)) == 7
    assert total_steps(run(updates=70), tasks(9)) == 10
    growing = (StageSettings(name="a", expand=True),)
    assert total_steps(run(stages=growing, curriculum="static"), tasks(9)) == 12
    assert total_steps(run(stages=growing), tasks(9)) == 0
    sliced = (StageSettings(name="a", epochs=5, slice=5),)
    assert total_steps(run(stages=sliced, curriculum="static"), tasks(9)) == 7, "of the slice"
    assert total_steps(run(stages=growing, updates=70), tasks(9)) == 70


STAGES = {
    "short": (run(updates=70), ["at most 10 updates, updates = 70", "stages.1.epochs"]),
    "long enough": (run(updates=7), []),
    "bundled rewards": (run(stages=[{"name": "a", "reward": "format"}, {"name": "b"}]), []),
    "own reward in one": (
        run(stages=[{"name": "a", "reward": "mine.py:f"}, {"name": "b"}]),
        ["stages.N.reward", "'a': 'mine.py:f', 'b': 'progress'"],
    ),
    "own reward in both": (
        run(stages=[{"name": name, "reward": "mine.py:f"} for name in "ab"]),
        [],
    ),
}


@pytest.mark.parametrize("opened", ["rods train", "TRL and verl"])
@pytest.mark.parametrize("case", STAGES)
def test_a_start_warns_of_stages_that_do_not_do_what_was_asked(case, opened, caplog, tmp_path):
    """The local trainer and the hosts' first process say it; the other processes do not."""
    config, said = STAGES[case]
    sides = Splits(tasks(9), tasks(9), [], "")
    if opened == "rods train":
        with worker_of(config, sides, tmp_path):
            pass
    else:
        worker = partial(worker_of, config, sides, hosted=True)
        with HostedRun(config, Mock, tasks(9), worker, Mock) as process:
            assert not caplog.text
            process.open(tmp_path)
    assert bool(caplog.text) == bool(said)
    assert all(words in caplog.text for words in said)


def test_a_resumed_run_shows_the_pool_that_it_had(tmp_path, monkeypatch):
    run = RunDirectory.create(new_run_dir(tmp_path, "run"), RunConfig(), command=["rods"])
    run.log({"kind": "epoch", "step": 0, "originals": 4, "generated": 3, "injected": 5})
    with run.checkpoint(0):
        pass
    shown = []
    monkeypatch.setattr("rods.assemble.assemble", lambda *_: nullcontext())
    monkeypatch.setattr("rods.assemble.build_report", lambda _: None)
    monkeypatch.setattr("rods.assemble.run_loop", lambda _parts, _run, display: display.record({}))
    monkeypatch.setattr(TrainDisplay, "record", lambda self, _: shown.append(self._pool()))
    titles = []
    enter = TrainDisplay.__enter__
    monkeypatch.setattr(
        TrainDisplay, "__enter__", lambda self: (titles.append(self._draw().title), enter(self))[1]
    )
    train(RunConfig(), resume=run.path)
    assert titles == ["[bold]rods train[/] run"]
    assert shown == ["7 tasks, 3 of them variants, 5 injected"]


@pytest.mark.parametrize("updates", [0, 1])
def test_an_engine_that_dies_at_a_hand_over_takes_no_updates_along(tmp_path, monkeypatch, updates):
    run = RunDirectory.create(new_run_dir(tmp_path, "run"), RunConfig(), command=["rods"])

    def dies(*_):
        with run.checkpoint(0):
            pass
        for step in range(updates):
            run.log({"kind": "step", "step": step + 1})
        raise PolicyError("engine: it cannot be reached")

    monkeypatch.setattr("rods.assemble.start_run", lambda *_: run)
    monkeypatch.setattr("rods.assemble.assemble", lambda *_: nullcontext())
    monkeypatch.setattr("rods.assemble.run_loop", dies)
    with pytest.raises(PolicyError, match="cannot be reached"):
        train(RunConfig())
    assert run.path.exists() == bool(updates)
