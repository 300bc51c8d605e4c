"""Published data sets of function calling that a user has on disk, read as single steps.

Owns which forms of a row there are, and what is tools, dialogue and wanted calls in each. Never
fetches anything.

* xLAM and Hammer: `query`, `tools` and `answers`, the last two as JSON or as texts of it
* ToolACE: `system` with the list of tools, `conversations`; one step for each message with calls
* Tool-N1: `raw_system`, `tools`, `conversations`, `answer`, or as verl rows
* ToolRL's rlla: `instruction`, `input`, `output`, or as verl rows (`prompt`, `reward_model`)
* our own task rows (`rods.envs.function_call.environment` splits those of several turns)

    steps, dropped = read_row(row, "toolace.json, row 7")

A row of no form is an error. A step whose calls cannot be used (of a tool that is not in its list,
with a number that JSON cannot say, or that look like calls and cannot be read) is dropped, and the
caller says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from rods.dialects.base import check_calls
from rods.envs.function_call.written import called, dialogue_of, listed_tools, schema_of, truth_of
from rods.envs.function_call.written import tools_of as rlla_tools
from rods.errors import TaskError
from rods.infra.rows import listed, opened
from rods.task import CARRYING
from rods.types import Message, ParseVerdict, ToolCall, ToolSpec

FORMS = (
    "query, tools and answers (xLAM, Hammer), system and conversations (ToolACE), tools, "
    "conversations and answer (Tool-N1), instruction, input and output or prompt and reward_model "
    "(rlla), or a task row of RODS"
)
COLUMNS = frozenset(  # Columns that are read of a Parquet file
    (
        "query", "tools", "answers", "system", "conversations", "raw_system", "answer",
        "instruction", "input", "output", "prompt", "reward_model", *CARRYING,
    )
)  # fmt: skip
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}
_RESULTS = ("observation", "tool", "function_response", "function")


class SingleStep(NamedTuple):
    """One step: what is read, and what is wanted."""

    tools: Sequence[ToolSpec]
    dialogue: tuple[Message, ...]
    user: str
    """The last message, if it is the user's; blank where the dialogue ends with results."""
    calls: tuple[ToolCall, ...]
    response: bool
    """True if words are wanted."""


def read_row(value: object, where: str) -> tuple[list[SingleStep], list[str]]:
    """The steps of one row, and why others of it are dropped.

    Raises:
        TaskError: it has none of the forms, or a part of it is missing; `where` begins the message.
    """
    try:
        steps, dropped = _steps(value)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise TaskError(f"{where}: {what}. Expected {FORMS}.") from error
    faults = [_fault(step) for step in steps]
    kept = [step for step, fault in zip(steps, faults, strict=True) if not fault]
    return kept, [*dropped, *filter(None, faults)]


def _steps(value: object) -> tuple[list[SingleStep], list[str]]:
    if not isinstance(value, dict):
        raise TypeError(f"the row is {value!r:.60}, expected an object")
    row: dict[str, Any] = value
    if row.get("answers") is not None and row.get("query") is not None:
        calls = _calls(_loaded(row["answers"], "answers"))
        tools = [_tool(one) for one in _loaded(row["tools"], "tools")]
        return [SingleStep(tools, (), _text(row["query"], "query"), calls, not calls)], []
    if row.get("answer") is not None and row.get("conversations") is not None:
        calls = _calls(_loaded(row["answer"], "answer"))
        tools = [_tool(one) for one in _loaded(row["tools"], "tools")]
        messages = [_message(m) for m in _loaded(row["conversations"], "conversations")]
        return [_last_apart(tools, messages, calls)], []
    if row.get("system") is not None and row.get("conversations") is not None:
        return _conversation(row)
    if row.get("instruction") is not None:
        return [_rlla(row["instruction"], row["input"], row["output"])], []
    if row.get("reward_model") is not None:
        truth = opened(row["reward_model"], "reward_model")["ground_truth"]
        prompt = _loaded(row["prompt"], "prompt")
        if isinstance(truth, str) and truth.lstrip()[:1] in ("[", '"'):
            return [_verl(prompt, truth)], []
        texts = {m["role"]: m["content"] for m in prompt}
        return [_rlla(texts["system"], texts["user"], truth)], []
    raise ValueError(f"its keys {sorted(row)} are of no form")


