"""Methods as tools: JSON schemas from type hints and docstrings, and the check of arguments.

Owns which methods of a class are tools and what a hint means. Never calls a method.

    tools = tools_of(Library)
    tools["lend"].spec.parameters                           # {"type": "object", "properties": ...}
    tools["lend"].fault({"member_id": 3})                   # "member_id must be a string, got 3"
"""

from __future__ import annotations

import enum
import inspect
import json
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from docstring_parser import ParseError, parse

from rods.envs.hints import has_type
from rods.errors import ConfigError
from rods.types import Json, ToolCall, ToolSpec, Value, allows_null, json_choices, json_type

_PLAIN: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_EXPECTED = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_UNIONS = (Union, types.UnionType)
KNOWN = "str, int, float, bool, list[...], dict, Optional[...], Literal[...] or an Enum"
MAKE = "Take dates as str and objects as dict, and make them within the method."


@dataclass(frozen=True)
class Tool:
    """One public method."""

    spec: ToolSpec
    owner: str
    """Name of its class."""
    hints: Mapping[str, object]
    defaults: Mapping[str, object]

    def fault(self, arguments: Mapping[str, Value]) -> str:
        """What is wrong with these arguments, empty if nothing is."""
        properties = self.spec.properties
        for name in arguments:
            if name not in properties:
                known = ", ".join(properties) or "none"
                return f"there is no parameter '{name[:80]}'; it takes: {known}"
        for name in self.spec.required:
            if name not in arguments:
                return f"the required argument {name} is missing"
        for name, value in arguments.items():
            problem = _fault(value, properties[name], name)
            if problem:
                return problem
        return ""

    def convert(self, arguments: Mapping[str, Value]) -> dict[str, Any]:
        """Checked arguments as the method wants them: enumeration members, floats."""
        return {name: _converted(value, self.hints[name]) for name, value in arguments.items()}


def tools_of(kind: type[Any], hidden: Collection[str] = ()) -> dict[str, Tool]:
    """The public methods of a class, in the order of their definition (base classes first).

    Raises:
        ConfigError: there is none, or one has no hints, hints that no schema can say, or `*args`.
    """
    found: dict[str, Tool] = {}
    for name, function in _methods(kind).items():
        if name not in hidden:
            found[name] = _tool(kind, name, function)
    if not found:
        raise ConfigError(
            f"class {kind.__name__}: it has no public methods, so there is nothing to call. Give "
            "it methods whose names do not begin with an underscore."
        )
    return found


def loads(kind: type[Any]) -> bool:
    """Whether a class has a method `load(self, config)`, which takes an initial state."""
    loader = getattr(kind, "load", None)
    return inspect.isfunction(loader) and list(inspect.signature(loader).parameters)[1:] == [
        "config"
    ]


def _methods(kind: type[Any]) -> dict[str, Callable[..., object]]:
    found: dict[str, Callable[..., object]] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, member in vars(base).items():
            plain = inspect.isfunction(member) or isinstance(member, staticmethod)
            if not name.startswith("_"):
                found.pop(name, None)
                if plain and not (name == "load" and loads(kind)):
                    found[name] = getattr(kind, name)
    return found


