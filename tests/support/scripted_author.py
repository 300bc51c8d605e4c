"""An author for the loopback server: plans on the API graph, writes from templates, reads prompts.

It knows nothing but the prompt that it is sent and the tools' graph of the training split, so that
the whole path of the language-model writer is driven without a model. Arguments are copied from
what the prompt shows, as a careful model would: results first, then the state of the world.

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
from rods.infra.pycall import PyCall, parse_python_calls
from rods.synthesis.llm.prompting import summary
from rods.synthesis.planned import CallRequest
from rods.synthesis.structure.domains import Domains, domains_of
from rods.synthesis.structure.trace import TraceStep, all_tools, owners, read_result
from rods.synthesis.structure.words import noun as noun_of
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.ground import Grounder
from rods.writers.graph.live import Live
from rods.writers.resample.writer import ResampleWriter
from rods.writers.templates.phrases import phrases_of

KEEP = 0.75
"""How often a function of the example is planned again."""
BOLD = {"startEngine", "setCruiseControl", "rmdir", "notify_price_change", "filter_stocks_by_price"}
"""Functions that fail in most worlds unless others prepare them."""
FROM_RESULTS: Mapping[str, Sequence[str]] = {
    "distance": ("distance",),
    "fuelAmount": ("gallon",),
    "set_navigation.destination": ("shopLocation",),
    "travel_from": ("nearest_airport",),
    "value": ("travel_cost_list", "exchanged_value"),
    "budget_limit": ("exchanged_value",),
    "order_id": ("order_id", "id"),
    "ticket_id": ("id",),
    "tweet_id": ("id",),
    "user_id": ("user_id",),
    "receiver_id": ("user_id",),
    "card_id": ("card_id",),
    "access_token": ("access_token",),
    "booking_id": ("booking_id",),
    "insurance_id": ("insurance_id",),
    "price": ("price",),
    "symbol": ("symbol",),
}
"""Fields of results that a parameter is copied from."""
OWNERS = {"ticket_id": "ticket", "tweet_id": "tweet", "order_id": "order"}
"""What the function that gave an `id` must be about."""
TOGETHER = {"lockDoors", "pressBrakePedal", "startEngine"}
"""The engine starts only after the others."""
TANK = 50.0
POINTS = 0.9
"""How often a value is pointed at where the prompt says that it may be."""


class Reader:
    """Values of one prompt: what the results and the state say."""

    def __init__(
        self,
        state: Mapping[str, Any],
        steps: Sequence[TraceStep],
        domains: Domains,
        rng: random.Random,
    ):
        self.state, self._steps, self._domains, self._rng = state, steps, domains, rng

    def mend(self, tool: str, drawn: dict[str, Any]) -> dict[str, Any]:
        """Drawn arguments with those that the prompt tells better."""
        zips = self._found("zipcode")
        for name in drawn:
            fields = FROM_RESULTS.get(f"{tool}.{name}") or FROM_RESULTS.get(name, ())
            found = [v for field in fields for v in self._found(field, OWNERS.get(name, ""))]
            if found:
                drawn[name] = found[-1]
        if {"cityA", "cityB"} <= drawn.keys() and len(set(zips)) > 1:
            drawn["cityA"], drawn["cityB"] = list(dict.fromkeys(zips))[-2:]
        elif tool == "get_zipcode_based_on_city":
            drawn["city"] = self._city(zips)
        numbers = [leaf.value for s in self._steps[-1:] for leaf in s.leaves]
        numbers = [n for n in numbers if isinstance(n, float)]
        if "numbers" in drawn and len(numbers) > 1:
            drawn["numbers"] = numbers
        booked = self._bookings()
        if tool == "retrieve_invoice" or "booking_id" in drawn:
            drawn |= {"booking_id": booked[-1]} if booked else {}
        if tool == "remove_stock_from_watchlist":
            watched = self.state.get("TradingBot", {}).get("watch_list", [])
            drawn["symbol"] = self._rng.choice(watched or [drawn["symbol"]])
        self._afford(tool, drawn)
        self._drive(tool, drawn)
        if "GorillaFileSystem" in self.state:
            self._files(tool, drawn)
        return drawn

    def _city(self, zips: Sequence[Any]) -> str:
        """A city that there is a road to, from the one that was looked up last."""
        cities = self._domains.tables["city"]
        codes = cities.owners["zip"]
        roads = [pair for pair in cities.pairs[1].known if set(pair) <= codes.keys()]
        last = [pair for pair in roads if zips and zips[-1] in pair]
        pair = self._rng.choice(sorted(last or roads))
        free = [code for code in pair if code not in zips] or list(pair)
        return codes[free[0]]

    def _bookings(self) -> list[str]:
        """Bookings that stand and are not cancelled."""
        known = list(self.state.get("TravelAPI", {}).get("booking_record", {}))
        cancelled = [s.call for s in self._steps if "cancel" in s.call.name]
        gone = {str(call.arguments.get("booking_id")) for call in cancelled}
        return [b for b in [*known, *self._found("booking_id")] if b not in gone and b != "..."]

    def _found(self, field: str, about: str = "") -> list[Any]:
        return [
            leaf.value
            for step in self._steps
            if about in step.call.name
            for leaf in step.leaves
            if next((p for p in reversed(leaf.path) if isinstance(p, str)), "") == field
        ]

    def _afford(self, tool: str, drawn: dict[str, Any]) -> None:
        account = self.state.get("TradingBot", {}).get("account_info", {})
        balance = account.get("balance", 0.0)
        if tool == "withdraw_funds":
            drawn["amount"] = round(balance / self._rng.choice((4, 5, 8)), 2)
        if tool == "place_order" and drawn.get("price"):
            most = int(balance / float(drawn["price"]))
            drawn["amount"] = max(1, min(int(drawn["amount"]), most))

    def _drive(self, tool: str, drawn: dict[str, Any]) -> None:
        car = self.state.get("VehicleControlAPI", {})
        if tool == "fillFuelTank":
            room = TANK - float(car.get("fuelLevel", 0.0))
            drawn["fuelAmount"] = min(drawn["fuelAmount"], float(int(room)))
        if tool == "lockDoors":
            drawn.update(unlock=False, door=["driver", "passenger", "rear_left", "rear_right"])
        if tool == "pressBrakePedal":
            drawn["pedalPosition"] = 1.0

    def _files(self, tool: str, drawn: dict[str, Any]) -> None:
        here = self._folder()
        files = {n: str(v.get("content", "")) for n, v in here.items() if v.get("type") == "file"}
        folders = [n for n, v in here.items() if v.get("type") == "directory"]
        full = [n for n, text in files.items() if text.strip()] or list(files)
        if tool == "cd":
            drawn["folder"] = self._rng.choice(folders or [".."])
        elif tool == "diff" and len(files) > 1:
            drawn["file_name1"], drawn["file_name2"] = self._rng.sample(list(files), 2)
        elif tool in ("cat", "grep", "sort", "tail", "wc", "rm") and full:
            drawn["file_name"] = self._rng.choice(full)
        elif tool in ("cp", "mv") and files:
            drawn["source"] = self._rng.choice(list(files))
            free = [drawn["destination"], "copy_" + drawn["source"]]
            drawn["destination"] = next(n for n in free if n not in here)
        elif tool == "echo" and drawn.get("file_name") in folders:
            del drawn["file_name"]
        if tool == "grep":
            words = re.findall(r"[A-Za-z]{4,}", files.get(drawn["file_name"], ""))
            drawn["pattern"] = self._rng.choice(words or ["the"])

    def _folder(self) -> Mapping[str, Any]:
        """What the current folder contains, by the way that `cd` went."""
        here = self.state["GorillaFileSystem"].get("root", {})
        above: list[Any] = []
        for step in self._steps:
            if step.call.name != "cd" or step.result.failed or "error" in step.result.content:
                continue
            name = str(step.call.arguments.get("folder", "")).rstrip("/")
            if name == ".." and above:
                here = above.pop()
            elif name in here.get("contents", {}):
                above.append(here)
                here = here["contents"][name]
        found: Mapping[str, Any] = here.get("contents", {})
        return {n: v for n, v in found.items() if isinstance(v, dict)}


class ScriptedAuthor:
    """Answers every stage's prompt."""

    def __init__(self, pool: Sequence[Task], environment: Environment):
        self._graph = ApiGraph.of(pool, lambda task: owners(environment, task))
        self._specs: dict[str, ToolSpec] = {}
        for task in pool:
            self._specs.update(all_tools(environment, task))
        self._domains = domains_of(environment)
        materials = ResampleWriter(pool, environment).materials
        self._grounder = Grounder(self._domains, self._specs, self._graph, materials)
        self._phrases = phrases_of(environment)

    def __call__(self, body: Mapping[str, Any]) -> str:
        prompt = str(body["messages"][-1]["content"])
        rng = random.Random(zlib.crc32(prompt.encode()) + int(body.get("seed") or 0))
        if prompt.startswith("You plan conversations"):
            return self._plan(prompt, rng)
        if prompt.startswith("You fill in the arguments"):
            return self._execute(prompt, rng)
        if prompt.startswith("A step of a planned conversation failed"):
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
        state = _state(prompt, "in which it happens:\n")
        turns: list[dict[str, list[str]]] = []
        before, earlier = "", list[str]()
        shape = re.findall(r"^Turn \d+: (\d+) calls? of [^\n(]*(\(.*)?$", prompt, re.M)
        for count, edges in shape:
            planned: list[str] = []
            for _ in range(int(count)):
                seeded = names.pop(0)
                held = seeded in takes or bool(edges) or seeded in TOGETHER
                keep = seeded in tools and (held or rng.random() < KEEP)
                if keep and (seeded not in planned or seeded in takes):
                    before = seeded
                else:
                    before = self._instead(seeded, before, planned, earlier, tools, state, rng)
                planned.append(before)
                earlier.append(before)
            turns.append({"functions": planned})
        return json.dumps({"narrative": "Someone has a busy day.", "turns": turns})

    def _instead(
        self,
        seeded: str,
        before: str,
        planned: Sequence[str],
        earlier: Sequence[str],
        tools: Mapping[str, str],
        state: Mapping[str, Any],
        rng: random.Random,
    ) -> str:
        """Another function of the same class that this world has the values for."""
        live = Live(state)
        live.look(self._domains)
        free = [t for t in tools if t not in planned and t not in BOLD]
        near = [t for t in free if tools[t] == tools.get(seeded)]
        may = [t for t in near if self._can(t, live) and self._may(t, tools[t], state, earlier)]
        near = may or near or free or list(tools)
        return rng.choices(near, [self._graph.weight(before, tool) for tool in near])[0]

    def _can(self, tool: str, live: Live) -> bool:
        needed = self._specs[tool].parameters.get("required", [])
        kinds = {name: self._domains.parameter(tool, name) for name in needed}  # type: ignore[union-attr]
        coded = [name for name, kind in kinds.items() if kind in ("id", "ident")]
        return all(live.existing(kinds[n], n) or n in self._domains.fresh for n in coded)

    def _may(self, tool: str, owner: str, state: Mapping[str, Any], before: Sequence[str]) -> bool:
        """Whether nobody has to sign in first."""
        row = state.get(owner, {})
        out = row.get("authenticated") is False or row.get("current_user", "") is None
        open_to_all = re.search(r"login|authenticat|status|^get_|^list_", tool)
        return not out or bool(open_to_all) or any(re.search("login|authent", t) for t in before)

    def _execute(self, prompt: str, rng: random.Random) -> str:
        name = prompt.split("Function: ")[1].split("\n")[0]
        told = prompt.split("with their results:\n")[1].split("\nState of the world now:")[0]
        steps: list[TraceStep] = []
        for line in told.splitlines():
            call, arrow, result = line.partition(") -> ")
            if arrow:
                made = _calls(call + ")")[0]
                steps.append(TraceStep(0, made, ToolResult(result), *read_result(result)))
        reader = Reader(_state(prompt), steps, self._domains, rng)
        live = Live(reader.state, steps)
        live.look(self._domains)
        done = {str(step.call) for step in steps}
        for _ in range(20):
            call = self._grounder.fill(name, live, rng)
            if call is None:
                continue
            arguments = reader.mend(name, dict(call.arguments))
            if str(ToolCall(name, arguments)) not in done:
                return json.dumps({"arguments": arguments})
        return json.dumps({"arguments": reader.mend(name, {})})

    def _rewrite(self, prompt: str, rng: random.Random) -> str:
        first = "The person said before:" not in prompt
        asks = [self._ask(block) for block in _blocks(prompt)]
        text = self._phrases.turn(asks, rng, first=first)
        for ask, block in zip(asks, _blocks(prompt), strict=True):
            text = self._pointed(text, ask, block, rng)
        answer = re.search(r"left open: the (.*) is (.*)\.$", prompt, re.M)
        reply = f"<answer>The {answer[1]} is {answer[2]}.</answer>" if answer else ""
        return f"<message>{text}</message>{reply}"

    def _ask(self, block: str) -> CallRequest:
        head, *rows = re.split(r"\n   - ", block)
        told = dict(row.partition("\n")[0].partition(": ")[::2] for row in rows)
        spec = self._asked(head.split(". ", 1)[1].strip(), set(told))
        arguments: dict[str, Any] = {}
        blurred = ""
        for noun, value in told.items():
            name = next(p for p in _properties(spec) if noun_of(p) == noun)
            if value.startswith("leave this open"):
                blurred, arguments[name] = name, ""
            else:
                arguments[name] = json.loads(value)
        return CallRequest(ToolCall(spec.name, arguments), spec, blurred=blurred)

    def _pointed(self, text: str, ask: CallRequest, block: str, rng: random.Random) -> str:
        """The message with references for values that it may point at: the prompt's or its own."""
        wording = self._phrases.wordings.get(ask.call.name)
        offered = re.findall(
            r"\n   - (.*): .*\n +Better point at .* can be meant(?: \((.*?)\))?:"
            r" it is the (.*?) in ",
            block,
        )
        for noun, words, where in offered:
            name = next(p for p in _properties(ask.spec) if noun_of(p) == noun)
            forms = wording.texts(name, ask.call.arguments[name]) if wording else []
            said = [form for form in forms if text.count(form) == 1]
            if said and rng.random() < POINTS:
                options = words.split(" / ") if words else [f"the {where} that you found"]
                text = text.replace(max(said, key=len), rng.choice(options))
        return text

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


