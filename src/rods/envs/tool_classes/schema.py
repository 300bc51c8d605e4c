"""Methods as tools: JSON schemas from type hints and docstrings, and arguments read by them.

Owns which methods of a class are tools and what a hint means. Never calls a method.

    tools = tools_of(Library)
    tools["lend"].spec.parameters                           # {"type": "object", "properties": ...}
    tools["lend"].bound({"member_id": 3})                   # Unfit: member_id must be a string, ...
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple, cast

import typing_extensions
from docstring_parser import ParseError, parse
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from rods.dialects.base import nested
from rods.envs.hints import has_type
from rods.envs.tool_classes.state import StateError, loads, plain
from rods.errors import ConfigError
from rods.infra.dotted import nearest
from rods.types import ToolCall, ToolSpec, Value, allows_null, json_choices, json_type

_EXPECTED = {
    "string": "a string", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "array": "a list", "object": "an object",
}  # fmt: skip
_FORMS = {  # Expected form of a text, by the first words of pydantic's name for the fault
    "datetime": "must be a day with a time, such as 2026-05-08T19:30:00",
    "date": "must be a day, such as 2026-05-08",
    "time_delta": "must be a duration, such as PT1H30M",
    "time": "must be a time, such as 19:30:00",
    "uuid": "must be a UUID",
    "json_invalid": "must be whole characters, without an unpaired surrogate",
}
_LISTS = (abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_UNION: Any = typing.Union
_LITERAL: Any = typing.Literal
_TUPLE: Any = tuple
_UNREADABLE = (PydanticUserError, PydanticSerializationError, TypeError, NameError, RecursionError)
_note = cache(logging.getLogger(__name__).warning)  # a class is read more than once
KNOWN = "str, int, float, bool, list[...], dict, X | None, Literal[...], an Enum or a dataclass"


class Unfit(ValueError):
    """Arguments that a tool does not take; states in a sentence what it expects."""


@dataclass(frozen=True)
class Tool:
    """One public method."""

    spec: ToolSpec
    owner: str
    """Name of its class."""
    signature: inspect.Signature
    readers: Mapping[str, TypeAdapter[Any]]
    """Converter of a parameter's value from JSON, by its name."""
    awaited: bool
    """True: the method is `async def`."""

    def bound(self, arguments: Mapping[str, Value]) -> inspect.BoundArguments:
        """Arguments as the method takes them, with copies of its defaults; `Unfit` for others."""
        if call := next(islice(nested(ToolCall("", arguments)), 1, 2), None):
            raise Unfit(f"an argument must be a value, not a call; call {call.name} first")
        if fault := _fault(dict(arguments), self.spec.parameters, ""):
            raise Unfit(fault)
        found = self.signature.bind_partial()
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                more = {n: v for n, v in arguments.items() if n not in self.spec.properties}
                found.arguments[name] = {n: self._read(name, n, v) for n, v in more.items()}
            elif name in arguments:
                found.arguments[name] = self._read(name, name, arguments[name])
            elif parameter.default is not parameter.empty:
                found.arguments[name] = copy.deepcopy(parameter.default)
        return found

    def _read(self, parameter: str, name: str, value: Value) -> Any:
        try:
            return self.readers[parameter].validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            raise Unfit(_unfit(error, name, value)) from error


def tools_of(kind: type[object], hidden: Collection[str] = ()) -> dict[str, Tool]:
    """The public methods of a class, in the order of their definition (base classes first).

    Raises `ConfigError` where there is none, or with all that cannot be called with JSON.
    """
    found: dict[str, Tool] = {}
    faults: list[str] = []
    for name, function in _methods(kind).items():
        if name not in hidden:
            found[name] = _tool(kind, name, function, faults)
    if faults:
        raise ConfigError("\n".join(faults))
    if not found:
        raise ConfigError(
            f"class {kind.__name__}: it has no public methods, so there is nothing to call. Give "
            "it methods whose names do not begin with an underscore."
        )
    return found


