"""ToolRL and Tool-N1: a table for every branch, samples against the formulas, attacks."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from calls_cases import TAGS, Call, draw, says, single, tool_n1, toolrl
from rods.assemble.refusals import require_named, startable
from rods.config import load_config
from rods.errors import ConfigError, RewardError
from rods.recipes.toolrl.reward import ranges
from rods.reward import Score, score
from rods.rewards import get_reward, rewards_of
from rods.task import Task, Turn
from rods.trajectory import Trajectory
from rods.types import ParseVerdict, ToolCall
from sweeps import slow

GET: Call = ("get", {"x": 1, "y": "a"})
PUT: Call = ("put", {"x": 1})
ONE = single(GET)
TWO = single(GET, PUT)
WORDS = single()
BOTH = single(GET, response=True)
THINK_ONLY = single(response=False)
N1 = ("tool_n1", "tool_n1_names")


def paid(task: Task, text: str, version: int = 0, **variant: Any) -> Score:
    return score(get_reward("toolrl", variant), task, says(text, version))


def lines(*calls: Call | str) -> str:
    """The form of ToolRL."""
    return _tagged("\n".join(c if isinstance(c, str) else _json(c, "parameters") for c in calls))


def listed(*calls: Call | str) -> str:
    """The form of Tool-N1."""
    inner = ", ".join(c if isinstance(c, str) else _json(c, "arguments") for c in calls)
    return _tagged(f"[{inner}]")


def _json(call: Call, key: str) -> str:
    return json.dumps({"name": call[0], key: call[1]})


def _tagged(body: str) -> str:
    return f"<think>hm</think>\n<tool_call>\n{body}\n</tool_call>"


# -- ToolRL --------------------------------------------------------------------------------------

SAID = "<response>Done.</response>"


@pytest.mark.parametrize(
    ("task", "text", "form", "correctness"),
    [
        (ONE, lines(GET), 1, 3),
        (ONE, f"\n {lines(GET)} \n", 1, 3),
        (ONE, lines(("get", {"y": "a", "x": 1})), 1, 3),
        (ONE, lines(GET).replace("1", "1.0"), 1, 3),
        (ONE, lines(GET).replace("1", "true"), 1, 3),
        (ONE, lines(("get", {"x": "1", "y": "a"})), 1, 6 * 3 / 4 - 3),
        (ONE, lines(("get", {"x": 1})), 1, 6 * 2.5 / 4 - 3),
        (ONE, lines(("get", {"x": 1, "y": "a", "z": 0})), 1, 6 * (1 + 2 / 3 + 2) / 4 - 3),
        (ONE, lines(("get", {})), 1, 6 * 1 / 4 - 3),
        (ONE, lines(("got", {"x": 1, "y": "a"})), 1, -3),
        (ONE, lines(GET, GET), 1, 6 * 3.5 / 4 - 3),
        (ONE, lines(GET, PUT), 1, 6 * 3.5 / 4 - 3),
        (ONE, lines('{"name": "get", "parameters": {"x": 1, "y": "a"}, "z": 1}'), 1, 3),
        (ONE, lines('{"name": "get"}'), 1, -3),
        (ONE, lines('{"parameters": {"x": 1, "y": "a"}}'), 1, -3),
        (ONE, lines('{"name": "get", "parameters": "{}"}'), 1, -3),
        (ONE, lines('{"name": "got", "parameters": "{}"}'), 1, -3),
        (ONE, lines('{"name": ["get"], "parameters": {}}'), 1, -3),
        (ONE, lines(json.dumps(_json(GET, "parameters"))), 1, -3),
        (ONE, lines("5"), 1, -3),
        (ONE, lines("true"), 1, -3),
        (ONE, lines("null"), 1, -3),
        (ONE, lines("[" + _json(GET, "parameters") + "]"), 1, -3),
        (ONE, lines(GET, '{"name": "put", "param'), 1, -3),
        (ONE, lines(GET, "", PUT), 1, -3),
        (ONE, lines(""), 1, -3),
        (ONE, lines("[" * 100_000), 1, -3),
        (ONE, "<think>hm</think>\n<tool_call>\n</tool_call>", 0, -3),
        (ONE, lines(GET).replace("<think>hm</think>\n", ""), 0, 3),
        (ONE, lines(GET).replace("</think>\n", "</think> "), 0, 3),
        (ONE, lines(GET).replace("call>\n", "call> ").replace("\n</tool", " </tool"), 0, 3),
        (ONE, f"{lines(GET)}\n{SAID}", 0, 3),
        (ONE, f"Sure. {lines(GET)}", 0, 3),
        (ONE, lines(GET) + lines(PUT), 0, 3),
        (ONE, lines(PUT) + lines(GET), 0, -3),
        (ONE, lines(GET).replace("hm", "a</think>\n<think>b"), 1, 3),
        (ONE, lines(GET).replace("hm", SAID), 1, 3),
        (ONE, f"<think>hm</think>\n{SAID}", 0, -3),
        (ONE, lines(GET).replace("</tool_call>", ""), 0, -3),
        (ONE, "", 0, -3),
        (TWO, lines(GET, PUT), 1, 3),
        (TWO, lines(PUT, GET), 1, 3),
        (TWO, lines(GET), 1, 6 * 3.5 / 6 - 3),
        (TWO, lines(GET, GET), 1, 6 * (1 / 3 + 3) / 6 - 3),
        (TWO, lines(PUT, PUT), 1, 6 * (1 / 3 + 2) / 6 - 3),
        (TWO, lines('{"name": "put", "parameters": 5}', GET), 1, -3),
        (single(GET, GET), lines(GET), 1, 6 * (0.5 + 3) / 7 - 3),
        (single(("ls", {})), lines(("ls", {})), 1, 3),
        (single(("ls", {})), lines(("ls", {"a": 1})), 1, 0),
        (WORDS, f"<think>hm</think>\n{SAID}", 1, 0),
        (WORDS, f"<think>hm</think>{SAID}", 0, 0),
        (WORDS, f"<think>hm</think>\n{SAID}{SAID}", 0, 0),
        (WORDS, lines(GET), 0, 0),
        (WORDS, f"{lines(GET)}\n{SAID}", 0, 0),
        (WORDS, "", 0, 0),
        (BOTH, f"{lines(GET)}\n{SAID}", 1, 3),
        (BOTH, lines(GET), 0, 3),
        (BOTH, f"<think>hm</think>\n{SAID}\n" + lines(GET)[18:], 0, 3),
        (THINK_ONLY, "<think>hm</think>", 1, 0),
        (THINK_ONLY, "<think>hm", 0, 0),
        (THINK_ONLY, f"<think>hm</think>\n{SAID}", 0, 0),
        (THINK_ONLY, "<think>a</think> b <think>c</think>", 1, 0),
    ],
)
def test_toolrl(task: Task, text: str, form: float, correctness: float) -> None:
    result = paid(task, text)
    assert result.parts["format"] == form
    assert result.parts["correctness"] == pytest.approx(correctness, abs=1e-12)
    assert result.value == pytest.approx(form + correctness, abs=1e-12)
    assert result.parts["length"] == 0


REORDERED = lines(PUT, GET)
SHORT = lines(("get", {"x": 1}), PUT)


@pytest.mark.parametrize(
    ("grain", "text", "correctness"),
    [
        *((grain, lines(GET, PUT), 3.0) for grain in ("refined", "intermediate", "coarse")),
        *((grain, "nothing", -3.0) for grain in ("refined", "intermediate", "coarse")),
        ("coarse", REORDERED, -3.0),
        ("coarse", SHORT, -3.0),
        ("intermediate", REORDERED, 3.0),
        ("intermediate", SHORT, 6 * 2 / 3 - 3),
        ("intermediate", lines(GET), 6 * 1.5 / 3 - 3),
        ("intermediate", lines('{"name": "put"}', GET), 6 * 2 / 3 - 3),
        ("refined", REORDERED, 6 * 5 / 6 - 3),
        ("refined", lines(("get", {"y": "a", "x": 1}), PUT, PUT), 6 * 4 / 6 - 3),
        ("refined", SHORT, 6 * (1 + 1 + 2) / 6 - 3),
        ("refined", lines('{"name": ["get"], "parameters": {}}', GET), 6 * 3 / 6 - 3),
    ],
)
def test_grains_of_toolrl(grain: str, text: str, correctness: float) -> None:
    assert paid(TWO, text, grain=grain).parts["correctness"] == pytest.approx(correctness)


@pytest.mark.parametrize(
    ("scale", "step", "form", "correctness"),
    [
        ("fixed", 1, (0, 1), (-3, 3)),
        ("equal", 500, (0, 1), (-1, 1)),
        ("two_stage", 29, (0, 1), (-1, 1)),
        ("two_stage", 30, (0, 0.5), (-3, 3)),
        ("scheduled", 15, (-1.8, 1.9), (-2.1, 2.1)),
        ("scheduled", 75, (-1, 1.5), (-2.5, 2.5)),
        ("scheduled", 120, (-1, 1.2), (-2.8, 2.8)),
        ("scheduled", 400, (-1, 1), (-3, 3)),
    ],
)
def test_scales_of_toolrl(
    scale: Any, step: int, form: tuple[float, float], correctness: tuple[float, float]
) -> None:
    found = ranges(scale, step)
    assert found.format == pytest.approx(form)
    assert found.correctness == pytest.approx(correctness)
    best, worst = paid(ONE, lines(GET), step - 1, scale=scale), paid(ONE, "", step - 1, scale=scale)
    assert best.value == pytest.approx(form[1] + correctness[1])
    assert worst.value == pytest.approx(form[0] + correctness[0])


@pytest.mark.parametrize(
    ("length", "words", "step", "expected"),
    [
        ("none", 512, 1, 0.0),
        ("fixed", 512, 1, 1.0),
        ("fixed", 5000, 1, 1.0),
        ("fixed", 128, 1, 0.25),
        ("fixed", 100, 1, 0.2),
        ("fixed", 2, 1, 0.0),
        ("fixed", 3, 1, 0.01),
        ("scheduled", 192, 105, 0.3),
        ("scheduled", 640, 105, 1.0),
        ("scheduled", 512, 210, 0.57),
    ],
)
def test_lengths_of_toolrl(length: str, words: int, step: int, expected: float) -> None:
    text = lines(GET).replace("hm", "so " * words)
    assert paid(ONE, text, step - 1, length=length).parts["length"] == expected
    assert paid(ONE, text.replace("</think>", ""), length="fixed").parts["length"] == 0


def test_the_length_is_that_of_the_last_thought() -> None:
    text = lines(GET).replace("hm", f"{'so ' * 512}</think>\n<think>short")
    assert paid(ONE, text, length="fixed").parts["length"] == 0


# -- Tool-N1 -------------------------------------------------------------------------------------


def n1(task: Task, text: str, name: str = "tool_n1") -> float:
    return score(get_reward(name), task, says(text)).value


ALL, NONE, NAMED = (1, 1), (0, 0.2), (0, 0.4)


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        (ONE, listed(GET), ALL),
        (ONE, listed(GET).replace("[", "").replace("]", ""), ALL),
        (ONE, f"so {listed(GET)} and {SAID}", ALL),
        (ONE, listed(("get", {"y": "a", "x": 1})), ALL),
        (ONE, _tagged(json.dumps(f"[{_json(GET, 'arguments')}]")), ALL),
        (ONE, _tagged(json.dumps(_json(GET, "arguments"))), ALL),
        (ONE, listed(GET).replace("</think>", "") + "</think>", ALL),
        (ONE, listed(PUT) + listed(GET), ALL),
        (ONE, listed('{"name": "get", "arguments": {"x": 1, "y": "a"}, "id": 7}'), ALL),
        (ONE, listed(GET) + listed(PUT), NONE),
        (ONE, listed(GET).replace("1", "1.0"), NAMED),
        (ONE, listed(GET).replace("1", "true"), NAMED),
        (ONE, listed(("get", {"x": "1", "y": "a"})), NAMED),
        (ONE, listed('{"name": "get", "arguments": "{}"}'), NAMED),
        (ONE, listed(GET, GET), NONE),
        (ONE, listed("get"), NONE),
        (ONE, listed('{"name": "get"}'), NONE),
        (ONE, listed('{"name": ["get"], "arguments": {}}'), NONE),
        (ONE, listed("5"), NONE),
        (ONE, listed(), NONE),
        (ONE, _tagged("5"), NONE),
        (ONE, _tagged("true"), NONE),
        (ONE, _tagged("null"), NONE),
        (ONE, _tagged('"no JSON"'), NONE),
        (ONE, _tagged(""), NONE),
        (ONE, _tagged("[" * 100_000), NONE),
        (ONE, _tagged("9" * 5_000), NONE),
        (ONE, _tagged('[{"name": "get", "arg'), NONE),
        (ONE, "<think>hm</think>", NONE),
        (ONE, "<think>hm</think><tool_call>" + _json(GET, "arguments"), NONE),
        (ONE, "", (0, 0)),
        (ONE, listed(GET).replace("<think>", ""), (0, 0.8)),
        (TWO, listed(PUT, GET), ALL),
        (TWO, listed(PUT), NONE),
        (TWO, listed(PUT, ("get", {})), NAMED),
        (single(GET, GET), listed(GET, GET), ALL),
        (single(GET, GET), listed(GET), NONE),
        (WORDS, listed(), ALL),
        (WORDS, _tagged("{}"), NONE),
        (WORDS, listed(GET), NONE),
        (WORDS, f"<think>hm</think>\n{SAID}", NONE),
        (WORDS, "", (0, 0)),
    ],
)
def test_tool_n1(task: Task, text: str, expected: tuple[float, ...]) -> None:
    assert [n1(task, text, name) for name in N1] == pytest.approx(expected)


# -- both, against their formulas ----------------------------------------------------------------

SAMPLES = [*slow(2_000), 500]


@pytest.mark.slow
@pytest.mark.parametrize("samples", SAMPLES)
@pytest.mark.parametrize("grain", ["jaccard", "refined", "intermediate", "coarse"])
def test_toolrl_is_its_formula_on_drawn_responses(grain: str, samples: int) -> None:
    rng, seen = random.Random(f"toolrl-{grain}"), set[float]()
    for number in range(samples):
        truth, words, text = draw(rng, "parameters")
        found = paid(single(*truth, response=words), text, grain=grain)
        form, correctness = toolrl(truth, words, text, grain)
        assert found.parts["format"] == form, (number, truth, words, text[:500])
        assert found.parts["correctness"] == pytest.approx(correctness), (number, truth, text[:500])
        seen.add(round(found.value, 6))
    assert {-3.0, -2.0, 0.0, 1.0, 4.0} <= seen
    assert len(seen) > (min(30, samples // 40) if grain != "coarse" else 5)


@pytest.mark.slow
@pytest.mark.parametrize("samples", SAMPLES)
def test_tool_n1_is_its_formula_on_drawn_responses(samples: int) -> None:
    rng, seen = random.Random("tool_n1"), set[tuple[float, ...]]()
    for number in range(samples):
        truth, _, text = draw(rng, "arguments")
        found = [n1(single(*truth), text, name) for name in N1]
        expected = tool_n1(truth, text)
        assert found == pytest.approx([expected[name] for name in N1]), (number, truth, text[:500])
        seen.add(tuple(round(value, 6) for value in found))
    assert {ALL, NONE, NAMED} <= seen


# -- as the dialect read it ----------------------------------------------------------------------


def read(verdict: ParseVerdict, *calls: Call) -> Trajectory:
    made = tuple(ToolCall(name, arguments) for name, arguments in calls)
    return says("whatever it wrote", verdict=verdict, calls=made)


CALLS, ANSWER, BAD = ParseVerdict.CALLS, ParseVerdict.ANSWER, ParseVerdict.MALFORMED


@pytest.mark.parametrize(
    ("task", "trajectory", "toolrl", "n1"),
    [
        (ONE, read(CALLS, GET), 4.0, 1.0),
        (ONE, read(ParseVerdict.BAD_ARGS, GET), 4.0, 1.0),
        (ONE, read(CALLS, PUT), -2.0, 0.0),
        (ONE, read(ParseVerdict.UNKNOWN_TOOL, ("got", {})), -2.0, 0.0),
        (ONE, read(CALLS, ("get", {"x": ToolCall("put"), "y": "a"})), 1 + 1.5, 0.0),
        (ONE, read(ANSWER), -3.0, 0.0),
        (ONE, read(BAD), -3.0, 0.0),
        (ONE, read(ParseVerdict.TRUNCATED), -3.0, 0.0),
        (WORDS, read(ANSWER), 1.0, 1.0),
        (WORDS, read(CALLS, GET), 0.0, 0.0),
        (WORDS, read(BAD), 0.0, 0.0),
    ],
)
def test_the_form_of_the_dialect(
    task: Task, trajectory: Trajectory, toolrl: float, n1: float
) -> None:
    worth = {"toolrl": toolrl, "tool_n1": n1}
    for name, expected in worth.items():
        assert score(get_reward(name, {"form": "dialect"}), task, trajectory).value == expected


def test_the_paper_form_of_text_knows_no_dialect() -> None:
    """A call in another form than the paper's earns nothing unless a setting says so."""
    for verdict in ParseVerdict:
        assert score(get_reward("toolrl"), ONE, read(verdict, GET)).value == -3
        assert all(score(get_reward(name), ONE, read(verdict, GET)).value == 0 for name in N1)


