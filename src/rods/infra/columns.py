"""Values of a Parquet file as the JSON that they were before Arrow or `datasets` wrote them.

Owns the reading of Arrow's types. A struct has every field of every row, null where a row lacks it:
such fields vanish again, and so does a null that somebody wrote there, for Arrow keeps no
difference. Maps become objects. Text of Arrow's type for JSON (`datasets` uses it where rows
differ) is read. What JSON cannot say, such as a date, is a fault.

    readers = {name: reader(schema.field(name)) for name in schema.names}
    row[name] = readers[name](row[name])
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Reader = Callable[[Any], Any]
_NAME = b"ARROW:extension:name"


class NotJsonError(ValueError):
    """A value that JSON cannot say."""


def reader(field: Any) -> Reader | None:
    """What makes JSON of a column's values that are not null; None: they are JSON as they are."""
    return _reader(field.type, (field.metadata or {}).get(_NAME, b"") == b"arrow.json")


def _reader(kind: Any, is_json: bool = False) -> Reader | None:
    import pyarrow.types as types

    if is_json or getattr(kind, "extension_name", "") == "arrow.json":
        return lambda text: json.loads(text) if isinstance(text, str) else text
    kind = getattr(kind, "storage_type", kind)
    if types.is_dictionary(kind):
        return _reader(kind.value_type)
    if types.is_struct(kind):
        fields = {field.name: reader(field) for field in kind}
        return lambda value: {k: _by(fields[k], v) for k, v in value.items() if v is not None}
    if types.is_map(kind):
        return _of_map(reader(kind.item_field))
    if types.is_nested(kind):
        inner = reader(kind.value_field)
        return inner and (lambda value: [_by(inner, item) for item in value])
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(is_a(kind) for is_a in (types.is_temporal, types.is_decimal, *binary)):
        return _refuse(str(kind))
    return None


def _of_map(inner: Reader | None) -> Reader:
    def read(value: Any) -> Any:
        found = {key: _by(inner, item) for key, item in value}
        if not all(isinstance(key, str) for key in found) or len(found) < len(value):
            raise NotJsonError("a map whose keys are not texts, or stand twice")
        return found

    return read


def _refuse(kind: str) -> Reader:
    def read(_: Any) -> Any:
        raise NotJsonError(f"a value of type {kind}")

    return read


def _by(inner: Reader | None, value: Any) -> Any:
    return value if inner is None or value is None else inner(value)
