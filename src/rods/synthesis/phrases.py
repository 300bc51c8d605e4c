"""How people ask for calls: messages from templates, without a model.

Owns the wording of a turn from its calls. Templates come from `envs/<name>/phrases/*.toml` where an
environment has them, else from the tools' own descriptions. Never chooses calls, never executes.

    phrases = load_phrases("bfcl")
    phrases.turn([Ask(call, spec)], random.Random(3), first=True)   # "Could you ... ?"
"""

from __future__ import annotations

import functools
import random
import re
import tomllib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple, cast

from rods.errors import SynthesisError
from rods.types import ToolCall, ToolSpec, Value

OPENER = 0.35
"""How often the first turn begins by setting the scene."""
LINK = 0.2
"""How often a later turn begins with a short remark."""

_FIRST = (
    "Please {}.",
    "{}.",
    "Could you {}?",
    "Can you {}?",
    "I'd like you to {}.",
    "I need you to {}.",
    "{}, please.",
    "Would you {}?",
)
_NEXT = (
    "Then {}.",
    "After that, {}.",
    "Also, {}.",
    "Next, {}.",
    "{}, too.",
    "Once that is done, {}.",
    "And {}.",
    "Please {} as well.",
)
_LAST = ("Finally, {}.", "At the end, {}.", "Lastly, {}.")
_ANSWERS = (
    "The {0} is {1}.",
    "Take {1} as the {0}.",
    "I mean the {0} {1}.",
    "Use {1} for the {0}.",
)
_REMARKS = ("Good.", "Thanks.", "Okay, next.", "Now something else.", "All right.", "Very good.")
_ID = re.compile(r" (?:ids?|codes?|numbers?|keys?|ref)$")
_FOUND = ("the {} you just found", "the {} that came back", "the {} from that result")
_QUOTED = re.compile(r"'\{(\w+)\}'|\{(\w+)\}")
_SLOT = re.compile(r"\{(\w+)\}")


class Ask(NamedTuple):
    """One call that a message asks for."""

    call: ToolCall
    spec: ToolSpec
    shown: frozenset[str] = frozenset()
    """Arguments whose values results show and no text says: they may be referred to."""
    blurred: str = ""
    """An argument that the message leaves open on purpose."""


@dataclass(frozen=True)
class Wording:
    """How one tool is asked for."""

    say: tuple[str, ...]
    """Clauses in the imperative with a `{slot}` for each required argument."""
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Parts to append for optional arguments."""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """What enumerated values are called."""
    refer: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What stands for a value that a result showed."""
    nouns: Mapping[str, str] = field(default_factory=dict[str, str])
    """What an argument is called, where that is not its name: `loan` for `loan_id`."""


