"""Single steps by hand and at random, and what their papers' formulas say of them.

The references are written from the formulas alone: they import nothing of the rewards.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from rods.env import TurnVerdict
from rods.task import Task, Turn
from rods.trajectory import Step, Trajectory
from rods.types import FinishReason, Json, ParseVerdict, StopReason, ToolCall

Call = tuple[str, dict[str, Any]]


def single(*calls: Call, **world: Json) -> Task:
    """A single step that wants these calls."""
    truth = tuple(ToolCall(name, arguments) for name, arguments in calls)
    return Task("function_call", "single", (Turn("Do it.", truth),), world)


def says(
    text: str,
    version: int = 0,
    verdict: ParseVerdict = ParseVerdict.ANSWER,
    calls: tuple[ToolCall, ...] = (),
    stop: StopReason = StopReason.DONE,
) -> Trajectory:
    """One response."""
    step = Step(0, text, verdict, FinishReason.STOP, calls, (), 10)
    judged = (TurnVerdict(False, 0, True, True, True),)
    return Trajectory("t", 0, version, 1, (), (step,), judged, 1, (), stop)


# -- references ----------------------------------------------------------------------------------


def shape(text: str, calls: bool, words: bool) -> bool:
    """ToolRL's format, by cutting pieces off both ends."""
    if not text.startswith("<think>"):
        return False
    for tag, wanted in (("tool_call", calls), ("response", words)):
        if wanted and (text.count(f"<{tag}>") != 1 or text.count(f"</{tag}>") != 1):
            return False
    rest = text[len("<think>") :]
    if words:
        head, found, tail = rest.rpartition("\n<response>")
        if not found or not tail.endswith("</response>"):
            return False
        rest = head
    if calls:
        head, found, tail = rest.rpartition("\n<tool_call>\n")
        if not found or not tail.endswith("\n</tool_call>"):
            return False
        rest = head
    return rest.endswith("</think>")


def jaccard(first: list[Any], second: list[Any]) -> float:
    if first == second:
        return 1.0
    left, common = list(second), 0
    for item in first:
        if any(item == other and hash(item) == hash(other) for other in left):
            left.remove(item)
            common += 1
        hash(item)
    for item in left:
        hash(item)
    return common / (len(first) + len(second) - common) if first and second else 0.0


def toolrl(
    truth: list[Call], words: bool, text: str, grain: str = "jaccard"
) -> tuple[float, float]:
    """Format and correctness of ToolRL."""
    text = text.strip()
    form = float(shape(text, bool(truth), words))
    if not truth:
        return form, 0.0
    if "<tool_call>" not in text or "</tool_call>" not in text:
        return form, -3.0
    body = text[text.index("<tool_call>") + len("<tool_call>") :]
    again = body.find("<tool_call>")
    body = body if again < 0 else body[:again]
    end = body.find("</tool_call>")
    lines = (body if end < 0 else body[:end]).strip().split("\n")
    try:
        given = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return form, -3.0
    wanted = [{"name": name, "parameters": arguments} for name, arguments in truth]
    if wanted == given:
        return form, 3.0
    if grain == "coarse":
        return form, -3.0
    try:
        return form, 6 * _earned(wanted, given, grain) / _most(wanted, grain) - 3
    except (KeyError, TypeError, AttributeError):
        return form, -3.0


def _most(wanted: list[dict[str, Any]], grain: str) -> float:
    return 1 + sum(1 if grain == "intermediate" else 1 + len(g["parameters"]) for g in wanted)


def _earned(wanted: list[dict[str, Any]], given: list[Any], grain: str) -> float:
    def same(a: list[Any], b: list[Any]) -> float:
        return float(a == b) if grain == "refined" else jaccard(a, b)

    total = same([g["name"] for g in wanted], [p["name"] for p in given])
    free = list(range(len(given)))
    for g in wanted:
        scores: list[tuple[float, int]] = []
        for i in [i for i in free if given[i]["name"] == g["name"]]:
            p = given[i]
            if grain == "intermediate":
                scores.append((1.0 if g == p else 0.0, -i))
                continue
            keys = same(list(g["parameters"].keys()), list(p["parameters"].keys()))
            values = sum(
                k in p["parameters"] and p["parameters"][k] == v for k, v in g["parameters"].items()
            )
            scores.append((keys + values, -i))
        best = max(scores, default=(0.0, 0))
        if best[0] > 0:
            total += best[0]
            free.remove(-best[1])
    return total


