"""Demonstrations of tasks: solved, of the training split alone, worded in several ways."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import template_families as families
from fake_tokenizer import FakeTokenizer
from notebook_cell import in_cell
from rods.assemble.tasks import demonstrations_of, splits_of
from rods.config import RunConfig, load_config
from rods.dialects import DIALECTS, InlineDialect, get_dialect, structured
from rods.envs.remote.processes import environment_of
from rods.errors import PolicyError, StoreError
from rods.policies.ground_truth import (
    WORDINGS,
    DemonstrationPlan,
    Demonstrations,
    agent_texts,
    lacks,
    results_of,
    withhold,
)
from rods.rollout.template import ChatTemplate
from rods.synthesis.structure.oracle import DONE, MISSING_TOOL, MISSING_VALUE
from rods.task import Task, Turn
from rods.trainers.examples import read_examples, sample_of
from rods.trajectory import Trajectory
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import ParseVerdict, ToolCall
from rollout_cases import TEMPLATE, settings
from verbs import rods
from worlds import NotesEnvironment, notes_task

COMPACT = structured("compact")
ADD = (ToolCall("add", {"amount": 2}), ToolCall("add", {"amount": 5}))
NOTE = (ToolCall("note", {"text": "x"}),)
TWO = notes_task([("Add 2, then 5.", ADD), ("Note x.", NOTE)])


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return load_config("rods", "small", ["rollout.steps_per_turn=6"])


@pytest.fixture(scope="module")
def shown(config: RunConfig) -> list[Trajectory]:
    """Demonstrations of the benchmark's tasks, half of them of variants."""
    made, _ = demonstrations_of(config, ["resample", "graph"], 0, originals=0.5, several=0.5)
    return list(made.solved(24))


def of_notes(tasks: Sequence[Task], **changes: float) -> Demonstrations:
    plan = DemonstrationPlan(tasks, COMPACT, settings(), **changes)  # type: ignore[arg-type]
    return Demonstrations(NotesEnvironment(), TEMPLATE, plan, seed=0)


def test_a_cell_of_a_notebook_makes_the_same_demonstrations() -> None:
    def ids() -> list[list[int]]:
        return [t.ledger.ids for t in of_notes([TWO]).solved(2)]

    assert in_cell(ids) == ids()


@pytest.mark.slow
def test_what_is_demonstrated_was_judged_solved(shown: list[Trajectory]) -> None:
    assert len(shown) == 24
    assert all(t.solved and t.valid and not t.failure for t in shown)
    assert all(step.verdict is not ParseVerdict.MALFORMED for t in shown for step in t.steps)


@pytest.mark.slow
def test_no_held_out_scenario_is_shown(config: RunConfig) -> None:
    made, _ = demonstrations_of(config, ["resample"], 0, originals=0.5, several=0.5)
    sides = splits_of(config, environment_of(config))
    theirs = {task.provenance.scenario for task in sides.held_out}
    assert theirs
    tasks = [made._task(n, random.Random(n)) for n in range(30)]  # pyright: ignore
    chosen = [task for task in tasks if task is not None]
    assert any(task.is_original for task in chosen) and not all(t.is_original for t in chosen)
    scenarios = {s for t in chosen for s in (t.provenance.scenario, *t.provenance.scenarios)}
    assert not scenarios & theirs
    assert {t.id for t in made._plan.tasks} == {t.id for t in sides.originals}  # pyright: ignore


@pytest.mark.slow
def test_equal_seeds_give_equal_demonstrations(config: RunConfig, shown: list[Trajectory]) -> None:
    again, _ = demonstrations_of(config, ["resample", "graph"], 0, originals=0.5, several=0.5)
    ids = [list(t.ledger.ids) for t in shown[:4]]
    assert [list(t.ledger.ids) for t in again.solved(4)] == ids
    other = config.model_copy(update={"seed": 1})
    made, _ = demonstrations_of(other, ["resample", "graph"], 0, originals=0.5, several=0.5)
    assert [list(t.ledger.ids) for t in made.solved(4)] != ids


