"""The bundled policy's tokenizer, its supervised conversations, and its teacher."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch

from pretrain import command
from pretrain.conversations import Conversation, VariantGenerator, play
from pretrain.habits import ORACLE, Habits, agent_texts
from pretrain.muon import Muon, orthogonalize
from pretrain.teacher import PretrainSettings, batches, build_model, collate, measure, teach
from pretrain.tokenizer import common_words, train_tokenizer
from rods.config import load_config
from rods.dialects import get_dialect
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.policies.ground_truth import results_of
from rods.rollout.template import ChatTemplate
from rods.split import split
from rods.synthesis.structure.oracle import steps
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult
from rods.writers.graph.writer import GraphWriter

TEXTS = [
    "Move 'final_report.pdf' to the temp directory, then list 12 files.",
    "[mv(source='final_report.pdf', destination='temp'), ls()]",
    '{"current_directory_content": ["final_report.pdf"]}',
] * 8


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, ["to", "the"], vocab=400)


def test_a_larger_policy_has_the_proportions_of_a_small_qwen3() -> None:
    settings = PretrainSettings().sized(768, 10)
    assert (settings.heads, settings.kv_heads, settings.ffn) == (12, 6, 2112)
    assert settings.second_part().hidden == 768 and settings.lr == PretrainSettings().lr


def test_a_name_has_the_same_ids_in_a_sentence_and_in_a_call(tokenizer) -> None:
    inside = tokenizer.encode("final_report.pdf")
    for text in TEXTS[:3]:
        ids = tokenizer.encode(text)
        assert any(ids[i : i + len(inside)] == inside for i in range(len(ids)))


def test_every_digit_stands_alone_and_text_survives(tokenizer) -> None:
    assert len(tokenizer.encode("2026")) == 4
    for text in [*TEXTS[:3], "Ünïcode 漢字 \n\t x  y"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_common_words_are_words_after_a_blank() -> None:
    assert common_words(["go to the zoo to rest"], most=1) == ["to"]


def test_template_shows_names_and_parameters_alone(tokenizer) -> None:
    from rods.types import Message, ToolSpec

    spec = ToolSpec("cd", "long words", {"type": "object", "properties": {"folder": {}}})
    ids = ChatTemplate(tokenizer).prompt([Message("system", "S"), Message("user", "U")], [spec])
    text = tokenizer.decode(ids)
    assert text == "<|system|>S\ncd(folder)<|end|><|user|>U<|end|><|assistant|>"


def test_a_call_waits_for_the_result_it_needs() -> None:
    turn = Turn(
        "weather in the zip code of Rivermist?",
        (ToolCall("zip", {"city": "Rivermist"}), ToolCall("weather", {"code": "83214"})),
    )
    results = (ToolResult('{"zip": "83214"}'), ToolResult("sunny"))
    split = list(steps(turn, results, known=turn.user))
    assert [len(step) for step in split] == [1, 1]
    together = list(steps(turn, results, known=turn.user + " It is 83214."))
    assert [len(step) for step in together] == [2]


@pytest.mark.slow
def test_oracle_conversations_are_solved_and_masked(tokenizer) -> None:
    tasks = split(load_tasks()).train
    environment, dialect = BfclEnvironment(), get_dialect("compact")
    rollout = load_config("rods", "small").rollout.model_copy(
        update={"context_tokens": 20_000, "generated_tokens": 9_000, "step_tokens": 2_000}
    )
    template = ChatTemplate(tokenizer)
    for task in random.Random(0).sample(tasks, 8):
        made = play(task, environment, dialect, template, rollout)
        assert made is not None, task.provenance.origin
        said = tokenizer.decode([i for i, m in zip(made.ids, made.mask, strict=True) if m])
        texts = agent_texts(task, results_of(environment, task), dialect, ORACLE, random.Random(0))
        assert said == "".join(f"{text}<|end|>" for text in texts)


CAREFUL_TURNS = (
    Turn("Make notes.txt, then show the folder.", (ToolCall("touch", {}), ToolCall("ls", {}))),
    Turn("Sort the file."),
    Turn("notes.txt is the one.", (ToolCall("sort", {"file_name": "notes.txt"}),)),
)


def habitual(habits: Habits, turns=CAREFUL_TURNS, replies=(("", "a.txt"), (), ("",)), seed=0):
    """What such an agent says."""
    task = Task("bfcl", "miss_param", turns, {})
    played = [[ToolResult(text) for text in row] for row in replies]
    return agent_texts(task, played, get_dialect("compact"), habits, random.Random(seed))


def test_the_oracle_does_all_and_asks_for_what_is_missing() -> None:
    assert habitual(ORACLE) == [
        "[touch(), ls()]",
        "Done.",
        "Which one exactly? Please tell me more.",
        "[sort(file_name='notes.txt')]",
        "Done.",
    ]


def test_a_hasty_agent_stops_before_all_is_done() -> None:
    said = {tuple(habitual(Habits(stop=1.0), seed=seed)) for seed in range(20)}
    ask = "Which one exactly? Please tell me more."
    assert said == {("[touch()]", "Done.", ask, "Done.")}, "of one call none is left, of two one"


def test_it_never_says_what_it_did_not_read() -> None:
    turns = (CAREFUL_TURNS[0], Turn("Sort it.", (ToolCall("sort", {"file_name": "a.txt"}),)))
    said = habitual(Habits(stop=1.0), turns, (("", "a.txt"), ("",)))
    assert said[0] == "[touch(), ls()]", "a.txt is known from what ls returned"


def test_habits_are_taken_as_often_as_they_say() -> None:
    said = [habitual(Habits(stop=0.7), seed=seed)[0] for seed in range(400)]
    assert 0.62 < said.count("[touch()]") / 400 < 0.78
    assert said.count("[touch(), ls()]") + said.count("[touch()]") == 400


@pytest.mark.slow
def test_variants_are_functions_of_seed_and_number() -> None:
    tasks = split(load_tasks()).train[:60]
    one, other, apart = (
        VariantGenerator(tasks, BfclEnvironment(), 3),
        VariantGenerator(tasks, BfclEnvironment(), 3),
        VariantGenerator(tasks, BfclEnvironment(), 4),
    )
    assert one.variant(7) == other.variant(7) != apart.variant(7)
    made: Task = one.variant(7)
    assert made.provenance.scenario in {t.provenance.scenario for t in tasks}


@pytest.mark.slow
def test_a_roaming_walk_takes_tools_that_its_seed_does_not_know() -> None:
    tasks = split(load_tasks()).train
    environment = BfclEnvironment()
    near, far = (GraphWriter(tasks, environment, roam=roam) for roam in (False, True))
    seed = next(t for t in tasks if t.world["classes"] == ["TravelAPI"])

    def new(writer: GraphWriter) -> float:
        known = {call.name for turn in seed.turns for call in turn.ground_truth}
        made = [writer.propose(seed, random.Random(i)) for i in range(24)]
        variants = [m for m in made if isinstance(m, Task)]
        called = [c.name for v in variants for turn in v.turns for c in turn.ground_truth]
        assert len(variants) > 8
        return sum(name not in known for name in called) / len(called)

    assert new(far) > new(near) + 0.1


def test_orthogonalize_gives_singular_values_near_one() -> None:
    torch.manual_seed(0)
    for shape in ((16, 40), (40, 16)):
        values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
        assert values.min() > 0.5 and values.max() < 1.4


def test_matrices_of_one_shape_are_orthogonalized_together_as_alone() -> None:
    torch.manual_seed(0)
    many = torch.randn(3, 12, 8)
    alone = torch.stack([orthogonalize(matrix) for matrix in many])
    assert torch.allclose(orthogonalize(many), alone, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_muon_descends(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(8, 12))
    target, optimizer = torch.randn(8, 12), Muon([weight], lr=0.05, dtype=dtype)
    losses = []
    for _ in range(120):
        loss = (weight - target).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.2 * losses[0]


def conversations(number: int) -> list[Conversation]:
    rng = random.Random(number)
    made: list[Conversation] = []
    for _ in range(number):
        half = [rng.randrange(10, 60) for _ in range(rng.randrange(4, 9))]
        made.append(Conversation(half + half, [0] * len(half) + [1] * len(half)))
    return made


def test_batches_hold_every_conversation_once_a_pass() -> None:
    rows = conversations(30)
    stream = batches(rows, 64, random.Random(0))
    seen: list[Conversation] = []
    while len(seen) < len(rows):
        batch = next(stream)
        assert len(batch) * max(len(c.ids) for c in batch) <= 64 or len(batch) == 1
        seen += batch
    assert sorted(map(repr, seen)) == sorted(map(repr, rows))


def test_collate_weighs_the_next_token() -> None:
    ids, weights = collate([Conversation([5, 6, 7], [0, 0, 1]), Conversation([8], [1])], 0, 0.1)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert torch.allclose(weights, torch.tensor([[0.1, 1.0], [0.0, 0.0]]))


@pytest.mark.slow
def test_the_teacher_teaches_and_repeats_itself(tokenizer) -> None:
    settings = PretrainSettings(
        hidden=32, layers=2, heads=2, kv_heads=1, ffn=64, tokens=6_000, batch_tokens=200
    )
    rows = conversations(40)
    results = []
    for _ in range(2):
        model = build_model(settings, tokenizer, seed=1)
        before = measure(model, rows, 400)
        card = teach(model, rows, settings, 1, lambda figures: None)
        results.append((before, measure(model, rows, 400), card["steps"]))
    assert results[0] == results[1]
    before, after, _ = results[0]
    assert after["loss"] < 0.8 * before["loss"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hidden", "100", "--layers", "2"], "a multiple of 128"),
        (["--hidden", "128"], "at least 2 layers"),
        (["--wheel", "absent.whl"], "absent.whl"),
        (
            ["--kind", "math", "--out", "file"],
            "file is a file; expected a folder",
        ),
    ],
)
def test_a_mistake_of_the_command_is_one_message_and_status_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["pretrain", "--out", "x", *words])
    assert command.main() == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
