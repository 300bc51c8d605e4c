"""Argument domains of an environment: what its values mean, which exist, which belong together.

Read from the `domains.toml` that an environment brings. What the file does not name has no kind and
is left as it is; `rods.writers.inference` guesses where there is no file.

    domains_of(environment).parameter("book_table", "party")    # "guests"
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from rods.abilities import knowledge_of
from rods.env import Environment
from rods.errors import SynthesisError

FILE = "domains.toml"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class NumberKind(_Model):
    """A kind whose values are numbers, and how a new one is drawn."""

    range: tuple[float, float]
    """Smallest and largest value."""
    spread: tuple[float, float] = (-0.6, 0.7)
    """Bounds of the logarithm of the factor between the old value and a new one."""
    scaled: bool = False
    """A new value is near the old one although the range is small."""
    digits: bool = False
    """A new value is any number with as many digits: ids, codes."""
    integer: bool = False
    """A new value is any whole number of the range."""
    ordered: bool = False
    """Numbers of this kind keep their order within a task."""
    small: bool = False
    """A number below ten may change where it is said once."""
    whole: bool = False
    """New values that nothing else decides are mostly whole."""
    nudge: float = 0.0
    """How far a value moves at most, on its side of every landmark; 0: it is not compared."""
    landmarks: tuple[float, ...] = ()
    """Numbers that the tools compare it with."""
    compared: tuple[float, float] | None = None
    """Numbers in messages between these two are landmarks too."""


def _pair(text: object) -> object:
    return text.split("-", 1) if isinstance(text, str) else text


class CodePairs(_Model):
    """Which two codes go together in one call."""

    code: str
    """Kind of both."""
    parameters: tuple[str, str]
    known: tuple[Annotated[tuple[str, str], BeforeValidator(_pair)], ...]
    """Pairs that exist, written `A-B`."""
    either_way: bool = False
    """Which one comes first does not matter; both codes are looked up before."""

    def given(self, arguments: Mapping[str, object]) -> bool:
        """Tell whether both parameters are among these."""
        return all(name in arguments for name in self.parameters)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._known or (self.either_way and pair[::-1] in self._known)

    @functools.cached_property
    def _known(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.known)


class Table(_Model):
    """Things by their names (the kind that the table is called by), with the codes of each."""

    codes: Mapping[str, Mapping[str, str]]
    """Kind of a code to name to code."""
    aliases: Mapping[str, str] = {}
    """Other ways in which people say the names."""
    pairs: tuple[CodePairs, ...] = ()
    needs: Mapping[str, str] = {}
    """Class of a task to the code that every new name must have; the first class counts."""
    open: bool = False
    """Codes that are not listed exist too; the table then has one kind of code."""

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({name for table in self.codes.values() for name in table}))

    @functools.cached_property
    def complete(self) -> tuple[str, ...]:
        """Names that have every code, sorted."""
        return tuple(n for n in self.names if all(n in table for table in self.codes.values()))

    @functools.cached_property
    def owners(self) -> Mapping[str, Mapping[str, str]]:
        """Kind of a code to code to name."""
        return {
            kind: {code: name for name, code in table.items()} for kind, table in self.codes.items()
        }


class Fill(_Model):
    """An amount that is a wanted level less the present one, a field of a class's configuration."""

    parameter: str
    owner: str
    field: str
    full: float
    """The level that is wanted where no message says one."""


class Scratch(_Model):
    """More for seed tasks from nothing: `forms`, `texts` and `fields` replace those above."""

    forms: Mapping[str, str] = {}
    texts: Mapping[str, Sequence[str]] = {}
    fields: Mapping[str, Sequence[str]] = {}
    vague: frozenset[str] = frozenset()
    """Phrases that are not used: they fit several tools, or several values of an argument."""
    stated: Mapping[str, Mapping[str, Sequence[str | bool | int]]] = {}
    """Optional arguments that a tool always gets, where no phrase implies the default: values."""
    alike: Mapping[str, frozenset[str]] = {}
    """Tools that an agent may try in the place of one that is withheld."""