def tool_n1(truth: list[Call], text: str) -> dict[str, float]:
    """Every form of Tool-N1's reward."""
    think = "<think>" in text and "</think>" in text
    block, at = None, 0
    while True:
        start = text.find("<tool_call>", at)
        end = text.find("</tool_call>", start + 11) if start >= 0 else -1
        if end < 0:
            break
        block, at = text[start + 11 : end], end + 12
    calls: Any = None
    for _ in range(2):
        source = block if calls is None else calls
        if isinstance(source, str):
            try:
                calls = json.loads(source.strip() if calls is None else source)
            except (ValueError, RecursionError):
                calls = None
                break
    calls = [calls] if isinstance(calls, dict) else calls
    fine = isinstance(calls, list) and all(
        isinstance(c, dict) and "name" in c and "arguments" in c for c in calls
    )
    exact = names = False
    if fine:
        exact = names = not calls and not truth
        if calls and truth:
            try:
                mine = sorted(c["name"] for c in calls)
                whole = sorted(
                    (c["name"], json.dumps(c["arguments"], sort_keys=True)) for c in calls
                )
            except TypeError:
                mine, whole = [], []
            names = mine == sorted(name for name, _ in truth)
            exact = whole == sorted((n, json.dumps(a, sort_keys=True)) for n, a in truth)
    return {
        "tool_n1": float(think and exact),
        "tool_n1_names": 0.2 * think + (0.8 if exact else 0.2 if names else 0.0),
    }


# -- samples -------------------------------------------------------------------------------------

NAMES = ("get", "put", "get_all", "GET", "a b", "")
KEYS = ("x", "y", "z", "name", "arguments")
VALUES: tuple[Any, ...] = (
    0, 1, 1.0, True, False, "1", "true", None, "", [], [1], [1.0], [True], {}, {"x": 1},
    *({"y": 1.0, "x": [2]}, "<think>", "</tool_call>", "\u2028", "a\nb", 10**20, -0.0, "é"),
)  # fmt: skip


def draw_calls(rng: random.Random) -> list[Call]:
    made: list[Call] = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        keys = rng.sample(KEYS, rng.randrange(4))
        made.append((rng.choice(NAMES), {key: rng.choice(VALUES) for key in keys}))
    return made


def draw(rng: random.Random, key: str) -> tuple[list[Call], bool, str]:
    """A ground truth, whether words are wanted, and a response to it: right, wrong or hostile.

    Args:
        rng: decides.
        key: where arguments stand, `parameters` or `arguments`.
    """
    truth = draw_calls(rng)
    words = rng.random() < 0.5 if truth else rng.random() < 0.8
    given: list[Any] = [{"name": n, key: dict(a)} for n, a in truth]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        given = rng.choice(ALTER)(given, key, rng)
    text = _written(given, key, words, rng)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        text = rng.choice(SPOIL)(text, rng)
    return truth, words, text


def _written(given: list[Any], key: str, words: bool, rng: random.Random) -> str:
    lines = [json.dumps(c, ensure_ascii=rng.random() < 0.5) for c in given]
    body = "\n".join(lines) if key == "parameters" else f"[{', '.join(lines)}]"
    parts = ["<think>" + rng.choice(("hm", "", "a <response> b", "two\nlines")) + "</think>"]
    if given or rng.random() < 0.6:
        gap = "\n" if key == "parameters" or rng.random() < 0.5 else ""
        parts.append(f"<tool_call>{gap}{body}{gap}</tool_call>")
    if words or rng.random() < 0.1:
        parts.append(f"<response>{rng.choice(('Done.', '', ' said ', '</think>'))}</response>")
    return "\n".join(parts)


