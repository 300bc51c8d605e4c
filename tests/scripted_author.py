"""An author for the loopback server: plans on the API graph, writes from templates, reads prompts.

It knows nothing but the prompt that it is sent and the tools' graph of the training side, so that
the whole path of the language-model writer is driven without a model.

    author = ScriptedAuthor(training_tasks, environment)
    Loopback(author)
"""

from __future__ import annotations

import functools
import json
import random
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from rods.env import Environment
from rods.pycall import PyCall, parse_python_calls
from rods.synthesis.apigraph import ApiGraph
from rods.synthesis.flow import Step, all_tools, owners, read_result
from rods.synthesis.ground import Grounder, Live
from rods.synthesis.phrases import Ask, load_phrases
from rods.synthesis.phrases import noun as noun_of
from rods.synthesis.prompting import summary
from rods.synthesis.writers.domains import load_domains
from rods.synthesis.writers.resample import ResampleWriter
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec


class ScriptedAuthor:
    """Answers every stage's prompt."""

    def __init__(self, pool: Sequence[Task], environment: Environment):
        self._graph = ApiGraph.of(pool, lambda task: owners(environment, task))
        self._specs: dict[str, ToolSpec] = {}
        for task in pool:
            self._specs.update(all_tools(environment, task))
        self._domains = load_domains(environment.name)
        materials = ResampleWriter(pool, environment).materials
        self._grounder = Grounder(self._domains, self._specs, self._graph.exemplars, materials)
        self._phrases = load_phrases(environment.name)

    def __call__(self, body: Mapping[str, Any]) -> str:
        prompt = str(body["messages"][-1]["content"])
        rng = random.Random(zlib.crc32(prompt.encode()) + int(body.get("seed") or 0))
        if prompt.startswith("You plan conversations"):
            return self._plan(prompt, rng)
        if prompt.startswith("You fill in the arguments"):
            return self._execute(prompt, rng)
        if prompt.startswith("A planned function call failed"):
            return json.dumps({"action": "block", "hint": "choose another function"})
        if prompt.startswith("You write what a person says"):
            return self._rewrite(prompt, rng)
        if prompt.startswith("Here is what a person says"):
            rows = re.findall(r"^\d+\. (.*)$", prompt, re.M)
            return json.dumps({"messages": [self._joined(i, row) for i, row in enumerate(rows)]})
        criteria = ("matches", "values", "coherent", "natural", "gaps")
        return json.dumps({**dict.fromkeys(criteria, True), "problem": "", "fault": "none"})

    def _joined(self, index: int, row: str) -> str:
        return row if index == 0 or not row else f"Well, {row[:1].lower()}{row[1:]}"

    def _plan(self, prompt: str, rng: random.Random) -> str:
        example = prompt.split("(do not repeat them all):\n")[1].split("\n")[0]
        names = [call.name for call in _calls(example)]
        tools = dict(re.findall(r"^- (\w+) \[(\w*)\]:", prompt, re.M))
        takes = set(re.findall(r"an earlier (\w+) gave", prompt))
        turns: list[dict[str, list[str]]] = []
        before = ""
        shape = re.findall(r"^Turn \d+: (\d+) calls? of [^\n(]*(\(.*)?$", prompt, re.M)
        for count, edges in shape:
            planned: list[str] = []
            for _ in range(int(count)):
                seeded = names.pop(0)
                keep = seeded in tools and (seeded in takes or bool(edges) or rng.random() < 0.4)
                near = [t for t, o in tools.items() if o == tools.get(seeded) and t not in planned]
                near = near or [t for t in tools if t not in planned]
                drawn = rng.choices(near, self._graph.ranked(before, near))[0]
                before = seeded if keep and seeded not in planned else drawn
                planned.append(before)
            turns.append({"functions": planned})
        return json.dumps({"narrative": "Someone has a busy day.", "turns": turns})

    def _execute(self, prompt: str, rng: random.Random) -> str:
        name = prompt.split("Function: ")[1].split("\n")[0]
        told = prompt.split("with their results:\n")[1].split("\nState of the world now:")[0]
        steps: list[Step] = []
        for line in told.splitlines():
            call, arrow, result = line.partition(") -> ")
            if arrow:
                made = _calls(call + ")")[0]
                steps.append(Step(0, made, ToolResult(result), *read_result(result)))
        live = Live(_state(prompt), steps)
        live.look(self._domains)
        done = {str(step.call) for step in steps}
        for _ in range(20):
            call = self._grounder.fill(name, live, rng)
            if call is not None and str(call) not in done:
                return json.dumps({"arguments": call.arguments})
        return json.dumps({"arguments": {}})

    def _rewrite(self, prompt: str, rng: random.Random) -> str:
        first = "The person said before:" not in prompt
        asks = [self._ask(block) for block in _blocks(prompt)]
        text = self._phrases.turn(asks, rng, first=first)
        answer = re.search(r"left open: the (.*) is (.*)\.$", prompt, re.M)
        reply = f"<answer>The {answer[1]} is {answer[2]}.</answer>" if answer else ""
        return f"<message>{text}</message>{reply}"

    def _ask(self, block: str) -> Ask:
        head, *rows = block.splitlines()
        nouns = {row.strip()[2:].partition(": ")[0] for row in rows}
        spec = self._asked(head.split(". ", 1)[1].strip(), nouns)
        arguments: dict[str, Any] = {}
        shown: set[str] = set()
        blurred = ""
        for row in rows:
            noun, _, value = row.strip()[2:].partition(": ")
            name = next(p for p in _properties(spec) if noun_of(p) == noun)
            if value.startswith("leave this open"):
                blurred, arguments[name] = name, ""
            elif value.startswith("do not say"):
                shown.add(name)
                arguments[name] = ""
            else:
                arguments[name] = json.loads(value)
        return Ask(ToolCall(spec.name, arguments), spec, frozenset(shown), blurred)

    def _asked(self, told: str, nouns: set[str]) -> ToolSpec:
        """The tool of this summary whose parameters fit."""
        for spec in self._specs.values():
            known = {noun_of(name) for name in _properties(spec)}
            required = {noun_of(name) for name in spec.parameters.get("required", [])}  # type: ignore[union-attr, arg-type]
            if summary(spec.description) == told and required <= nouns <= known:
                return spec
        raise LookupError(told)


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    found: Any = spec.parameters.get("properties", {})
    return found


def _calls(text: str) -> list[ToolCall]:
    return [_plain(call) for call in parse_python_calls("[" + text.replace("); ", "), ") + "]")]


def _plain(call: PyCall) -> ToolCall:
    values = {k: _plain(v) if isinstance(v, PyCall) else v for k, v in call.keyword.items()}
    return ToolCall(call.name, values)  # type: ignore[arg-type]


def _state(prompt: str) -> Mapping[str, Any]:
    return json.loads(prompt.split("State of the world now:\n")[1].split("\n")[0])


def _blocks(prompt: str) -> list[str]:
    part = prompt.split("in this order:\n")[1].split("\nSay every value")[0]
    return [block for block in re.split(r"\n(?=\d+\. )", part.strip()) if block.strip()]


@functools.cache
def _bundled() -> ScriptedAuthor:
    from rods.envs.bfcl.tasks import load_tasks, split
    from rods.envs.bfcl.world import BfclEnvironment

    return ScriptedAuthor(split(load_tasks()).train, BfclEnvironment())


def author(body: Mapping[str, Any]) -> str:
    """For `python tests/loopback.py --author scripted_author:author`, run in `tests`."""
    return _bundled()(body)
