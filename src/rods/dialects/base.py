"""Protocol of all dialects, the parsed value, and the check against offered tools.

Owns feedback about tools and arguments. Never looks at the types of values: those are the world's
matter. Names of required and unknown arguments are checked here, in nested calls too.

    >>> check_calls((ToolCall("lss"),), {"ls": ToolSpec("ls", "", {})}).verdict
    <ParseVerdict.UNKNOWN_TOOL: 'unknown_tool'>
"""

from __future__ import annotations

import difflib
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rods.dialects.bounds import calls_fault
from rods.dialects.marks import without_thought
from rods.errors import TaskError
from rods.infra.pycall import CallSyntaxError, PyCall
from rods.types import Json, Message, ParseVerdict, Role, ToolCall, ToolResult, ToolSpec, Value

TAG = re.compile(r"<(/?)([A-Za-z_]\w*)>")
_LAST = re.compile(r"(?:</?[A-Za-z_]\w*>|\s)+\Z")
_ROLES = ("assistant", "model", "bot")
"""Headers that look like tags; they open nothing."""
QUOTED = 200
"""Characters that feedback quotes of what was written."""
TOO_LONG = (
    "Error: your message was cut off at its length limit, so nothing was executed. Write a shorter "
    "message."
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Result of parsing one generation: its kind and its calls."""

    verdict: ParseVerdict
    calls: tuple[ToolCall, ...] = ()
    """Well-formed calls; with an error verdict they are known but must not be executed."""
    answer: str = ""
    """Text that the user reads, when the verdict is `ANSWER`."""
    feedback: str = ""
    """Text that the model reads after an error verdict: what was wrong and how to fix it."""


class Dialect(Protocol):
    """One way of writing calls. Derive from it: feedback and results have default texts."""

    feedback_role: Role = "tool"
    """Role of the message that carries feedback about an error verdict."""
    shows_tools: bool = False
    """True: the dialect describes the tools itself, whatever the chat template can show."""

    def system_prompt(self) -> str:
        """Short instructions: how to call, how to answer, when to call nothing."""
        ...

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation.

        Args:
            text: decoded generation without the end-of-turn token.
            offered: the tools of this turn by name.
            truncated: the generation hit its token limit; nothing of it is executed then.
        """
        ...

    def write(self, calls: Sequence[ToolCall]) -> str:
        """The text of calls, for supervised data: `parse` gives the same calls back.

        Raises:
            TaskError: the dialect cannot say one of the values or names.
        """
        ...

    def answer(self, text: str) -> str:
        """The text of an answer, for supervised data: `parse` gives the same answer back.

        Raises:
            TaskError: the dialect would read this answer as calls.
        """
        ...

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """Compact text for tools that become available in a later turn."""
        ...

    def results(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> tuple[Message, ...]:
        """The messages by which the model reads what its calls returned, in order."""
        return tuple(Message("tool", result.content) for result in results)

    def opening(self, dialogue: Sequence[Message], user: str) -> tuple[Message, ...]:
        """Text that the policy reads before its first generation, after the system's message.

        Args:
            dialogue: what was said earlier (`Task.dialogue`); mostly nothing.
            user: text of the first turn; blank where the dialogue ends with results.
        """
        messages = tuple(Message(m.role, self.rendered(m)) for m in dialogue)
        return (*messages, Message("user", user)) if user.strip() or not messages else messages

    def rendered(self, message: Message) -> str:
        """The text of an earlier message; the assistant's as this dialect would have written it."""
        if message.role != "assistant":
            return message.content
        try:
            return self.write(message.calls) if message.calls else self.answer(message.content)
        except TaskError:
            if message.calls:
                raise
            return message.content  # words that this dialect cannot say: they are read as they are


class PlainDialect(Dialect):
    """Base of dialects in which a thought is skipped and what is not a call is an answer."""

    name: str
    """For messages."""
    _remedy: str
    """Text that the model reads beside what was wrong."""
    _described = "TOOLS"
    """Text around the descriptions of tools."""

    def parse(self, text: str, offered: Mapping[str, ToolSpec], truncated: bool) -> Parsed:
        """Read one generation; a leading `<think>` block is skipped."""
        if truncated:
            return Parsed(ParseVerdict.TRUNCATED, feedback=TOO_LONG)
        try:
            return self._read(self._body(text), offered)
        except CallSyntaxError as error:
            return malformed(str(error), self._remedy)

    def _body(self, text: str) -> str:
        """Part of a generation that is read."""
        return without_thought(text)

    @abstractmethod
    def _read(self, body: str, offered: Mapping[str, ToolSpec]) -> Parsed:
        """Parse the body of a generation.

        Raises:
            CallSyntaxError: it is neither a call nor an answer; the policy reads why.
        """

    def describe(self, specs: Sequence[ToolSpec]) -> str:
        """One line of JSON for each tool: name, description, parameters."""
        rows = (json.dumps(tool_row(spec), ensure_ascii=False) for spec in specs)
        return self._described.replace("TOOLS", "\n".join(rows))

    def answer(self, text: str) -> str:
        """The text itself."""
        parsed = self.parse(text, {}, truncated=False)
        if (parsed.verdict, parsed.answer) != (ParseVerdict.ANSWER, text.strip()):
            raise TaskError(
                f"an answer of the {self.name} dialect cannot be read as a call or a thought: "
                f"{text!r}."
            )
        return text.strip()


def malformed(problem: str, remedy: str) -> Parsed:
    """The verdict on text that looks like a call and is none."""
    return Parsed(
        ParseVerdict.MALFORMED, feedback=f"Error: {short(problem)}. Nothing was executed. {remedy}"
    )


def short(text: str) -> str:
    """A text as feedback quotes it: what a model wrote may be long."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


def tool_row(spec: ToolSpec) -> dict[str, Json]:
    """The tool as JSON."""
    parameters = dict(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parameters": parameters}


def opened_tags(header: str) -> str:
    """The tags at the end of a header if one of them stays open; else an empty text.

    Words after a tag close the search: they may be a user's, and those open nothing.
    """
    found = _LAST.search(header)
    text = found[0].lstrip() if found else ""
    held: list[str] = []
    for close, name in TAG.findall(text):
        if not close:
            held.append(name)
        elif name in held:
            held.remove(name)
    return text if any(name not in _ROLES for name in held) else ""


def signature(spec: ToolSpec) -> str:
    """The tool as one line: `cp(source: string, destination: string, force: boolean?)`."""
    parts = [
        f"{name}: {schema.get('type', 'any')}{'' if name in spec.required else '?'}"
        for name, schema in spec.properties.items()
    ]
    return f"{spec.name}({', '.join(parts)})"


def require_flat(call: ToolCall, dialect: str) -> None:
    """Refuse to write a nested call, or a value that no dialect reads; raises `TaskError`."""
    if has_nested(call):
        raise TaskError(f"the {dialect} dialect cannot write the nested call {call}.")
    if fault := calls_fault([call]):
        raise TaskError(f"the {dialect} dialect cannot write {call.name}: {fault}.")


def check_calls(
    calls: Sequence[ToolCall],
    offered: Mapping[str, ToolSpec],
    faults: Mapping[str, str] | None = None,
) -> Parsed:
    """The verdict on well-formed calls: within the bound, tools offered, required arguments there,
    none unknown.

    `faults` is what a parser found wrong with a tool's arguments, by its name. Raises
    `CallSyntaxError` where there is no call.
    """
    if not calls:
        raise CallSyntaxError("the list of calls is empty")
    if fault := calls_fault(calls):
        return malformed(fault, "Call with smaller, flatter arguments of plain text and numbers.")
    every = [inner for call in calls for inner in nested(call)]
    for call in every:
        if call.name not in offered:
            return Parsed(
                ParseVerdict.UNKNOWN_TOOL, tuple(calls), feedback=_unknown(call.name, offered)
            )
    for call in every:
        spec = offered[call.name]
        fault = (faults or {}).get(call.name) or _argument_fault(call, spec)
        if fault:
            text = (
                f"Error: {call.name}: {short(fault)}. Nothing was executed. "
                f"The function is {signature(spec)}; arguments with ? may be left out."
            )
            return Parsed(ParseVerdict.BAD_ARGS, tuple(calls), feedback=text)
    return Parsed(ParseVerdict.CALLS, tuple(calls))


def nested(call: ToolCall) -> Iterator[ToolCall]:
    """The call itself and every call within its arguments."""
    yield call
    yield from calls_in(call.arguments.values())


def has_nested(call: ToolCall) -> bool:
    """True if an argument of the call is itself a call."""
    return any(True for _ in calls_in(call.arguments.values()))


def mapped(value: object, call: Callable[[Any], object]) -> Any:
    """A value in which each call, as written (`PyCall`) or read, is what `call` makes of it."""
    if isinstance(value, (PyCall, ToolCall)):
        return call(value)
    if isinstance(value, list):
        return [mapped(item, call) for item in value]
    if isinstance(value, dict):
        return {k: mapped(item, call) for k, item in value.items()}
    return value


def calls_in(values: Iterable[Value]) -> Iterator[ToolCall]:
    """The calls within these values."""
    for value in values:
        if isinstance(value, ToolCall):
            yield from nested(value)
        elif isinstance(value, (list, dict)):
            yield from calls_in(value.values() if isinstance(value, dict) else value)


def _unknown(name: str, offered: Mapping[str, ToolSpec]) -> str:
    name = short(name)
    near = difflib.get_close_matches(name.rsplit(".", 1)[-1], offered, 3, 0.6)
    hint = f" The nearest are: {', '.join(near)}." if near else ""
    return (
        f"Error: there is no function {name} now. Nothing was executed.{hint} "
        "Call only functions that are offered, or answer in words what is missing."
    )


def _argument_fault(call: ToolCall, spec: ToolSpec) -> str:
    properties, required = spec.properties, spec.required
    missing = [name for name in properties if name in required and name not in call.arguments]
    missing += sorted(n for n in required if n not in properties and n not in call.arguments)
    if missing:
        return f"the required argument {missing[0]} is missing"
    open_ended = spec.parameters.get("additionalProperties") not in (None, False)
    unknown = [name for name in call.arguments if name not in properties]
    if unknown and not open_ended:
        return f"there is no argument {unknown[0]}"
    return ""