def _other(calls: list[Any], key: str, rng: random.Random) -> list[Any]:
    name, arguments = (draw_calls(rng) or [("get", {})])[0]
    return [*calls, {"name": name, key: arguments}]


def _change(calls: list[Any], key: str, rng: random.Random) -> list[Any]:
    if not calls:
        return calls
    made = json.loads(json.dumps(calls))
    call = rng.choice(made)
    if isinstance(call, dict) and isinstance(call.get(key), dict) and call[key]:
        call[key][rng.choice(list(call[key]))] = rng.choice(VALUES)
    return made


def _key(calls: list[Any], key: str, rng: random.Random) -> list[Any]:
    made = json.loads(json.dumps(calls))
    for call in made:
        if isinstance(call, dict) and isinstance(call.get(key), dict):
            items = list(call[key].items())
            rng.shuffle(items)
            call[key] = dict(
                items[: rng.randrange(len(items) + 1)] if rng.random() < 0.5 else items
            )
            call.update({"extra": 1} if rng.random() < 0.3 else {})
    return made


def _odd(calls: list[Any], key: str, rng: random.Random) -> list[Any]:
    odd: list[Any] = [
        5, None, True, "x", [], {}, {"name": "get"}, {key: {}}, {"name": ["get"], key: {}},
        {"name": "get", key: None}, {"name": "get", key: "{}"}, {"name": "get", key: []},
        {"name": None, key: {}}, {"name": {"a": 1}, key: {}}, {"name": 1, key: {}},
    ]  # fmt: skip
    made = [*calls, rng.choice(odd)]
    rng.shuffle(made)
    return made


ALTER: tuple[Callable[[list[Any], str, random.Random], list[Any]], ...] = (
    lambda calls, key, rng: calls[:-1],
    lambda calls, key, rng: [*calls, *calls[:1]],
    lambda calls, key, rng: calls[::-1],
    lambda calls, key, rng: [],
    _other,
    _change,
    _change,
    _key,
    _odd,
)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>")


def _insert(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    piece = rng.choice((*TAGS, "\n", " ", "null", "{", '"', "]", "\\", "\n\n", "<|im_end|>"))
    return text[:at] + piece + text[at:]


def _cut(text: str, rng: random.Random) -> str:
    a, b = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return text[:a] + text[b:]


def _drop(text: str, rng: random.Random) -> str:
    return text.replace(rng.choice(TAGS), "", 1)


def _twice(text: str, rng: random.Random) -> str:
    return rng.choice((text + "\n" + text, text + text, f"<think>{text}</think>\n{text}"))


def _body(text: str, rng: random.Random) -> str:
    body = rng.choice(
        (
            "5",
            "true",
            "null",
            '"x"',
            "[]",
            "{}",
            "",
            "[[]]",
            "NaN",
            '"[]"',
            "[" * 200_000,
            "9" * 5000,
            json.dumps(json.dumps([{"name": "get", "arguments": {}}])),
        )
    )
    return f"<think>x</think>\n<tool_call>\n{body}\n</tool_call>"


def _quoted(text: str, rng: random.Random) -> str:
    start, end = text.find("<tool_call>"), text.rfind("</tool_call>")
    if start < 0 or end < start:
        return text
    inside = text[start + 11 : end].strip()
    return f"{text[: start + 11]}\n{json.dumps(inside)}\n{text[end:]}"


SPOIL: tuple[Callable[[str, random.Random], str], ...] = (
    _insert, _insert, _cut, _drop, _twice, _body, _quoted,
    lambda text, rng: text.strip("\n") + "\n",
    lambda text, rng: "Sure. " + text,
    lambda text, rng: text.replace("\n", " "),
    lambda text, rng: "",
)  # fmt: skip


FEW = "evaluation.variants=1"
"""Of 96, where nothing is asked of them."""
SMALL = (
    "updates=1", "model.threads=1", "model.device=cpu",
    "rollout.k=4", "rollout.tasks_per_step=2",
    "rollout.generated_tokens=96", "rollout.step_tokens=48",
    "evaluation.tasks=1", "evaluation.samples=0", "env.train_tasks=8",
)  # fmt: skip
"""One small update of a small profile."""
