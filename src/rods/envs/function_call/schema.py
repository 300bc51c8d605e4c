"""Tables of parameters as published data sets write them, as JSON schemas.

Owns the reading of types such as `List[int]` and `str, optional`. Never checks a value.

    schema_of({"city": {"type": "str, optional", "default": "Oslo"}})
    # {"type": "object", "properties": {"city": {"type": "string", "default": "Oslo"}},
    #  "required": []}
"""

from __future__ import annotations

import re
from typing import Any, cast

from rods.types import Json

_TYPES = {
    **dict.fromkeys(("str", "string", "text", "date", "datetime", "time"), "string"),
    **dict.fromkeys(("int", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "number", "double", "complex"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "object", "hashmap", "any object"), "object"),
}


def schema_of(parameters: object) -> dict[str, Json]:
    """A JSON schema of type `object`, from a schema or from a table of parameters by name.

    In a table a parameter is required that neither has a default nor is called optional.

    Raises:
        TypeError: it is neither.
    """
    if parameters is None or parameters == [] or parameters == "":
        parameters = {}
    if not isinstance(parameters, dict):
        raise TypeError(f"parameters are {parameters!r:.60}, expected an object")
    table = cast("dict[str, Any]", parameters)
    rows: dict[str, Any] = table["properties"] if _is_schema(table) else table
    if rows is table:
        required = [name for name, row in table.items() if _needed(row)]
    else:
        listed = cast("list[Any]", table.get("required") or [])
        required = [name for name in listed if isinstance(name, str)]
    return {
        "type": "object",
        "properties": {name: _property(name, row) for name, row in rows.items()},
        "required": list[Json](required),
    }


def _is_schema(table: dict[str, Any]) -> bool:
    """Whether it is a schema; a table may have a parameter that is called `properties`."""
    rows = table.get("properties")
    if not isinstance(rows, dict) or not isinstance(table.get("type", "object"), str):
        return False
    return all(isinstance(row, dict) for row in cast("dict[str, Any]", rows).values())


def _needed(row: object) -> bool:
    if not isinstance(row, dict):
        return True
    told = cast("dict[str, Any]", row)
    if isinstance(told.get("required"), bool):
        return told["required"]
    return "optional" not in str(told.get("type", "")).lower() and told.get("default") in (None, "")


def _property(name: str, row: object) -> dict[str, Json]:
    if isinstance(row, str):
        row = {"description": row}
    if not isinstance(row, dict):
        raise TypeError(f"parameter {name!r} is {row!r:.60}, expected an object")
    told = cast("dict[str, Json]", row)
    return {**told, "type": json_type(told.get("type"))} if "type" in told else dict(told)


def json_type(written: Json) -> Json:
    """The type of JSON that a written type stands for; what is unknown stays as it is."""
    if not isinstance(written, str):
        return written
    head = re.split(r"[\[,(<]", written.strip().lower(), maxsplit=1)[0].strip()
    return _TYPES.get(head, written)