@pytest.mark.parametrize(("several", "calls"), [(1.0, [2, 1]), (0.0, [1, 1, 1])])
def test_calls_stand_together_or_alone(several: float, calls: list[int]) -> None:
    (trajectory,) = of_notes([TWO], several=several).solved(1)
    assert [len(step.calls) for step in trajectory.steps if step.calls] == calls
    assert trajectory.solved


def test_calls_stand_together_where_steps_would_not_suffice() -> None:
    plan = DemonstrationPlan([TWO], COMPACT, settings(steps_per_turn=2), several=0.0)
    (trajectory,) = Demonstrations(NotesEnvironment(), TEMPLATE, plan, seed=0).solved(1)
    assert [len(step.calls) for step in trajectory.steps if step.calls] == [2, 1]


@pytest.mark.slow
def test_both_shapes_are_mixed() -> None:
    made = of_notes([TWO], several=0.5).solved(24)
    shapes = {tuple(len(s.calls) for s in t.steps if s.calls) for t in made}
    assert {(2, 1), (1, 1, 1)} <= shapes


@pytest.mark.slow
def test_what_is_said_without_calls_is_worded_in_several_ways() -> None:
    ask = notes_task([("Note it.", ()), ("The text is x.", NOTE)])
    made = list(of_notes([ask]).solved(40))
    asked = {t.steps[0].text for t in made}
    closed = {t.steps[-1].text for t in made}
    assert len(asked) > 4 and asked <= set(WORDINGS[MISSING_VALUE])
    assert len(closed) > 4 and closed <= set(WORDINGS[DONE])


@pytest.mark.parametrize("late", [False, True], ids=["first round", "later rounds"])
@pytest.mark.parametrize(
    "name", [name for name in DIALECTS if not isinstance(get_dialect(name), InlineDialect)]
)
def test_a_thought_that_the_template_opens_is_not_demonstrated_twice(name: str, late: bool) -> None:
    after = "messages | length > 2" if late else "true"
    head = f"{{% if add_generation_prompt and {after} %}}{{{{ '<think>\\n' }}}}{{% endif %}}"
    for text, opens in ((families.PLAIN, False), (families.PLAIN + head, True)):
        template = ChatTemplate(FakeTokenizer(text))
        budgets = settings(context_tokens=100_000, step_tokens=10_000)
        plan = DemonstrationPlan([TWO], structured(name), budgets, several=0.0)
        made = Demonstrations(NotesEnvironment(), template, plan, seed=0)
        if opens:
            with pytest.raises(PolicyError, match=r"opens the assistant's message with '<think>"):
                next(made.solved(1))
        else:
            assert next(made.solved(1)).solved


def test_a_wording_is_never_read_as_a_call() -> None:
    for name in ("compact", "pythonic", "hermes", "xml", "llama", "think"):
        dialect = structured(name)
        for text in (text for texts in WORDINGS.values() for text in texts):
            read = dialect.parse(dialect.answer(text), {}, truncated=False)
            assert read.verdict is ParseVerdict.ANSWER and not read.calls, (name, text)
    assert all(fixed in texts for fixed, texts in WORDINGS.items())


def test_a_turn_may_end_early_for_agents_of_other_habits() -> None:
    results = results_of(NotesEnvironment(), TWO)
    whole = agent_texts(TWO, results, COMPACT)
    assert len(whole) == 4
    early = agent_texts(TWO, results, COMPACT, kept=lambda index, known: 1)
    assert early[0] == COMPACT.write(ADD[:1]) and early[2:] == whole[2:]


@pytest.mark.slow
def test_a_tool_is_withheld_where_no_task_shows_what_is_said_then(config: RunConfig) -> None:
    environment = environment_of(config)
    base = [t for t in splits_of(config, environment).train if t.category == "base"][:40]
    plan = DemonstrationPlan(base, COMPACT, config.rollout)
    from rods.trainers.loading import load_tokenizer

    template = ChatTemplate(load_tokenizer(config.model))
    made = list(Demonstrations(environment, template, plan, seed=0).solved(40))
    said = [s.text for t in made for s in t.steps if s.text in WORDINGS[MISSING_TOOL]]
    assert len(set(said)) > 1
    assert all(t.solved for t in made) and len(said) < 15


