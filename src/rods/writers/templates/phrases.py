"""How people ask for calls: messages from templates, without a model.

Owns the frames around clauses and the files of templates that an environment brings,
`phrases/*.toml`; where it brings none, clauses come from the tools' own descriptions.
"""

from __future__ import annotations

import functools
import random
import re
import tomllib
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rods.abilities import knowledge_of
from rods.env import Environment
from rods.errors import SynthesisError
from rods.infra.files import toml_of
from rods.synthesis.planned import CallRequest, Producer
from rods.synthesis.structure.words import SLOT, literal, noun, thing
from rods.types import ToolCall, ToolSpec
from rods.writers.templates.described import from_description
from rods.writers.templates.wording import Wording

OPENER = 0.35  # How often the first turn begins by setting the scene
LINK = 0.25  # How often a later turn begins with a short remark
DROP = 0.75  # How often a value that is left open is not spoken of at all, where a clause allows it
ASIDE = 0.12  # How often words that may leave a value open introduce one, lest they mean a gap
LONG_VALUE = 24  # Letters of a value that is too long for an aside
LONG = 60  # Letters of a clause after which nothing is hung on: its end would be lost
_NEW = re.compile(r"(?:an?|one of) (?:.*\)$|\w+ called )")
Describe: TypeAlias = Callable[[ToolSpec, Collection[str]], Wording]
DEFAULT = "default"  # Section of a file for all tools of its class


@functools.cache
def frame_lists() -> Mapping[str, tuple[str, ...]]:
    """What stands around clauses."""
    return _with_tuples(toml_of("writers", "templates", "frames.toml"))


class Phrases:
    """Templates of one environment."""

    def __init__(
        self,
        wordings: Mapping[str, Wording],
        openers: Mapping[str, Sequence[str]],
        verbs: Iterable[str] = (),
        describe: Describe = from_description,
        vague: Container[str] = (),
    ) -> None:
        """Args: wordings by tool, made by `describe` without; scenes by class; verbs of its own."""
        self.wordings, self.describe, self._vague = dict(wordings), describe, vague
        self._openers = openers
        clauses = (clause for wording in self.wordings.values() for clause in wording.clauses)
        self.verbs = frozenset(verbs) | {clause.split()[0].lower() for clause in clauses}
        """Words with which people begin an order here."""

    def can_say(self, call: ToolCall) -> bool:
        """Whether every argument of the call has a place in some template, and yes or no a word."""
        wording = self.wordings.get(call.name)
        if wording is None:
            return True
        say = wording.clauses_for(call.arguments)[0]
        slots = set(SLOT.findall(say)) | wording.optional.keys()
        switches = {n: v for n, v in call.arguments.items() if isinstance(v, bool)}
        worded = all(str(v) in wording.words.get(n, (str(v),)) for n, v in switches.items())
        return worded and call.arguments.keys() <= slots

    def can_refer(self, call: ToolCall, argument: str, producer: Producer | None) -> bool:
        """Whether an argument can be meant, without being said, by what that call showed."""
        wording = self.wordings.get(call.name)
        if wording is None:
            return thing(argument) != noun(argument) or argument in ("code", "id", "number", "key")
        return bool(wording.references(argument, producer))

    def references(self, request: CallRequest, name: str) -> list[str]:
        """What may stand for an argument that a result showed; `just` only of the last call's."""
        wording = self.wordings.get(request.call.name)
        return [] if wording is None else _references(request, wording, name)

    def names_its_producer(self, call: ToolCall, argument: str, producer: ToolCall) -> bool:
        """Whether every reference repeats what that call asked for, so that it fits no other."""
        wording = self.wordings.get(call.name)
        forms = () if wording is None else wording.refer.get(argument, {}).get(producer.name, ())
        return bool(forms) and all(set(SLOT.findall(form)) - {"place"} for form in forms)

    def turn(
        self, requests: Sequence[CallRequest], rng: random.Random, *, first: bool, owner: str = ""
    ) -> str:
        """One message for all these calls, in order; `first` may set the scene of class `owner`."""
        parts: list[str] = []
        around = frame_lists()
        if first:
            scenes = self._plain(self._openers.get(owner, ()))
            parts.append(rng.choice(scenes) if scenes and rng.random() < OPENER else "")
        elif rng.random() < LINK:
            parts.append(rng.choice(around["remarks"]))
        unused = list(around["next"])
        for index, request in enumerate(requests):
            frames = list(around["first"]) if index == 0 else unused
            if len(requests) > 1 and index == len(requests) - 1 and rng.random() < 0.5:
                frames = list(around["last"])
            clause = self.clause(request, rng)
            frame = rng.choice([f for f in frames if _fits(f, clause)] or frames)
            if frame in unused:
                unused.remove(frame)
            unused = unused or list(around["next"])
            sentence = clause[:1].upper() + clause[1:] if frame.startswith("{}") else clause
            parts.append(_closed(frame.format("\0").replace("\0", sentence)))
        return " ".join(part for part in parts if part)

    def clause(self, request: CallRequest, rng: random.Random) -> str:
        """One call as a clause in the imperative, all its values said or referred to."""
        wording = self.wordings.get(request.call.name)
        if wording is None:
            wording = self.describe(request.spec, request.call.arguments)
        given = request.call.arguments
        said = [wording.clauses_for(given), *(v for n, v in wording.optional.items() if n in given)]
        text = " ".join(rng.choice(self._plain(texts) or texts) for texts in said)
        if request.blurred:
            if rng.random() < DROP or wording.described:
                text = wording.without(text, request.blurred)
            opened = wording.opened(request.blurred)
            opened = rng.choice(self._plain(opened) or opened)
            text = text.replace(f"{'' if opened else ' '}{{{request.blurred}}}", opened)
        return SLOT.sub(lambda match: self._filled(request, wording, match[1], rng), text)

    def _plain(self, texts: Sequence[str]) -> list[str]:
        return [text for text in texts if re.sub(r"\(.*\)$", "({})", text) not in self._vague]

    def _filled(self, request: CallRequest, wording: Wording, name: str, rng: random.Random) -> str:
        value = request.call.arguments.get(name)
        if name in request.shown:
            if isinstance(value, dict):
                return rng.choice(wording.the_one(name))
            if references := self._plain(_references(request, wording, name)):
                return rng.choice(references)
            if name not in request.producers:
                return f"the {wording.noun(name)} that you found"
        asides = wording.asides(name, value) if isinstance(value, str | int | float) else []
        short = name not in request.used and len(str(value)) < LONG_VALUE
        if asides and short and rng.random() < ASIDE and not isinstance(value, float):
            return rng.choice(self._plain(asides) or wording.texts(name, value))
        texts = wording.texts(name, value)
        text = rng.choice(self._plain(texts) or texts)  # what was named is not introduced again
        return texts[0] if name in request.used and _NEW.match(text) else text

    def with_words_of(self, describe: Describe, vague: Container[str] = ()) -> Phrases:
        """Templates with other wordings for tools that have none here, but no `vague` ones."""
        return Phrases(self.wordings, self._openers, self.verbs, describe, vague)

    @property
    def scenes(self) -> tuple[str, ...]:
        """Sentences that ask for nothing: openers and remarks."""
        openers = (text for texts in self._openers.values() for text in texts)
        return (*openers, *frame_lists()["remarks"])

    @property
    def texts(self) -> tuple[str, ...]:
        """Every clause and every scene."""
        return (*(say for w in self.wordings.values() for say in w.clauses), *self.scenes)

    def answers(self, call: ToolCall, name: str) -> list[str]:
        """All that the user may say when asked for the value that was left open."""
        wording = self.wordings.get(call.name)
        what = "" if wording is None else wording.noun(name)
        around = frame_lists()
        forms = around["short" if wording is None else "answers"]
        text = literal(call.arguments.get(name), {})
        quoted = f"'{text}'" if " " in text or not text[-1:].isalnum() else text
        return [_closed(form.format(what, quoted)) for form in forms]