# -- settings ------------------------------------------------------------------------------------


def test_variants_are_settings() -> None:
    wanted = ["rewards.toolrl.grain=coarse", "rewards.tool_n1.form=dialect"]
    rewards = rewards_of(load_config("rods", "", wanted).rewards)
    assert rewards._get("toolrl").grain == "coarse"  # type: ignore[attr-defined]
    assert rewards._get("tool_n1_names").form == "dialect"  # type: ignore[attr-defined]
    assert rewards._get("tool_n1").form == "dialect"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("rewards.toolrl.grian=coarse", "has no constant 'grian'. Did you mean 'grain'"),
        ("rewards.toolrl.grain=fine", "grain of 'toolrl' is 'fine'. Input should be 'jaccard'"),
        ("rewards.toolr.grain=coarse", "rewards.toolr: no reward has such a name"),
        (
            "stages.0.reward=outcome rewards.outcome.bonus=1",
            "the reward 'outcome' has no constant 'bonus'. Known: none.",
        ),
    ],
)
def test_constants_that_a_reward_has_not_are_refused(wanted: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        require_named(load_config("toolrl", "small", wanted.split()))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("wanted", "unread"), [("toolrl.grain=coarse", True), ("torl.finished=true", False)]
)
def test_constants_of_a_reward_that_no_stage_has_are_noted(
    wanted: str, unread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    startable(load_config("torl", "small", [f"rewards.{wanted}"]))
    assert ("rewards.toolrl has no effect" in caplog.text) is unread


# -- what cannot be scored -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task("x", "y", (Turn("a"), Turn("b")), {}), "has 2 turns; this reward scores single"),
        (single(("get", {"x": [{"y": ToolCall("put")}]})), "the nested call put"),
        (single(GET, response="yes"), "expected true or false"),
    ],
)
def test_a_broken_ground_truth_is_refused(task: Task, message: str) -> None:
    for name in ("toolrl", *N1):
        with pytest.raises(RewardError, match=message):
            score(get_reward(name), task, says(lines(GET)))