def _state(prompt: str, after: str = "State of the world now:\n") -> Mapping[str, Any]:
    """The state that a prompt shows; of one that was cut, what can be read."""
    text = prompt.split(after)[1].split("\n")[0]
    try:
        return json.loads(text)
    except ValueError:
        return _cut_state(text)


def _cut_state(text: str) -> Mapping[str, Any]:
    """As many whole fields as a cut JSON object has."""
    end = len(text)
    while (end := text.rfind(",", 0, end)) > 0:
        stack: list[str] = []
        quoted = escaped = False
        for char in text[:end]:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = quoted
            elif char == '"':
                quoted = not quoted
            elif not quoted and char in "{[":
                stack.append("}" if char == "{" else "]")
            elif not quoted and char in "}]":
                stack.pop()
        try:
            return json.loads(text[:end] + "".join(reversed(stack)))
        except ValueError:
            continue
    return {}


def _blocks(prompt: str) -> list[str]:
    part = prompt.split("in this order:\n")[1].split("\nSay every value")[0]
    return [block for block in re.split(r"\n(?=\d+\. )", part.strip()) if block.strip()]


@functools.cache
def _bundled() -> ScriptedAuthor:
    from rods.envs.bfcl.tasks import load_tasks
    from rods.envs.bfcl.world import BfclEnvironment
    from rods.split import split

    return ScriptedAuthor(split(load_tasks()).train, BfclEnvironment())


def author(body: Mapping[str, Any]) -> str:
    """For `python tests/support/loopback.py --author scripted_author:author`, run in `tests`."""
    return _bundled()(body)