NO_PHRASES = Phrases({}, {})  # Of an environment that brings none


@functools.cache
def frame_words() -> frozenset[str]:
    """The words that stand around the clauses of a message."""
    around = frame_lists()
    words = " ".join(t for name in ("first", "next", "last") for t in around[name]).lower()
    return frozenset(re.findall(r"[a-z']+", words))


def _references(request: CallRequest, wording: Wording, name: str) -> list[str]:
    producer = request.producers.get(name)
    latest = producer is None or producer.call is request.last
    return [f for f in wording.references(name, producer) if latest or " just " not in f]


def _fits(frame: str, clause: str) -> bool:
    """Whether a frame that goes on after the clause would be lost behind it."""
    ends = frame.partition("{}")[2].strip(".?")
    return not ends or not (len(clause) > LONG or re.search(r"[,;:'(]", clause))


def _closed(text: str) -> str:
    """A sentence that ends once, also where a quoted text ends it."""
    return re.sub(r"([.!?]')\.$", r"\1", re.sub(r"\.\.$", ".", text))


def phrases_of(environment: Environment) -> Phrases:
    """The templates that an environment brings; none are needed.

    Raises `SynthesisError` where a file cannot be read, or a section of it has no clauses.
    """
    folder = knowledge_of(environment)
    return _load(folder / "phrases") if folder is not None else NO_PHRASES


@functools.cache
def _load(folder: Path) -> Phrases:
    wordings: dict[str, Wording] = {}
    openers: dict[str, Sequence[str]] = {}
    verbs: list[str] = []
    for path in sorted(folder.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        openers[path.stem], more = _read(text, path.name, wordings)
        verbs += more
    return Phrases(wordings, openers, verbs)


def _read(text: str, where: str, into: dict[str, Wording]) -> tuple[Sequence[str], Sequence[str]]:
    """Read one file's wordings; return openers and verbs. `[default]` holds for all its tools."""
    try:
        data = _with_tuples(tomllib.loads(text))
        openers, verbs = (data.pop(name, ()) for name in ("openers", "verbs"))
        common = data.pop(DEFAULT, {})
        for tool, row in data.items():
            fields = {name: row.get(name, {}) for name in ("instead", "words")}
            for name in ("named", "refer", "open", "nouns"):
                fields[name] = {**common.get(name, {}), **row.get(name, {})}
            drop = frozenset((*common.get("drop", ()), *row.get("drop", ())))
            into[tool] = Wording(row["say"], row.get("with", {}), drop=drop, **fields)
    except (KeyError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise SynthesisError(f"{where}: broken: {error}. Each tool needs `say`.") from error
    return openers, verbs


def _with_tuples(value: object) -> Any:
    """Plain data with tuples for its lists."""
    if isinstance(value, dict):
        return {k: _with_tuples(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