def _fault(step: SingleStep) -> str:
    """Why a step cannot be used, or an empty text."""
    if not step.tools:
        return "there are no tools"
    if not step.user.strip() and not step.dialogue:
        return "nothing was said"
    if not step.calls:
        return ""
    parsed = check_calls(step.calls, {spec.name: spec for spec in step.tools})
    if parsed.verdict is ParseVerdict.UNKNOWN_TOOL:
        return f"a call of a tool that is not in its list: {list(step.calls)}"
    try:
        json.dumps([dict(call.arguments) for call in step.calls], allow_nan=False)
    except ValueError:
        return f"a number that JSON cannot say: {list(step.calls)}"
    return ""


def _verl(prompt: list[Any], truth: str) -> SingleStep:
    """Tool-N1's prepared rows: tools in the system message, earlier calls as JSON in JSON."""
    system = _text(prompt[0]["content"], "system")
    listed = system.rpartition("<tools>")[2].partition("</tools>")[0].strip()
    tools = [_tool(json.loads(line)) for line in listed.split("\n")]
    messages: list[Message] = []
    for entry in prompt[1:]:
        message = _message(entry)
        if message.role == "assistant" and message.content.startswith(('"[', "[{")):
            calls = _calls(_loaded(json.loads(message.content), "a message with calls"))
            message = Message("assistant", "", calls)
        messages.append(message)
    return _last_apart(tools, messages, _calls(_loaded(json.loads(truth), "ground_truth")))


def _conversation(row: dict[str, Any]) -> tuple[list[SingleStep], list[str]]:
    """A step for each message with calls; the messages before it are its dialogue."""
    tools = [_tool(t) for t in listed_tools(_text(row["system"], "system"))]
    made, dropped, messages = list[SingleStep](), list[str](), list[Message]()
    for entry in _loaded(row["conversations"], "conversations"):
        try:
            message = _message(entry, [spec.name for spec in tools])
        except SyntaxError as error:
            dropped.append(str(error))
            break  # what follows answers calls that nobody can read
        if message.calls:
            made.append(_last_apart(tools, messages, message.calls))
        messages.append(message)
    return made, dropped


def _rlla(instruction: object, asked: object, truth: object) -> SingleStep:
    tools = [_tool(t) for t in rlla_tools(_text(instruction, "instruction"))]
    calls, response = truth_of(_text(truth, "output"))
    step = _last_apart(tools, dialogue_of(_text(asked, "input")), calls)
    return step._replace(response=response)


def _last_apart(
    tools: Sequence[ToolSpec], messages: Sequence[Message], calls: tuple[ToolCall, ...]
) -> SingleStep:
    if messages and messages[-1].role == "user":
        return SingleStep(tools, tuple(messages[:-1]), messages[-1].content, calls, not calls)
    return SingleStep(tools, tuple(messages), "", calls, not calls)


def _message(row: dict[str, Any], names: Sequence[str] | None = None) -> Message:
    """A message; with `names` of tools, one of the assistant may be calls written as text."""
    role, value = row.get("from", row.get("role")), row.get("value", row.get("content"))
    if role in _RESULTS:
        return Message("tool", value if isinstance(value, str) else json.dumps(value))
    if role == "function_call":
        return Message("assistant", "", _calls(_loaded(value, "function_call")))
    if role not in _ROLES:
        raise ValueError(f"a message is from {role!r}, expected user, assistant or tool")
    text = _text(value, f"a message from {role}")
    if _ROLES[role] == "user":
        return Message("user", text)
    calls = () if names is None else called(text, names)
    return Message("assistant", "" if calls else text, calls)


def _calls(rows: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    """Objects with a name and its arguments."""
    made: list[ToolCall] = []
    for table in rows:
        if not isinstance(table.get("name"), str):
            raise TypeError(f"a call is {table!r:.60}, expected an object with name and arguments")
        arguments = table["arguments"] if "arguments" in table else table.get("parameters")
        arguments = opened(arguments, "arguments") or {}
        if not isinstance(arguments, dict):
            raise TypeError(f"the arguments of {table['name']} are {arguments!r:.60}")
        made.append(ToolCall(table["name"], arguments))
    return tuple(made)


def _tool(row: object) -> ToolSpec:
    row = opened(row, "a tool")
    if not isinstance(row, dict):
        raise TypeError(f"a tool is {row!r:.60}, expected an object with name and parameters")
    table: dict[str, Any] = row
    table = table["function"] if isinstance(table.get("function"), dict) else table
    name = _text(table["name"], "the name of a tool")
    return ToolSpec(
        name,
        str(table.get("description") or ""),
        schema_of(opened(table.get("parameters"), "parameters")),
    )


def _loaded(value: object, what: str) -> list[Any]:
    """A list, or one as a text of JSON; a single call stands for itself."""
    found = opened(value, what)
    single = isinstance(found, dict) and isinstance(found.get("name"), str)
    return listed([found] if single else found, what)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.60}, expected a text")
    return value