def _methods(kind: type[object]) -> dict[str, Callable[..., object]]:
    found: dict[str, Callable[..., object]] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, member in vars(base).items() if base is not BaseModel else ():
            plain = inspect.isfunction(member) or isinstance(member, staticmethod)
            wrapper = callable(member) and hasattr(member, "__wrapped__")  # such as lru_cache
            if not name.startswith("_"):
                found.pop(name, None)
                if (plain or wrapper) and not (name == "load" and loads(kind)):
                    found[name] = getattr(kind, name)
    return found


def _tool(
    kind: type[object], name: str, function: Callable[..., object], faults: list[str]
) -> Tool:
    """One method as a tool; what prevents that is added to `faults`."""
    where = f"class {kind.__name__}, method {name}"
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        faults.append(f"{where}: it is a generator. Return a list.")
    signature = inspect.signature(function)
    if not isinstance(inspect.getattr_static(kind, name), staticmethod):
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
    hints: dict[str, Any] = {}
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        faults.append(f"{where}: its type hints cannot be read: {error}.")
        signature = signature.replace(parameters=())
    doc = read_docstring(inspect.getdoc(function) or "")
    readers: dict[str, TypeAdapter[Any]] = {}
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    for parameter in signature.parameters.values():
        try:
            readers[parameter.name] = _parameter(parameter, hints, doc, schema)
        except ConfigError as error:
            faults.append(f"{where}, parameter {parameter.name}: {error}.")
    takes_more = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for odd in () if takes_more else doc.parameters.keys() - signature.parameters.keys():
        hint = nearest(odd, [*signature.parameters])
        _note(f"{where}: docstring describes {odd!r}, which is no parameter.{hint}")
    text = doc.text or name.replace("_", " ").capitalize() + "."
    awaited = inspect.iscoroutinefunction(inner)
    spec = ToolSpec(name, text, schema)
    return Tool(spec, kind.__name__, signature, readers, awaited)


def _parameter(
    parameter: inspect.Parameter, hints: Mapping[str, object], doc: Doc, tool: dict[str, Any]
) -> TypeAdapter[Any]:
    """Put a parameter into the schema of its tool; what reads its values.

    Raises `ConfigError` for no hint, one without a schema, or a default that is no JSON.
    """
    name, default = parameter.name, parameter.default
    if name not in hints:
        raise ConfigError(f"it has no type hint. Write one: {KNOWN}")
    why = ""
    try:
        hint = _readable(hints[name])
        hint = _TUPLE[hint, ...] if parameter.kind is parameter.VAR_POSITIONAL else hint
        reader: TypeAdapter[Any] = TypeAdapter(_UNION[hint, None] if default is None else hint)
        made = reader.json_schema(schema_generator=_Schemas)
    except _UNREADABLE as error:
        reader, made, why = TypeAdapter(Any), {}, f" ({str(error).partition('. ')[0]})"
    schema = _tidied(made, made.get("$defs", {}))
    if not schema.keys() & {"type", "enum", "anyOf"} or schema.get("type") == "null":
        shown = inspect.formatannotation(hints[name])
        raise ConfigError(f"the hint {shown} has no tool schema{why}. Use {KNOWN}")
    if name in doc.parameters:
        schema["description"] = doc.parameters[name]
    if parameter.kind is parameter.VAR_KEYWORD:
        tool["additionalProperties"] = schema
        return reader
    tool["properties"][name] = schema
    if default is not parameter.empty:
        try:
            schema["default"] = plain(default, name)
        except StateError as error:
            raise ConfigError(
                f"its default {default!r:.80} cannot be said in JSON. Make None the default, and "
                "take this value within the method"
            ) from error
    elif parameter.kind is not parameter.VAR_POSITIONAL:
        tool["required"].append(name)
        schema.pop("default", None)  # of a `Field`, which the method does not heed
    return reader


class _Schemas(GenerateJsonSchema):
    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """A number: one form of a value is enough."""
        return super().decimal_schema(schema)["anyOf"][0]


