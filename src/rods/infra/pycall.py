"""Python call syntax as data: `[cd(folder='x'), mean(numbers=[1, 2])]` becomes values.

Owns the one routine that reads Python-looking calls out of text that a model or a benchmark wrote.
Never evaluates anything: the text goes through `ast.parse` and only literals, lists, dictionaries
with string keys and nested plain calls are accepted. It knows no tool, no signature and no world.
"""

from __future__ import annotations

import ast
import warnings
from typing import NamedTuple, TypeAlias

MAX_CHARACTERS = 100_000
"""Longest text of calls that is read, in every dialect: room for a file of 2,000 lines."""
MAX_DEPTH = 24  # deepest nesting of values and of calls, in every dialect

MAX_BITS = 4_096  # longest integer; beyond some 4,300 decimal digits Python refuses to print it

PyValue: TypeAlias = "bool | int | float | str | list[PyValue] | dict[str, PyValue] | PyCall | None"
"""A literal that JSON can say, or a nested call."""


class PyCall(NamedTuple):
    """One call as written: which arguments were given by place and which by name."""

    name: str
    positional: tuple[PyValue, ...]
    keyword: dict[str, PyValue]


class CallSyntaxError(ValueError):
    """The text is not a plain call; the message is fit to be shown to the model that wrote it."""


def parse_python_calls(text: str, *, dotted: bool = False) -> list[PyCall]:
    """Read one call, several separated by commas or line ends, or a bracketed list of calls.

    Args:
        text: What was written, at most `MAX_CHARACTERS` long.
        dotted: Accept dotted function names (`math.factorial(n=5)`), as one name with dots in it.

    Raises:
        CallSyntaxError: anything else than plain calls of literals and nested calls.
    """
    calls: list[PyCall] = []
    for node in _statements(text):
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        calls.extend(_call(item, dotted, 0) for item in items)
    return calls


def _statements(text: str) -> list[ast.expr]:
    if len(text) > MAX_CHARACTERS:
        raise CallSyntaxError(f"the text has {len(text)} characters, more than {MAX_CHARACTERS}")
    _check_depth(text)
    try:
        with warnings.catch_warnings():  # '\d' or 5in in a model's text is not our warning
            warnings.simplefilter("ignore")
            body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        raise CallSyntaxError(f"not a valid call: {reason}") from error
    nodes: list[ast.expr] = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            raise CallSyntaxError(f"only calls can be written, got {_kind(statement)}")
        nodes.append(statement.value)
    return nodes


def _check_depth(text: str) -> None:
    # Counts brackets inside strings too: a cheap bound that keeps the parser's own recursion
    # shallow. Exact nesting is bounded in `_value`.
    depth = 0
    for char in text:
        depth = max(0, depth + (char in "([{") - (char in ")]}"))
        if depth > 8 * MAX_DEPTH:
            raise CallSyntaxError(f"brackets are nested more than {MAX_DEPTH} deep")


def _call(node: ast.expr, dotted: bool, depth: int) -> PyCall:
    if not isinstance(node, ast.Call):
        raise CallSyntaxError(f"expected a call such as name(argument=value), got {_kind(node)}")
    name = _name(node.func, dotted)
    if depth > MAX_DEPTH:
        raise CallSyntaxError(f"calls are nested more than {MAX_DEPTH} deep")
    positional: list[PyValue] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise CallSyntaxError(f"{name}: arguments with a star cannot be used")
        positional.append(_value(argument, dotted, depth + 1))
    keyword: dict[str, PyValue] = {}
    for item in node.keywords:
        if item.arg is None:
            raise CallSyntaxError(f"{name}: arguments with a star cannot be used")
        if item.arg in keyword:
            raise CallSyntaxError(f"{name}: argument '{item.arg}' was given twice")
        keyword[item.arg] = _value(item.value, dotted, depth + 1)
    return PyCall(name, tuple(positional), keyword)


def _name(node: ast.expr, dotted: bool) -> str:
    parts: list[str] = []
    while dotted and isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise CallSyntaxError("a call must start with the plain name of a function")
    return ".".join([node.id, *reversed(parts)])


def _value(node: ast.expr, dotted: bool, depth: int) -> PyValue:
    if depth > MAX_DEPTH:
        raise CallSyntaxError(f"values are nested more than {MAX_DEPTH} deep")
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise CallSyntaxError("the number is too long")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise CallSyntaxError(f"an argument cannot be of type {type(value).__name__}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _value(node.operand, dotted, depth + 1)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.List):
        return [_value(item, dotted, depth + 1) for item in node.elts]
    if isinstance(node, ast.Dict):
        found: dict[str, PyValue] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise CallSyntaxError("the keys of a dictionary must be text")
            found[key.value] = _value(item, dotted, depth + 1)
        return found
    if isinstance(node, ast.Call):
        return _call(node, dotted, depth)
    raise CallSyntaxError(
        f"an argument must be a literal (text, number, True, False, None, list, dictionary), "
        f"got {_kind(node)}"
    )


_KINDS = {
    **dict.fromkeys(("BinOp", "BoolOp", "UnaryOp"), "an expression"),
    **dict.fromkeys(("ListComp", "SetComp", "DictComp", "GeneratorExp"), "a comprehension"),
    "Compare": "a comparison",
    "IfExp": "a condition",
    "JoinedStr": "a formatted string",
    "Name": "a bare name",
    "Constant": "a bare value",
    "Assign": "an assignment",
    "Attribute": "an attribute",
}


def _kind(node: ast.AST) -> str:
    name = type(node).__name__
    return _KINDS.get(name, f"a {name.lower()}")
