"""The pythonic dialect of BFCL: the whole text is a list of calls, or it is an answer.

Owns reading and writing `[cd(folder='x'), mean(numbers=[1, 2])]`. Arguments given by place are
named by the order of the tool's properties. Text is parsed as syntax, never evaluated
(`rods.infra.pycall`).

    >>> Pythonic().write([ToolCall("cd", {"folder": "a"})])
    "[cd(folder='a')]"
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence

from rods.dialects.base import Parsed, PlainDialect, check_calls, mapped, signature
from rods.dialects.bounds import calls_fault
from rods.dialects.marks import ITEM, unfence
from rods.errors import TaskError
from rods.infra.pycall import CallSyntaxError, PyCall, parse_python_calls
from rods.types import ParseVerdict, ToolCall, ToolSpec, Value


class Pythonic(PlainDialect):
    """`[f(a=1), g(b='x')]`, perhaps in a code fence, is calls; other text is an answer.

    A list that only an item's mark or a tag of another dialect precedes is malformed.
    """

    name = "pythonic"
    _remedy = (
        "Write only a list of calls, such as [name(argument='value')], or answer in words that do "
        "not start with a bracket."
    )

    def system_prompt(self) -> str:
        """Short instructions."""
        return (
            "Use the functions to do what the user asks. To call, write only a list: "
            "[name(argument='value'), other(number=1)]. You then read the results. When the "
            "request is done, answer in words. If a function or a value is missing, call nothing "
            "and say what is missing."
        )

    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        inside = unfence(body)
        if not inside.startswith("["):
            if found := _MARKED.match(inside):
                raise CallSyntaxError(f"{found[0].split()[0]} stands before the list of calls")
            return Parsed(ParseVerdict.ANSWER, answer=body)
        written = parse_python_calls(inside, dotted=True)
        faults: dict[str, str] = {}
        calls = [_named(call, offered, faults) for call in written]
        return check_calls(calls, offered, faults)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """`[f(a=1), g(b='x')]`."""
        if fault := calls_fault(calls):
            raise TaskError(f"the pythonic dialect cannot write {calls[0].name}: {fault}.")
        return "[" + ", ".join(_call_text(call) for call in calls) + "]"

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line for each tool: its signature and its description."""
        return "\n".join(
            signature(s) + (f" - {s.description.strip()}" if s.description.strip() else "")
            for s in specs
        )


_MARKED = re.compile(
    rf"(?:(?:{ITEM}){{1,3}}|<(?:\w+|\|python_tag\|)>.*(?<=[>\n]))\[[\w.]+\(", re.DOTALL
)
"""A list of calls behind the mark of an item, or behind a tag that other dialects have."""


def _named(call: PyCall, offered: Mapping[str, ToolSpec], faults: dict[str, str]) -> ToolCall:
    """Name the arguments that were given by place; what does not fit goes into `faults`."""
    arguments: dict[str, Value] = {}
    spec = offered.get(call.name)
    names = list(spec.properties) if spec else []
    for place, value in enumerate(call.positional):
        name = names[place] if place < len(names) else f"argument_{place + 1}"
        if spec and place >= len(names):
            faults.setdefault(
                call.name, f"got {len(call.positional)} arguments by place, has {len(names)}"
            )
        if name in call.keyword:
            faults.setdefault(call.name, f"the argument {name} is given twice")
        arguments[name] = mapped(value, lambda inner: _named(inner, offered, faults))
    for name, value in call.keyword.items():
        arguments[name] = mapped(value, lambda inner: _named(inner, offered, faults))
    return ToolCall(call.name, arguments)


def _call_text(call: ToolCall) -> str:
    for name in (*call.name.split("."), *call.arguments):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise TaskError(
                f"{call.name}: the pythonic dialect cannot write a function or argument called "
                f"{name!r}; use the hermes dialect (model.dialect) for such tools."
            )
    inner = ", ".join(f"{name}={_text(value)}" for name, value in call.arguments.items())
    return f"{call.name}({inner})"


def _text(value: Value) -> str:
    if isinstance(value, ToolCall):
        return _call_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in value.items()) + "}"
    return repr(value)


class Compact(Pythonic):
    """The pythonic dialect of the bundled policy: tools by their names and parameters alone."""

    def system_prompt(self) -> str:
        """Next to nothing: the policy was trained from scratch on this very text."""
        return "Call [name(argument='value')] or answer."

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line a tool, `name(parameter,parameter)`, as the policy's chat template writes it."""
        return "\n".join(f"{s.name}({','.join(s.properties)})" for s in specs)