def _readable(hint: Any) -> Any:
    """A hint as pydantic reads it: texts are descriptions, abstract lists are lists."""
    if typing.is_typeddict(hint):  # pydantic reads that of `typing` only from Python 3.12 on
        needed, fields = hint.__required_keys__, typing.get_type_hints(hint, include_extras=True)
        made: dict[str, Any] = {name: _readable(field) for name, field in fields.items()}
        for name, field in made.items():
            if (
                typing.get_origin(field) not in (typing.Required, typing.NotRequired)
                and name not in needed
            ):
                made[name] = typing.NotRequired[field]
        return cast("Any", typing_extensions.TypedDict)(hint.__name__, made)
    kind: Any = typing.get_origin(hint) or hint
    inner: list[Any] = [*typing.get_args(hint)]
    if kind is typing.Literal and None in inner and len(inner) > 1:
        return _UNION[_LITERAL[tuple(option for option in inner if option is not None)], None]
    if kind is typing.Literal or kind is abc.Callable:
        return hint
    if kind is typing.Annotated:
        text = next((note for note in inner[1:] if isinstance(note, str)), None)
        notes = [Field(description=text)] if text else []
        for note in (note for note in inner[1:] if isinstance(note, WithJsonSchema)):
            by_hand = json_type(note.json_schema or {})
            read = json_type(TypeAdapter[Any](_readable(inner[0])).json_schema())
            if by_hand != (read or by_hand):
                raise ConfigError(f"its schema by hand says {by_hand}, the hint is {read}")
        return typing.Annotated[(_readable(inner[0]), *notes, *inner[1:])]
    parts: tuple[Any, ...] = tuple(map(_readable, inner))
    if kind in (typing.Union, types.UnionType):
        return _UNION[parts]
    kind = list if kind in _LISTS else kind  # else an iterable is read lazily
    return kind[parts[0] if len(parts) == 1 else parts] if parts else kind


def _tidied(node: Mapping[str, Any], models: Mapping[str, Any], above: Any = ()) -> dict[str, Any]:
    """A schema of pydantic without references, titles and empty parts, with null as a type."""
    if reference := node.get("$ref", "").rpartition("/")[2]:
        model = models[reference]
        if reference in above:  # it holds itself
            return {"type": model["type"]} if "type" in model else {}
        node, above = {**model, **node}, (*above, reference)
    inner = partial(_tidied, models=models, above=above)
    found: dict[str, Any] = {k: node[k] for k in ("type", "enum") if k in node}
    if "const" in node:
        found["enum"] = [node["const"]]
    if node.get("items"):
        found["items"] = inner(node["items"])
    if "prefixItems" in node:
        found["prefixItems"] = [inner(item) for item in node["prefixItems"]]
    if "properties" in node:
        doc = read_docstring(node.get("description", ""))
        fields = {name: inner(field) for name, field in node["properties"].items()}
        for name in fields.keys() & doc.parameters.keys():
            fields[name].setdefault("description", doc.parameters[name])
        found |= {"properties": fields, "required": node.get("required", [])}
        node = {**node, "description": doc.text}
    more = node.get("additionalProperties")
    if isinstance(more, Mapping) or (more and "properties" in node):
        found["additionalProperties"] = more is True or inner(cast("Any", more))
    if "propertyNames" in node:
        found["propertyNames"] = inner(node["propertyNames"])
    if forms := node.get("patternProperties"):
        found["patternProperties"] = {form: inner(field) for form, field in forms.items()}
    found |= _united([inner(part) for part in node.get("anyOf") or node.get("oneOf") or ()])
    rest = {k: v for k, v in node.items() if k not in (*found, *_DROPPED) and v != ""}
    return {**found, **rest}


_DROPPED = {
    "$defs", "$ref", "title", "const", "oneOf", "anyOf", "discriminator", "items",
    "additionalProperties",
}  # fmt: skip


