"""The smallest nouns: what is said, what is called, how it went.

* `ToolCall`, `ToolSpec`, `ToolResult` - a call, the description of a tool, what came back
* `Message` - one entry of a conversation
* `ParseVerdict` - what a dialect made of a model's text
* `FinishReason` - why one generation ended; `StopReason` - why a trajectory ended

All are frozen values. Nothing here knows about models, worlds or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""Any JSON value."""
Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | ToolCall | None"
"""An argument: JSON, or a nested call whose result is the argument."""
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of one tool: the name of the tool, and each argument by name."""

    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({inner})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Description of a tool for the policy."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """JSON schema of type `object`: `properties` in the order of the signature, `required`."""

    @property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """Schema of each parameter, by name."""
        return cast("Mapping[str, Mapping[str, Any]]", self.parameters.get("properties") or {})

    @property
    def required(self) -> Sequence[str]:
        """Parameters that must be given."""
        return cast("Sequence[str]", self.parameters.get("required") or ())


def json_type(schema: Mapping[str, object]) -> str:
    """The type in a JSON schema; of a list of types the first that is not null; "" without one."""
    found = schema.get("type", "")
    names = found if isinstance(found, list) else [found]
    return next((str(name) for name in names if name != "null"), "")


def allows_null(schema: Mapping[str, object]) -> bool:
    """Return true if null is among the types of a JSON schema."""
    found = schema.get("type")
    return isinstance(found, list) and "null" in found


def json_choices(schema: Mapping[str, Any]) -> list[Json]:
    """The values that a JSON schema names, without null; none where it names none."""
    return [value for value in schema.get("enum") or () if value is not None]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call, as the policy reads it."""

    content: str
    failed: bool = False
    """The call failed, and the policy reads why. Infrastructure that fails raises `EnvError`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Calls of an assistant message, already parsed (for display; training uses token ids)."""


class ParseVerdict(StrEnum):
    """Kind of a parsed generation: calls, an answer, or an error, which the model reads."""

    CALLS = "calls"
    """One or more well-formed calls of offered tools."""
    ANSWER = "answer"
    """No call: the text answers the user and ends the turn."""
    MALFORMED = "malformed"
    """Text that looks like a call but cannot be parsed."""
    TRUNCATED = "truncated"
    """The generation hit its token limit; nothing of it is executed."""
    UNKNOWN_TOOL = "unknown_tool"
    """A call names a tool that is not offered in this turn."""
    BAD_ARGS = "bad_args"
    """A call misses a required argument or has one that the tool does not know."""

    @property
    def is_error(self) -> bool:
        """True if the model gets feedback about its format."""
        return self not in (ParseVerdict.CALLS, ParseVerdict.ANSWER)


class FinishReason(StrEnum):
    """Why one generation ended."""

    STOP = "stop"
    """The model sampled its end-of-turn token."""
    STOP_STRING = "stop_string"
    """The text holds one of the stop strings that were asked for."""
    LENGTH = "length"
    """The token limit of the step, of the trajectory or of the context was reached."""
    ABORT = "abort"
    """The engine broke it off, as servers do when weights come in; it can be continued."""


class StopReason(StrEnum):
    """Why a trajectory ended. `limits.py` holds the order in which the budgets are checked."""

    DONE = "done"
    """Every turn of the task was rolled out."""
    TURNS = "turns"
    """The budget of turns was spent."""
    CALLS = "calls"
    """The budget of tool calls was spent."""
    GENERATED = "generated"
    """The budget of generated tokens was spent."""
    CONTEXT = "context"
    """The conversation no longer fits the context."""
    STEPS = "steps"
    """A turn took all its steps without an answer, where that ends the conversation."""
    SECONDS = "seconds"
    """No time was left: invalid, unless its own programs took half of it (`rods.env.Paced`)."""
    FAILURE = "failure"
    """The environment or the engine failed: the trajectory is invalid."""