def _tool(kind: type[Any], name: str, function: Callable[..., object]) -> Tool:
    where = f"class {kind.__name__}, method {name}"
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(f"{where}: it is asynchronous or a generator. Write a plain method.")
    parameters = list(inspect.signature(function).parameters.values())
    if not isinstance(inspect.getattr_static(kind, name), staticmethod):
        parameters = parameters[1:]
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where}: its type hints cannot be read: {error}.") from error
    doc = read_docstring(function)
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for parameter in parameters:
        at = f"{where}, parameter {parameter.name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"{at}: *args, **kwargs and positional-only parameters cannot be "
                              "called by name. Write each parameter out.")  # fmt: skip
        if parameter.name not in hints:
            raise ConfigError(f"{at}: it has no type hint. Write one: {KNOWN}.")
        schema = _schema(hints[parameter.name], at, nullable=parameter.default is None)
        if parameter.name in doc.parameters:
            schema["description"] = doc.parameters[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema["default"] = _default(parameter.default, at)
        properties[parameter.name] = schema
    spec = ToolSpec(
        name,
        doc.text or name.replace("_", " ").capitalize() + ".",
        {"type": "object", "properties": properties, "required": required},
    )
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return Tool(spec, kind.__name__, {p.name: hints[p.name] for p in parameters}, defaults)


def _schema(hint: Any, where: str, *, nullable: bool = False) -> dict[str, Json]:
    """The schema of a hint; `nullable`: null is allowed whatever the hint says."""
    bare, note, optional = _bare(hint)
    found = _schema_of(bare, where)
    if optional or nullable:
        found["type"] = [found["type"], "null"]
        if "enum" in found:
            found["enum"] = [*cast("list[Json]", found["enum"]), None]
    return {**found, "description": note} if note else found


def _schema_of(hint: Any, where: str) -> dict[str, Json]:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    for plain, name in _PLAIN.items():
        if hint is plain:
            return {"type": name}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _options([member.value for member in hint], where)
    if kind is Literal:
        return _options(list(inner), where)
    if kind in _LISTS or (kind is tuple and inner[1:] == (...,)):
        items = {} if inner in ((), (Any,)) else {"items": cast("Json", _schema(inner[0], where))}
        return {"type": "array", **items}
    if kind in _MAPPINGS:
        if inner and inner[0] is not str:
            raise ConfigError(f"{where}: the keys of {hint} must be str, as in JSON.")
        if not inner or inner[1] is Any:
            return {"type": "object"}
        values = cast("Json", _schema(inner[1], where))
        return {"type": "object", "additionalProperties": values}
    if kind in _UNIONS and set(inner) == {int, float}:
        return {"type": "number"}
    shown = inspect.formatannotation(hint)
    raise ConfigError(f"{where}: the hint {shown} has no tool schema. Use {KNOWN}. {MAKE}")


def _options(values: list[Any], where: str) -> dict[str, Json]:
    kinds = {_PLAIN.get(type(value), "") for value in values}
    if len(kinds) != 1 or "" in kinds:
        raise ConfigError(f"{where}: options {values} must be of one type: str, int or bool.")
    return {"type": kinds.pop(), "enum": values}


def _bare(hint: Any) -> tuple[Any, str, bool]:
    """A hint without `Annotated` and `None`; the first text in `Annotated`; whether None was in."""
    note, nullable = "", False
    while True:
        kind, inner = get_origin(hint), get_args(hint)
        if kind is Annotated:
            hint = inner[0]
            note = note or next((text for text in inner[1:] if isinstance(text, str)), "")
        elif kind in _UNIONS and type(None) in inner:
            nullable = True
            hint = Union[tuple(arg for arg in inner if arg is not type(None))]  # noqa: UP007
        elif kind is Literal and None in inner and len(inner) > 1:
            nullable = True
            hint = Literal[tuple(arg for arg in inner if arg is not None)]  # type: ignore[valid-type]
        else:
            return hint, note, nullable


def _default(value: object, where: str) -> Json:
    """A default as the schema says it."""

    def member(value: object) -> object:
        if isinstance(value, enum.Enum):
            return value.value
        raise TypeError(f"a {type(value).__name__} is no JSON")

    try:
        return json.loads(json.dumps(value, default=member, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{where}: its default {value!r:.80} cannot be said in JSON: {error}. Make None the "
            "default, and take this value within the method."
        ) from error


def _fault(value: Value, schema: Mapping[str, Any], where: str) -> str:
    if value is None and allows_null(schema):
        return ""
    if isinstance(value, ToolCall):
        return f"{where} must be a value, not a call; call {value.name} first"
    kind = json_type(schema)
    if not has_type(value, kind):
        return f"{where} must be {_EXPECTED[kind]}, got {str(value)[:80]!r}"
    options = cast("Sequence[Value]", json_choices(schema))
    if options and value not in options:
        return f"{where} must be one of {', '.join(map(str, options))}, got {str(value)[:80]!r}"
    key, parts = "additionalProperties", list[tuple[str, Value]]()
    if isinstance(value, list):
        key, parts = "items", [(f"{where}[{i}]", item) for i, item in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(f"{where}.{name}", item) for name, item in value.items()]
    inner = cast("Mapping[str, Any] | None", schema.get(key))
    for place, item in parts:
        problem = _fault(item, inner, place) if inner else _plain(item, where)
        if problem:
            return problem
    return ""


def _plain(value: Value, where: str) -> str:
    """Values without a schema may be anything but a call."""
    if isinstance(value, ToolCall):
        return f"{where} must hold values, not calls; call {value.name} first"
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return next(filter(None, (_plain(item, where) for item in inner)), "")


def _converted(value: Value, hint: Any) -> Any:
    hint = _bare(hint)[0]
    inner = get_args(hint)
    if value is None:
        return None
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if hint is float and isinstance(value, int):
        return float(value)
    if isinstance(value, list):
        items = [_converted(item, inner[0]) if inner else item for item in value]
        return tuple(items) if get_origin(hint) is tuple else items
    if isinstance(value, dict):
        typed = len(inner) == 2
        return {key: _converted(v, inner[1]) if typed else v for key, v in value.items()}
    return value


class Doc(NamedTuple):
    """The parts of a docstring."""

    text: str
    """What stands before the first section, in one paragraph a line."""
    parameters: dict[str, str]


def read_docstring(function: Callable[..., object]) -> Doc:
    """Part a function's docstring; empty where it has none."""
    text = inspect.getdoc(function) or ""
    try:
        doc = parse(text)
    except ParseError:
        return Doc(_paragraphs(text), {})
    found = {p.arg_name.lstrip("*"): " ".join((p.description or "").split()) for p in doc.params}
    return Doc(_paragraphs(doc.description or ""), found)


def _paragraphs(text: str) -> str:
    return "\n".join(" ".join(block.split()) for block in text.split("\n\n") if block.strip())