class Domains(_Model):
    """Meaning of an API's values, and which of them exist."""

    parameters: Mapping[str, str] = {}
    """Kinds of parameters, by name or `function.name`."""
    configuration: Mapping[str, str] = {}
    """Kinds of leaves of initial configurations, by name or `Class.name`."""
    keys: Mapping[str, str] = {}
    """Kinds of the keys of mappings of initial configurations, by the mapping's name."""
    numbers: Mapping[str, NumberKind] = {}
    tables: Mapping[str, Table] = {}
    fills: tuple[Fill, ...] = ()
    fields: Mapping[str, Sequence[str]] = {}
    """Fields of the state that hold what exists for a parameter; one with a dot: below its keys."""
    fresh: Mapping[str, str] = {}
    """How a parameter's new values are made, where its kind does not say it (`fresh.py`)."""
    forms: Mapping[str, str] = {}
    """New values of a kind, or of a name in `fresh`, as a text with slots: a range `{1..12}` (as
    many digits as its first number is written with), a day of some years `{date 1950..1999}`, a
    choice `{red|green}`, a table, or `{word}`, `{noun}`, `{Noun}`, `{name}`, `{surname}`."""
    endings: Mapping[str, str] = {}
    """Parameters that take a new file name, and the one whose file name has the same ending."""
    texts: Mapping[str, Sequence[str]] = {}
    """Sentences with slots for parameters that take written texts."""
    about: frozenset[str] = frozenset()
    """Kinds of what a conversation may be about."""
    seeded: Mapping[str, str] = {}
    """Classes that draw at random, and the field of their configuration that holds the seed."""
    constant: frozenset[str] = frozenset()
    """Functions whose results are constants: what comes from them is never renamed."""
    keep: frozenset[str] = frozenset()
    """Words that carry meaning: they never become an entity of their own."""
    padded_names: frozenset[str] = frozenset()
    """Names that stay in tasks with a long context."""
    defaults: Mapping[str, Mapping[str, JsonValue]] = {}
    """What a class shows although its configuration does not say so."""
    number_words: bool = True
    """Number words in messages ("two nights") are read, and vary, as digits do."""
    inferred: bool = False
    """No file says what values mean: kinds are guessed, values come from where names fit."""
    scratch: Scratch = Scratch()

    def parameter(self, function: str, name: str) -> str:
        """Kind of a parameter, empty where it has none."""
        return self.parameters.get(f"{function}.{name}") or self.parameters.get(name, "")

    def leaf(self, owner: str, name: str) -> str:
        """Kind of a leaf of the initial configuration of class `owner`."""
        return self.configuration.get(f"{owner}.{name}") or self.configuration.get(name, "")

    def key(self, owner: str, name: str) -> str:
        """Kind of the keys of a mapping of the initial configuration, empty for plain fields."""
        return self.keys.get(f"{owner}.{name}") or self.keys.get(name, "")

    @functools.cached_property
    def listed(self) -> frozenset[str]:
        """Kinds of the names and codes of all tables."""
        return frozenset(self.tables) | {code for t in self.tables.values() for code in t.codes}

    @property
    def pairs(self) -> Iterator[CodePairs]:
        """Which codes go together in one call, of all tables."""
        return (pairs for table in self.tables.values() for pairs in table.pairs)

    def names_of(self, code: str) -> list[str]:
        """Return what a code stands for, in all ways in which people say it, the longest first."""
        found: list[str] = []
        for table in self.tables.values():
            names = {owned[code] for owned in table.owners.values() if code in owned}
            found += [*names, *(alias for alias, name in table.aliases.items() if name in names)]
        return sorted(found, key=lambda name: (-len(name), name))


def domains_of(environment: Environment) -> Domains:
    """The domains that an environment brings; empty ones where it brings none.

    Raises `SynthesisError` where the file cannot be read, or a section of it is broken or unknown.
    """
    folder = knowledge_of(environment)
    known = folder is not None and (folder / FILE).is_file()
    return _load(folder / FILE) if folder and known else NO_DOMAINS


@functools.cache
def _load(path: Path) -> Domains:
    try:
        return Domains.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        raise SynthesisError(f"{path}: {error}") from error


NO_DOMAINS = Domains()
"""Domains of an environment that brings none."""
