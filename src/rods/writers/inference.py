"""Argument domains of an environment that brings no `domains.toml`: read off its tools and worlds.

A parameter `member_id` takes keys of a mapping `members`, or values of fields that are called
`member_id`; so does `to_member_id`, and any parameter to which calls give some of them. Names of
people, days and times are recognized by their form.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from rods.abilities import initial_state
from rods.env import Environment
from rods.synthesis.structure.domains import NO_DOMAINS, Domains, NumberKind, Table, domains_of
from rods.synthesis.structure.mentions import iso
from rods.synthesis.structure.trace import all_tools, field_of, leaves
from rods.synthesis.structure.words import wholes, word_lists
from rods.task import Task
from rods.types import Json, ToolSpec, json_choices, json_type
from rods.writers.graph.fresh import listed
from rods.writers.resample.assign import BORN

_tails = "_ids _id _codes _code _number _key _ref Ids Id Code Number"
_TAILS = tuple(_tails.split())
_PERSON = re.compile(r"[A-Z][a-z]+(?:[ -][A-Z][a-z]+){1,2}")
_people = "name author owner customer patient contact holder guest person user driver teacher"
_PEOPLE = frozenset(_people.split())  # Last words of fields that may hold people's names
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"\S*\d\S*|[+(]?\d[\d ()./-]+")  # It has no space, except in a phone number
_WORD = re.compile(r"[A-Za-z][a-z]+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ID = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])\S+")
_MOMENT = re.compile(r"(?:\d{4}-\d\d-\d\d[T ](?=\d\d))?(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?")

AMOUNT = NumberKind(range=(2, 1e9), scaled=True, small=True, compared=(0, 1e9))
"""A number of own tools: a new one is near it, plural as it is, and none that a message says."""


class _Fields(NamedTuple):
    """What the initial states of a pool hold."""

    keys: dict[str, set[str]]
    """Keys of each mapping whose values are alike, by the field that holds it."""
    values: dict[str, set[str]]  # Texts of each field
    people: set[str]  # Names of what can be phoned or written to
    given: dict[str, set[str]]  # Texts that calls give to each argument


def domains_for(environment: Environment, pool: Sequence[Task]) -> Domains:
    """The domains of an environment: its file's, else what can be inferred from the pool."""
    if (known := domains_of(environment)) is not NO_DOMAINS:
        return known
    tools: dict[str, ToolSpec] = {}
    fields, nested = _Fields({}, {}, set(), {}), set[str]()
    for task in pool:
        tools.update(all_tools(environment, task))
        _read(dict(initial_state(environment, task).values), "", fields)
        for name, value in (pair for call in task.calls for pair in call.arguments.items()):
            if isinstance(value, str):
                fields.given.setdefault(name, set()).add(value)
            elif isinstance(value, dict):
                _read(cast("Json", value), "", fields)
                nested.update(field_of(leaf.path) for leaf in leaves(value))
    return infer({*_texts(tools), *nested}, fields)


def with_amounts(environment: Environment, pool: Sequence[Task]) -> Domains:
    """`domains_for`, with inferred amounts: the `table` of a class that holds `tables` is none."""
    domains = domains_for(environment, pool)
    taken, other = set[str](), {*domains.parameters}
    for task in pool if domains.inferred else ():
        start = leaves(dict(initial_state(environment, task).values))
        other |= {str(part)[:-1] for leaf in start for part in leaf.path if str(part)[-1:] == "s"}
        for spec in all_tools(environment, task).values():
            other |= {name for name, row in spec.properties.items() if json_choices(row)}
        found = [leaf for call in task.calls for leaf in leaves(call)]
        taken |= {field_of(x.path) for x in found if type(x.value) in (int, float)}
    kinds = {name: "amount" for name in taken - other if not f"_{name}".endswith(_TAILS)}
    numbers = {"amount": AMOUNT} if kinds else domains.numbers
    parameters = {**domains.parameters, **kinds}
    return domains.model_copy(update={"parameters": parameters, "numbers": numbers})


