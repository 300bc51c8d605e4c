"""Reads the benchmark's call strings: `cd('docs')` becomes `ToolCall("cd", {"folder": "docs"})`.

Owns the naming of positional arguments by a function's signature. Never evaluates text: the syntax
is read by `rods.infra.pycall`, anything but literals and nested declared calls is refused.

    call = parse_call("mean([1, 2])", specs(["MathAPI"]))
"""

from __future__ import annotations

from collections.abc import Mapping

from rods.infra.pycall import CallSyntaxError, PyCall, PyValue, parse_python_calls
from rods.types import ToolCall, ToolSpec, Value


class CallError(CallSyntaxError):
    """The text is a call, but not of a declared function or not with its parameters."""


def parse_call(text: str, specs: Mapping[str, ToolSpec]) -> ToolCall:
    """Read exactly one call.

    Args:
        text: Such as `cd(folder='x')`; positional arguments are named by the signature.
        specs: The declared functions; nested calls must be declared too.

    Raises:
        CallSyntaxError: not a plain call of literals (a `ValueError`).
        CallError: an unknown function, or positional arguments that do not fit it.
    """
    calls = parse_python_calls(text)
    if len(calls) != 1:
        raise CallSyntaxError(f"expected one call, got {len(calls)}")
    return name_arguments(calls[0], specs)


def name_arguments(call: PyCall, specs: Mapping[str, ToolSpec]) -> ToolCall:
    """Give positional arguments their names; raises `CallError` as `parse_call` does."""
    spec = specs.get(call.name)
    if spec is None:
        raise CallError(f"there is no function '{call.name}'")
    names = list(spec.properties)
    if len(call.positional) > len(names):
        raise CallError(
            f"{call.name} takes {len(names)} arguments, {len(call.positional)} were given"
        )
    arguments = {n: _value(v, specs) for n, v in zip(names, call.positional, strict=False)}
    for name, value in call.keyword.items():
        if name in arguments:
            raise CallError(f"{call.name}: argument '{name}' was given twice")
        arguments[name] = _value(value, specs)
    return ToolCall(call.name, arguments)


def _value(value: PyValue, specs: Mapping[str, ToolSpec]) -> Value:
    if isinstance(value, PyCall):
        return name_arguments(value, specs)
    if isinstance(value, list):
        return [_value(item, specs) for item in value]
    if isinstance(value, dict):
        return {key: _value(item, specs) for key, item in value.items()}
    return value