class Phrases:
    """Templates of one environment."""

    def __init__(
        self, wordings: Mapping[str, Wording], openers: Mapping[str, Sequence[str]]
    ) -> None:
        """Args: wordings by tool; sentences that set the scene, by class."""
        self._wordings = dict(wordings)
        self._openers = openers

    def knows(self, tool: str) -> bool:
        """Whether somebody wrote templates for this tool."""
        return tool in self._wordings

    def can_say(self, call: ToolCall) -> bool:
        """Whether every argument of the call has a place in some template."""
        wording = self._wordings.get(call.name)
        if wording is None:
            return True
        slots = set(_SLOT.findall(wording.say[0])) | wording.optional.keys()
        return call.arguments.keys() <= slots

    def can_blur(self, tool: str, argument: str) -> bool:
        """Whether a clause still reads well when it leaves an argument open."""
        wording = self._wordings.get(tool)
        return wording is None or argument not in wording.words

    def can_refer(self, tool: str, argument: str) -> bool:
        """Whether an argument can be meant without being said."""
        wording = self._wordings.get(tool)
        if wording is None:
            return thing(argument) != noun(argument)
        return argument in wording.refer

    def opener(self, owner: str, rng: random.Random) -> str:
        """A sentence that sets the scene, or nothing."""
        known = self._openers.get(owner, ())
        return rng.choice(known) if known and rng.random() < OPENER else ""

    def turn(self, asks: Sequence[Ask], rng: random.Random, *, first: bool, owner: str = "") -> str:
        """One message that asks for all of these calls, in their order.

        Args:
            asks: at least one.
            rng: the only source of chance.
            first: whether the conversation begins with it.
            owner: class whose scene may be set first.
        """
        parts: list[str] = []
        if first:
            parts.append(self.opener(owner, rng))
        elif rng.random() < LINK:
            parts.append(rng.choice(_REMARKS))
        for index, ask in enumerate(asks):
            frames = _FIRST if index == 0 else _NEXT
            if len(asks) > 1 and index == len(asks) - 1 and rng.random() < 0.5:
                frames = _LAST
            parts.append(_framed(rng.choice(frames), self.clause(ask, rng)))
        return " ".join(part for part in parts if part)

    def clause(self, ask: Ask, rng: random.Random) -> str:
        """One call as a clause in the imperative, all its values said or referred to."""
        wording = self._wordings.get(ask.call.name)
        if wording is None:
            wording = from_description(ask.spec, ask.shown | {ask.blurred})
        text = rng.choice(wording.say)
        for name, forms in wording.optional.items():
            if name in ask.call.arguments:
                text += " " + rng.choice(forms)

        def fill(match: re.Match[str]) -> str:
            name = match.group(1) or match.group(2)
            value = self._value(ask, wording, name, rng)
            meant = name in ask.shown or name == ask.blurred
            return f"'{value}'" if match.group(1) and not meant else value

        return _QUOTED.sub(fill, text)

    def _value(self, ask: Ask, wording: Wording, name: str, rng: random.Random) -> str:
        if name == ask.blurred:
            return f"a {wording.nouns.get(name, noun(name))} that I will name"
        value = ask.call.arguments.get(name)
        if name in ask.shown:
            forms = wording.refer.get(name) or _FOUND
            return rng.choice(forms).format(wording.nouns.get(name, noun(name)))
        return said(value, wording.words.get(name, {}))

    def wording(self, tool: str) -> Wording | None:
        """Templates that somebody wrote for this tool."""
        return self._wordings.get(tool)

    @property
    def scenes(self) -> tuple[str, ...]:
        """Sentences that ask for nothing: openers and remarks."""
        return (*(text for texts in self._openers.values() for text in texts), *_REMARKS)

    @property
    def texts(self) -> tuple[str, ...]:
        """Every clause and every scene."""
        return (*(say for w in self._wordings.values() for say in w.say), *self.scenes)

    def answer(self, name: str, value: Value, rng: random.Random) -> str:
        """What the user says when asked for the value that was left open."""
        return rng.choice(_ANSWERS).format(noun(name), said(value, {}))


def ways(wording: Wording, name: str, value: Value) -> list[str]:
    """Every text that may stand for an argument: its value, a reference, a value left open."""
    thing = wording.nouns.get(name, noun(name))
    meant = [form.format(thing) for form in (*wording.refer.get(name, ()), *_FOUND)]
    return [said(value, wording.words.get(name, {})), *meant, f"a {thing} that I will name"]


def frame_words() -> frozenset[str]:
    """The words that stand around the clauses of a message."""
    return frozenset(re.findall(r"[a-z']+", " ".join((*_FIRST, *_NEXT, *_LAST)).lower()))


def said(value: Value, words: Mapping[str, str]) -> str:
    """A value as people say it."""
    if isinstance(value, list):
        items = [said(item, words) for item in value] or ["nothing"]
        return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
    if isinstance(value, dict):
        return said([f"{noun(key)} {said(item, words)}" for key, item in value.items()], words)
    return words.get(str(value), str(value))