def test_what_is_withheld_comes_back_before_its_call() -> None:
    task = withhold(TWO, random.Random(1))
    assert task is not None and task.id != TWO.id
    (index,) = (i for i, turn in enumerate(task.turns) if not turn.ground_truth)
    (tool,) = task.turns[index].withheld
    assert task.turns[index + 1].user == "" and not task.turns[index + 1].withheld
    assert tool in {call.name for call in task.turns[index + 1].ground_truth}
    assert all(tool in turn.withheld for turn in task.turns[: index + 1])
    assert all(call.name != tool for t in task.turns[:index] for call in t.ground_truth)
    assert withhold(replace(TWO, turns=(Turn("?"), *TWO.turns)), random.Random(1)) is None


def test_a_world_that_offers_everything_withholds_nothing() -> None:
    class Generous(NotesEnvironment):
        def open(self, task: Task):  # type: ignore[no-untyped-def]
            return super().open(
                replace(task, turns=tuple(replace(t, withheld=()) for t in task.turns))
            )

    task = withhold(TWO, random.Random(1))
    assert task is not None
    assert lacks(NotesEnvironment(), task) and not lacks(Generous(), task)


def test_what_cannot_be_solved_is_counted_and_left_out() -> None:
    plan = DemonstrationPlan([TWO], COMPACT, settings(turns=1))
    made = Demonstrations(NotesEnvironment(), TEMPLATE, plan, seed=0)
    assert list(made.solved(2)) == [] and made.left_out.total() == 20


@pytest.mark.slow
def test_a_pool_of_variants_is_shown_in_turn(config: RunConfig) -> None:
    made, _ = demonstrations_of(config, ["resample"], 2, originals=0.0, several=0.5)
    tasks = [made._task(n, random.Random(n)) for n in range(6)]  # pyright: ignore
    assert [t and t.id for t in tasks[:2]] * 3 == [t and t.id for t in tasks]


def test_the_file_teaches_the_ids_of_the_rollout(tmp_path: Path) -> None:
    file = tmp_path / "d.parquet"
    made = list(of_notes([TWO]).solved(3))
    assert write_parquet(file, made, TEMPLATE.digest()) == 3
    read = read_examples([file], TEMPLATE, 1 << 20, 4096)
    assert [s.ids.tolist() for s in read.samples] == [list(t.ledger.ids) for t in made]
    assert [s.mask.tolist() for s in read.samples] == [sample_of(t).mask.tolist() for t in made]
    assert [t.member for t in read_parquet(file)] == [0, 1, 2]
    write_parquet(file, made, "of another")
    with pytest.raises(StoreError, match="chat template is of another"):
        read_examples([file], TEMPLATE, 1 << 20, 4096)


@pytest.mark.slow
def test_the_command_writes_what_sft_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "d.parquet", tmp_path / "cold"
    words = ["demonstrate", "--model", "tiny", "--profile", "small", "--out", str(file), "--n", "6"]
    assert rods(*words, "--writer", "resample", monkeypatch=monkeypatch) == 0
    assert "a minute" in capsys.readouterr().err
    learn = ["sft", str(file), "--model", "tiny", "--out", str(out), "--epochs", "1"]
    assert (
        rods(*learn, "--model.lora_rank", "2", "--model.threads", "1", monkeypatch=monkeypatch) == 0
    )
    assert (out / "model.safetensors").is_file()
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "d.jsonl", "--model", "tiny"], ".parquet"),
        (["--out", "d.parquet", "--writer", "resample"], "--model"),
        (["--out", "d.parquet", "--env.name", "bfcl"], "--model"),
        (["--out", "d.parquet", "--model", "tiny", "--variants", "3"], "--writer"),
        (["--out", "d.parquet", "--model", "tiny", "--dialect", "torl"], "inline"),
        (["--out", "d.parquet", "--model", "tiny", "--writer", "x"], "x"),
    ],
)
def test_what_cannot_be_demonstrated_is_refused(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods("demonstrate", *words, "--profile", "small", monkeypatch=monkeypatch) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