def _united(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a union; if there is one type beside null, of that type."""
    kinds = [part for part in parts if part.get("type") != "null"]
    if sorted(kinds, key=str) == [{"type": "integer"}, {"type": "number"}]:
        kinds = [{"type": "number"}]
    if len(kinds) != 1 or not isinstance(kinds[0].get("type"), str):
        return {"anyOf": parts} if parts else {}
    found = kinds[0]
    if {"type": "null"} in parts:
        found = {**found, "type": [found["type"], "null"]}
        found |= {"enum": [*found["enum"], None]} if "enum" in found else {}
    return found


def _fault(value: Value, schema: Mapping[str, Any], where: str) -> str:
    """Fault of a value by its schema, in a sentence; empty if there is none."""
    if value is None and allows_null(schema):
        return ""
    if "anyOf" in schema:
        return ""  # pydantic knows which one is meant
    kind = json_type(schema)
    if not has_type(value, kind):
        return f"{where} must be {_EXPECTED.get(kind, kind)}, got {str(value)[:80]!r}"
    if kind == "number" and isinstance(value, int) and abs(value) > sys.float_info.max:
        return f"{where} is too large a number, got {str(value)[:80]!r}"
    options = json_choices(schema)
    if options and value not in schema["enum"]:  # null may be the value of a member
        return f"{where} must be one of {', '.join(map(str, options))}, got {str(value)[:80]!r}"
    if isinstance(value, list):
        first, rest = schema.get("prefixItems") or (), schema.get("items") or {}
        inner = [first[i] if i < len(first) else rest for i in range(len(value))]
        faults = (_fault(v, inner[i], f"{where}[{i}]") for i, v in enumerate(value))
        return next(filter(None, faults), "")
    return _object_fault(value, schema, where) if isinstance(value, dict) else ""


def _object_fault(value: Mapping[str, Value], schema: Mapping[str, Any], where: str) -> str:
    fields, more = schema.get("properties"), schema.get("additionalProperties")
    place, noun = (f"{where}.", f"in {where} no field") if where else ("", "no parameter")
    unknown = [name for name in value if fields is not None and name not in fields and not more]
    if unknown:
        known = ", ".join(fields or ()) or "none"
        return f"there is {noun} '{unknown[0][:80]}'; it takes: {known}"
    for name in schema.get("required") or ():
        if name not in value:
            return f"the required {'field' if where else 'argument'} {place}{name} is missing"
    other = more if isinstance(more, Mapping) else {}
    faults = (_fault(v, (fields or {}).get(n, other), f"{place}{n}") for n, v in value.items())
    return next(filter(None, faults), "")


def _unfit(error: ValidationError, name: str, value: Any) -> str:
    """Pydantic's fault of a value, in a sentence; of a union, with each of its forms."""
    found: list[str] = []
    for fault in error.errors(include_url=False):
        place, inner = name, value
        for part in fault["loc"]:  # names of forms stand among those of fields
            with suppress(KeyError, IndexError, TypeError):
                inner = inner[part]
                place += _step(part)
        text = re.sub("^(Value error|Assertion failed), ", "", fault["msg"])
        text = text.replace("Input should be", "must be", 1)
        text = next((form for kind, form in _FORMS.items() if fault["type"].startswith(kind)), text)
        if fault["loc"][-1:] == ("[key]",):  # the fault is of the key, not of what it leads to
            inner = fault["input"]
            place = f"a key of {place.removesuffix(_step(inner))}"
        got = f" {text}, got {str(inner)[:80]!r}" if text.startswith("must") else f": {text}"
        if fault["type"] == "missing":
            place, got = f"the required field {place}{_step(fault['loc'][-1])}", " is missing"
        found.append(place + got)
    return "; ".join(dict.fromkeys(found[:3]))


def _step(part: str | int) -> str:
    """A part of the place of a value, as it is written behind the others."""
    return f"[{part}]" if isinstance(part, int) else f".{part}"


class Doc(NamedTuple):
    """The parts of a docstring."""

    text: str
    """Text before the first section, in one paragraph a line."""
    parameters: dict[str, str]


def read_docstring(text: str) -> Doc:
    """Part the docstring of a function or class."""
    try:
        doc = parse(text)
    except ParseError:
        return Doc(_paragraphs(text), {})
    found = {p.arg_name.lstrip("*"): " ".join((p.description or "").split()) for p in doc.params}
    return Doc(_paragraphs(doc.description or ""), found)


def _paragraphs(text: str) -> str:
    return "\n".join(" ".join(block.split()) for block in text.split("\n\n") if block.strip())