def test_several_generations_are_refused() -> None:
    once = says(lines(GET))
    twice = Trajectory("t", 0, 0, 1, (), once.steps * 2, once.verdicts, 1, (), once.stop)
    for name in ("toolrl", "tool_n1"):
        with pytest.raises(RewardError, match=r"Set rollout\.steps_per_turn = 1"):
            score(get_reward(name), ONE, twice)


# -- attacks -------------------------------------------------------------------------------------

QUESTION = "Use get with x 1 and y a."
EVERYTHING = [(name, {"x": x, "y": y}) for name in ("get", "put") for x in (1, 2) for y in "ab"]
ATTACKS = {
    "the question": QUESTION,
    "the question in the form": _tagged(QUESTION),
    "nothing": "",
    "a thought": "<think>get x=1 y=a</think>",
    "words": f"<think>hm</think>\n{SAID}",
    "an empty form": _tagged(""),
    "no form": _json(GET, "parameters") + _json(GET, "arguments"),
    "only tags": "".join(TAGS),
    "call in the thought": f"<think>{_json(GET, 'arguments')}</think>",
    "JSON in JSON in JSON": _tagged(json.dumps(json.dumps(json.dumps([{"name": "get"}])))),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attacks_do_not_pay(attack: str) -> None:
    """At most the format of the shape, never the calls; no attack is worth a wrong honest call."""
    assert paid(ONE, attack).parts["correctness"] == -3
    assert paid(ONE, attack).parts["correct"] == 0
    assert paid(ONE, attack).value <= paid(ONE, lines(("get", {}))).value
    assert n1(ONE, attack, "tool_n1") == 0


def test_what_fools_the_partial_form_of_tool_n1() -> None:
    """Two tags and nothing else pay 0.2: the released code, and why binary is the default."""
    assert n1(ONE, "<think></think>", "tool_n1_names") == 0.2
    assert n1(ONE, listed(("get", {})), "tool_n1_names") == 0.4


def test_naming_everything_pays_less_the_more_is_named() -> None:
    """ToolRL: one right call among n gets the share of names 1/n, and all the rest."""
    worth = [paid(ONE, lines(GET, *EVERYTHING[1 : 1 + n])).value for n in range(len(EVERYTHING))]
    assert worth == sorted(worth, reverse=True)
    assert worth[-1] == pytest.approx(1 + 6 * (1 / 8 + 3) / 4 - 3)  # 2.69 of 4: it is fooled
    assert n1(ONE, listed(*EVERYTHING), "tool_n1") <= 0
    assert paid(ONE, lines(*EVERYTHING), grain="coarse").parts["correctness"] == -3
    assert paid(ONE, lines(*EVERYTHING)).parts["correct"] == 0


def test_the_same_call_many_times() -> None:
    assert paid(ONE, lines(*[GET] * 50)).value < paid(ONE, lines(GET, GET)).value < 4
    assert n1(ONE, listed(GET, GET)) == 0


def test_an_assistant_header_of_its_own_does_not_hide_what_stands_before() -> None:
    """The released code reads on from there; here the response is all that was generated."""
    for header in ("<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>assistant\n"):
        text = f"rambling {header}{lines(GET)}"
        assert paid(ONE, text).parts["format"] == 0
        assert n1(ONE, f"{listed(PUT)}{header}", "tool_n1") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [*TAGS, "\n", "{", "[", '"', "</think>\n<tool_call>\n", "<tool_call></tool_call>", "9"]
)
def test_floods_take_linear_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    for flood in (text, f"<think>{text}</think>\n<tool_call>\n{text}\n</tool_call>"):
        for task in (TWO, BOTH, WORDS, THINK_ONLY):
            began = time.process_time()
            assert paid(task, flood, length="fixed").parts["correct"] in (0, 1)
            for name in N1:
                n1(task, flood, name)
            assert time.process_time() - began < 2, piece