def infer(names: set[str], fields: _Fields) -> Domains:
    """Kinds of parameters (`names`) and fields, by what initial states hold and calls take."""
    keys, values = fields.keys, fields.values
    parameters: dict[str, str] = {}
    configuration: dict[str, str] = {}
    mappings: dict[str, str] = {}
    tables: dict[str, Table] = {}
    people = {name for name in values if _personal(name, fields)}
    known = {**fields.given, **values}  # a day may stand in calls alone, such as a new deadline
    timed = {name: "date" for name, texts in known.items() if all(map(iso, texts))}
    timed |= {n: "moment" for n, texts in known.items() if all(map(_MOMENT.fullmatch, texts))}
    for name in sorted(names - timed.keys()):
        given = fields.given.get(name, set())
        owner = next((whole for whole in wholes(name) if _owns(whole, name, fields)), name)
        if owner in timed:
            parameters[name] = timed[owner]
        elif holder := holder_of(owner, keys) or _taken(given, keys):
            parameters[name] = configuration[name] = "ident"
            mappings[holder] = "ident"
        elif owner in people or any(name.endswith("_" + field) for field in people):
            parameters[name] = "person"
        elif owner in values and all(map(_MAIL.fullmatch, values[owner])):
            parameters[name] = configuration[owner] = "email"
        elif owner in values and all(map(_CODE.fullmatch, values[owner])):
            parameters[name] = configuration[owner] = "ident"
        elif field := _taken(given, values):
            parameters[name] = configuration[name] = configuration[field] = "ident"
        elif (others := listed("exchanged", name)) and all(
            map(_WORD.fullmatch, held := {*values.get(name, ()), *given})
        ):
            parameters[name] = configuration[name] = name
            words = {word: word for word in sorted({*held, *others})}
            tables[name] = Table(codes={f"{name} code": words}, open=True)
    configuration.update(dict.fromkeys(people, "person") | timed)
    parameters.update(timed)
    born = [n for n, kind in timed.items() if kind == "date" and max(known[n]) < str(BORN)]
    coded = {
        text for n in configuration if configuration[n] == "ident" for text in known.get(n, ())
    }
    # A field `sku` that takes keys of `articles` would name nothing if it alone were renamed
    mappings |= {name: "ident" for name, own in keys.items() if own & coded}
    ids = {key for field in mappings for key in keys[field]}
    for name, texts in values.items():
        if texts & ids:  # renamed wherever they stand, or nothing would refer to them
            configuration[name] = "ident"
    mappings |= {name: "ident" for name, own in keys.items() if own and own <= ids}
    return Domains(
        parameters=parameters,
        configuration=configuration,
        keys=mappings,
        tables=tables,
        fresh=dict.fromkeys(born, "birthday") | {name: _full(values[name]) for name in people},
        forms={"birthday": f"{{date 1950..{BORN - 1}}}"},
        inferred=True,
    )


def _personal(name: str, fields: _Fields) -> bool:
    """Whether a field has people: names of two words; single ones that lists or a phone confirm."""
    texts = fields.values[name]
    single = all(re.fullmatch(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?", text) for text in texts)
    known = name in fields.people or texts & {*word_lists().first_names, *word_lists().surnames}
    people = (single and known) or all(map(_PERSON.fullmatch, texts))
    return name.rpartition("_")[2] in _PEOPLE and bool(people)


def _full(names: set[str]) -> str:
    """How much of a name a field of people has, as `fresh.py` calls it."""
    single = "surname" if names & {*word_lists().surnames} else "person"
    return "full_name" if any(" " in name for name in names) else single


def _owns(owner: str, name: str, fields: _Fields) -> bool:
    """Whether a name, or the whole name that it ends in, has values and calls give it such ones.

    `new_room_id` of a tool that adds a room takes a value that no room has: it owns nothing.
    """
    held = fields.keys.get(holder_of(owner, fields.keys), set()) | fields.values.get(owner, set())
    given = fields.given.get(name, set())
    timed = any(all(map(form, held | given)) for form in (iso, _MOMENT.fullmatch))
    return bool(held) and (owner == name or not given or timed or bool(given & held))


def holder_of(parameter: str, keys: Mapping[str, set[str]]) -> str:
    """The mapping whose keys, with digits, that a parameter takes: `members` for `member_id`."""
    low = functools.reduce(str.removesuffix, _TAILS, parameter).lower()
    forms = {low, low + "s", low + "es", re.sub("y$", "ies", low)}
    known = (f for f, ids in keys.items() if f.lower() in forms and ids)
    return next((f for f in known if all(map(_DIGIT.search, keys[f]))), "")


def _taken(given: set[str], held: Mapping[str, set[str]]) -> str:
    """The field of ids of which calls take some, whatever the parameter's name: `items` for `sku`.

    Ids have letters and digits: `SKU-7`, but neither a year nor a day.
    """
    found = (f for f, ids in held.items() if given & ids and all(map(_ID.fullmatch, given | ids)))
    return next(found, "")


def _texts(tools: Mapping[str, ToolSpec]) -> Iterator[str]:
    """Names of all parameters that take free text."""
    for spec in tools.values():
        for name, schema in spec.properties.items():
            items: Mapping[str, Any] = schema.get("items", {})
            bare = json_type(schema) in ("array", "list") and not items  # `list` without a type
            text = bare or "string" in (json_type(schema), json_type(items))
            if text and not (schema.get("enum") or items.get("enum")):
                yield name


def _read(node: Json, name: str, into: _Fields) -> None:
    if isinstance(node, dict):
        inner = {isinstance(value, dict) for value in node.values()}
        if name and len(inner) == 1:
            found = (key for key in node if True in inner or _DIGIT.search(key))
            into.keys.setdefault(name, set()).update(found)
        if node.keys() & {"phone", "email", "mail", "mobile"}:
            into.people.update(key for key in node if key.endswith("name"))
        for key, value in node.items():
            _read(value, key, into)
    elif isinstance(node, list):
        for value in node:
            _read(value, name, into)
    elif isinstance(node, str) and node and name:
        into.values.setdefault(name, set()).add(node)