def noun(parameter: str) -> str:
    """A parameter's name as words: `card_id` and `cardId` become `card id`."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", parameter).replace("_", " ")
    return parted.strip().lower()


def thing(parameter: str) -> str:
    """What a parameter stands for: `book` for `book_id`, else its name as words."""
    return _ID.sub("", noun(parameter))


def _framed(frame: str, clause: str) -> str:
    text = clause[:1].upper() + clause[1:] if frame.startswith("{}") else clause
    framed = frame.format("\0").replace("\0", text)
    return re.sub(r"\.\.$", ".", framed)


def from_description(spec: ToolSpec, meant: Set[str] = frozenset()) -> Wording:
    """Templates made of a tool's own description, for tools that nobody wrote any for.

    A value takes its place where the description names its thing: `Lend a book to a member` becomes
    `lend book {book_id} to member {member_id}`. What is not named there follows at the end.

    Args:
        spec: the tool.
        meant: arguments whose values are not said: what stands for them is a phrase of its own.
    """
    text = re.sub(r".*?Tool description:\s*", "", spec.description, flags=re.S).strip()
    sentence = re.split(r"(?<=[.!?])\s|\n|[:;] ", text or noun(spec.name))[0].rstrip(".!?")
    words = sentence.split() or [noun(spec.name)]
    words[0] = _imperative(words[0].lower())
    base = _SLOT.sub("", " ".join(words))
    properties = cast("Mapping[str, Mapping[str, Any]]", spec.parameters.get("properties", {}))
    rest: list[str] = []
    required = cast("Sequence[str]", spec.parameters.get("required", []))
    for name in required:
        placed = _placed(base, name, name in meant, properties.get(name, {}))
        if placed == base:
            rest.append(f"{{{name}}}" if name in meant else f"{noun(name)} {{{name}}}")
        base = placed
    joined = " and ".join(filter(None, (", ".join(rest[:-1]), *rest[-1:])))
    say = tuple(base + tail.format(joined) for tail in ((" with {}", ", {}") if rest else ("",)))
    optional = {n: _appended(n, s) for n, s in properties.items() if n not in required}
    return Wording(say, optional, nouns={name: thing(name) for name in properties})


def _appended(name: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """How an optional argument is said."""
    what = noun(name)
    if schema.get("type") in ("integer", "number") and what.endswith("s"):
        return (f"for {{{name}}} {what}", f"({{{name}}} {what})")
    return (f"with {what} {{{name}}}",)


def _placed(base: str, name: str, meant: bool, schema: Mapping[str, Any]) -> str:
    """The sentence with a slot where it first names the parameter's thing."""
    what = thing(name)
    counted = schema.get("type") in ("integer", "number")
    lead = r"(?:(?:a number of|an amount of|some|so many|a|an|another|one|the|its|their) )"
    found = re.search(rf"(?<![\w{{]){lead}?{re.escape(what)}(?![\w}}])", base, re.IGNORECASE)
    if found is None or found.start() == 0:
        return base
    slot = f"{{{name}}}"
    if not meant and counted and what.endswith("s"):
        slot = f"{slot} {what}"
    elif not meant and not counted and (what != noun(name) or "enum" in schema):
        slot = f"the {slot} {what}" if "enum" in schema else f"{what} {slot}"
    elif not meant:
        slot = f"{_article(found.group(), what)} of {slot}" if counted else f"the {what} {slot}"
    return base[: found.start()] + slot + base[found.end() :]


def _article(found: str, what: str) -> str:
    """`an amount` as it was written; `the amount` where there was no article."""
    return found if found.lower() != what else f"a {what}"


def _imperative(verb: str) -> str:
    """`returns` and `fetches` as one would order them."""
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if re.search(r"(ch|sh|ss|x|zz)es$", verb):
        return verb[:-2]
    if verb.endswith("s") and not verb.endswith("ss"):
        return verb[:-1]
    return verb


@functools.cache
def load_phrases(environment: str) -> Phrases:
    """Templates of an environment by its short name; none are needed.

    Raises:
        SynthesisError: a file cannot be read, or a section of it has no clauses.
    """
    folder = files("rods").joinpath("envs", environment, "phrases")
    wordings: dict[str, Wording] = {}
    openers: dict[str, Sequence[str]] = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir(), key=lambda p: p.name):
            if path.name.endswith(".toml"):
                owner = path.name.removesuffix(".toml")
                openers[owner] = _read(path.read_text(encoding="utf-8"), path.name, wordings)
    return Phrases(wordings, openers)


def _read(text: str, where: str, into: dict[str, Wording]) -> Sequence[str]:
    try:
        data: dict[str, Any] = tomllib.loads(text)
        openers = tuple(data.pop("openers", ()))
        for tool, row in data.items():
            into[tool] = Wording(
                say=tuple(row["say"]),
                optional={k: tuple(v) for k, v in row.get("with", {}).items()},
                words=row.get("words", {}),
                refer={k: tuple(v) for k, v in row.get("refer", {}).items()},
            )
    except (KeyError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise SynthesisError(f"{where}: broken: {error}. Each tool needs `say`.") from error
    return openers
