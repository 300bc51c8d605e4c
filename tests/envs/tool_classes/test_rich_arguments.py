"""Arguments of any type that JSON can say: their schema, the value that the method gets, faults."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import decimal
import enum
import functools
import pathlib
import threading
import typing
import uuid
from collections import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NotRequired, Required

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from notebook_cell import in_cell
from rods.dialects import DIALECTS, InlineDialect, get_dialect, structured
from rods.env import World
from rods.envs.hints import hinted
from rods.envs.tool_classes import ToolClasses
from rods.envs.tool_classes.schema import Tool, Unfit, tools_of
from rods.envs.tool_classes.state import plain
from rods.errors import ConfigError
from rods.rollout.owner import Late, Owner
from rods.task import Task, Turn
from rods.types import ToolCall


class Service(enum.Enum):
    """How fast."""

    SLOW = "slow"
    FAST = "fast"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mark(enum.Enum):
    ONE = 1
    STAR = "*"
    NONE = None


@dataclass
class Parcel:
    """A parcel.

    Attributes:
        weight: In kilograms.
    """

    weight: float
    marks: list[str] = field(default_factory=list)
    until: datetime.date | None = None

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError("the weight must be above 0")


class Place(BaseModel):
    street: str = Field(alias="line", min_length=3)
    floors: list[int] = Field(default_factory=list[int])
    inner: Parcel | None = None


class Open(BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(typing.TypedDict, total=False):
    a: Required[int]
    b: Annotated[str, "Which."]
    p: Parcel


class Whole(typing.TypedDict):
    a: int
    b: NotRequired[list[Row]]


class Tree(BaseModel):
    name: str
    below: list[Tree] = []


UUID = "12345678-1234-5678-1234-567812345678"
PARCEL = {
    "type": "object",
    "properties": {
        "weight": {"type": "number", "description": "In kilograms."},
        "marks": {"type": "array", "items": {"type": "string"}},
        "until": {"type": ["string", "null"], "default": None, "format": "date"},
    },
    "required": ["weight"],
    "description": "A parcel.",
}
ROW = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string", "description": "Which."},
        "p": PARCEL,
    },
    "required": ["a"],
}
TYPES: list[tuple[Any, dict[str, Any], Any, Any, Any, str]] = [
    # hint, schema, JSON, the method's value, other JSON, what the agent reads of that
    (
        datetime.date,
        {"type": "string", "format": "date"},
        "2026-05-08",
        datetime.date(2026, 5, 8),
        "2026-13-08",
        "value must be a day, such as 2026-05-08, got '2026-13-08'",
    ),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-05-08T19:30:00",
        datetime.datetime(2026, 5, 8, 19, 30),
        "at noon",
        "value must be a day with a time, such as 2026-05-08T19:30:00, got 'at noon'",
    ),
    (
        datetime.time,
        {"type": "string", "format": "time"},
        "19:30",
        datetime.time(19, 30),
        "noon",
        "value must be a time, such as 19:30:00, got 'noon'",
    ),
    (
        datetime.timedelta,
        {"type": "string", "format": "duration"},
        "PT1H30M",
        datetime.timedelta(minutes=90),
        "long",
        "value must be a duration, such as PT1H30M, got 'long'",
    ),
    (
        decimal.Decimal,
        {"type": "number"},
        0.1,
        decimal.Decimal("0.1"),
        "1",
        "value must be a number",
    ),
    (
        uuid.UUID,
        {"type": "string", "format": "uuid"},
        UUID,
        uuid.UUID(UUID),
        "x",
        "value must be a UUID, got 'x'",
    ),
    (
        pathlib.Path,
        {"type": "string", "format": "path"},
        "a/b",
        pathlib.Path("a/b"),
        3,
        "value must be a string, got '3'",
    ),
    (
        Service,
        {"type": "string", "enum": ["slow", "fast"], "description": "How fast."},
        "fast",
        Service.FAST,
        "FAST",
        "value must be one of slow, fast, got 'FAST'",
    ),
    (
        Level,
        {"type": "integer", "enum": [1, 2]},
        2,
        Level.HIGH,
        True,
        "value must be a whole number, got 'True'",
    ),
    (
        Parcel,
        PARCEL,
        {"weight": 2, "until": "2026-05-08"},
        Parcel(2.0, [], datetime.date(2026, 5, 8)),
        {"weight": 2, "untill": "2026-05-08"},
        "there is in value no field 'untill'; it takes: weight, marks, until",
    ),
    (
        Parcel,
        PARCEL,
        {"weight": 1, "marks": ["a"]},
        Parcel(1.0, ["a"]),
        {"weight": -1},
        "value: the weight must be above 0",
    ),
    (
        abc.Iterable[int],
        {"type": "array", "items": {"type": "integer"}},
        [1, 2],
        [1, 2],
        [1, "2"],
        "value[1] must be a whole number, got '2'",
    ),
    (
        abc.Collection[str],
        {"type": "array", "items": {"type": "string"}},
        ["a"],
        ["a"],
        "a",
        "value must be a list, got 'a'",
    ),
    (
        abc.MutableMapping[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"a": 1},
        {"a": 1},
        {"a": "1"},
        "value.a must be a whole number, got '1'",
    ),
    (
        list[Parcel],
        {"type": "array", "items": PARCEL},
        [{"weight": 1}],
        [Parcel(1.0)],
        [{"weight": 1}, {"marks": []}],
        "the required field value[1].weight is missing",
    ),
    (
        Parcel | None,
        {**PARCEL, "type": ["object", "null"]},
        None,
        None,
        {"weight": 1, "until": "soon"},
        "value.until must be a day, such as 2026-05-08, got 'soon'",
    ),
    (
        Place,
        {
            "type": "object",
            "properties": {
                "line": {"type": "string", "minLength": 3},
                "floors": {"type": "array", "items": {"type": "integer"}},
                "inner": {**PARCEL, "type": ["object", "null"], "default": None},
            },
            "required": ["line"],
        },
        {"line": "Elm 1", "inner": {"weight": 1}},
        Place(line="Elm 1", inner=Parcel(1.0)),
        {"line": "E"},
        "value.line: String should have at least 3 characters",
    ),
    (
        Open,
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
            "additionalProperties": True,
        },
        {"x": 1, "y": "z"},
        Open(x=1, y="z"),  # pyright: ignore[reportCallIssue]
        {"y": 1},
        "the required field value.x is missing",
    ),
    (
        Point,
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "integer", "default": 0}],
            "minItems": 1,
            "maxItems": 2,
        },
        [1],
        Point(1),
        [1, "2"],
        "value[1] must be a whole number, got '2'",
    ),
    (Row, ROW, {"a": 1, "p": {"weight": 1}}, {"a": 1, "p": Parcel(1.0)}, {}, "value.a is missing"),
    (
        Whole,
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": ROW}},
            "required": ["a"],
        },
        {"a": 1, "b": [{"a": 2}]},
        {"a": 1, "b": [{"a": 2}]},
        {"a": 1, "b": [{"b": "x"}]},
        "the required field value.b[0].a is missing",
    ),
    (
        Tree,
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "below": {"type": "array", "items": {"type": "object"}, "default": []},
            },
            "required": ["name"],
        },
        {"name": "a", "below": [{"name": "b"}]},
        Tree(name="a", below=[Tree(name="b")]),
        {"name": "a", "below": [{"name": 1}]},
        "value.below[0].name must be a valid string, got '1'",
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        [1, "a"],
        (1, "a"),
        ["a", 1],
        "value[0] must be a whole number, got 'a'",
    ),
    (tuple, {"type": "array"}, [1, "a"], (1, "a"), "a", "value must be a list"),
    (
        set[Service],
        {
            "type": "array",
            "items": {"type": "string", "enum": ["slow", "fast"], "description": "How fast."},
            "uniqueItems": True,
        },
        ["slow", "slow"],
        {Service.SLOW},
        ["quick"],
        "value[0] must be one of slow, fast, got 'quick'",
    ),
    (
        frozenset[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [1],
        frozenset({1}),
        [None],
        "value[0] must be a whole number",
    ),
    (
        int | str,
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "a",
        "a",
        1.5,
        "value must be a valid integer, got '1.5'; value must be a valid string",
    ),
    (
        Parcel | Literal["none"],
        {"anyOf": [PARCEL, {"type": "string", "enum": ["none"]}]},
        {"weight": 1},
        Parcel(1.0),
        "some",
        "value must be an object, got 'some'; value must be 'none', got 'some'",
    ),
    (
        dict[Service, datetime.date],
        {
            "type": "object",
            "additionalProperties": {"type": "string", "format": "date"},
            "propertyNames": {
                "type": "string",
                "enum": ["slow", "fast"],
                "description": "How fast.",
            },
        },
        {"slow": "2026-05-08"},
        {Service.SLOW: datetime.date(2026, 5, 8)},
        {"slow": "x"},
        "value.slow must be a day",
    ),
    (
        dict[Annotated[str, Field(pattern="^P-")], Parcel],
        {"type": "object", "patternProperties": {"^P-": PARCEL}},
        {"P-1": {"weight": 1}},
        {"P-1": Parcel(1.0)},
        {"Q-1": {"weight": 1}},
        "a key of value: String should match pattern '^P-'",
    ),
    (
        dict[int, list[int]],
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
        {"1": [2]},
        {1: [2]},
        {"a": [2]},
        "a key of value must be a valid integer, unable to parse string as an integer, got 'a'",
    ),
    (
        Parcel | list[Parcel],
        {"anyOf": [PARCEL, {"type": "array", "items": PARCEL}]},
        [{"weight": 1}],
        [Parcel(1.0)],
        [{}],
        "value must be an object, got '[{}]'; the required field value[0].weight is missing",
    ),
    (Literal[1, "a"], {"enum": [1, "a"]}, "a", "a", "b", "value must be one of 1, a, got 'b'"),
    (Mark, {"enum": [1, "*", None]}, None, Mark.NONE, "1", "value must be one of 1, *, got '1'"),
    (Annotated[int, Field(default=3)], {"type": "integer"}, 4, 4, "x", "must be a whole number"),
    (typing.NewType("Name", str), {"type": "string"}, "x", "x", 1, "value must be a string"),
    (
        Annotated[int, Field(gt=3, description="n")],
        {"type": "integer", "exclusiveMinimum": 3, "description": "n"},
        4,
        4,
        3,
        "value must be greater than 3, got '3'",
    ),
    (
        Annotated[
            dict[str, Any],
            WithJsonSchema(
                {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
            ),
        ],
        {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
        {"kind": "a"},
        {"kind": "a"},
        {"kind": 1},
        "value.kind must be a string, got '1'",
    ),
]


def tool_of(hint: Any, default: Any = ...) -> Tool:
    def method(self: Any, value: Any = default) -> Any:
        return value

    method.__annotations__["value"] = hint
    if default is ...:
        method.__defaults__ = None
    return tools_of(type("Box", (), {"method": method}))["method"]


@pytest.mark.parametrize(("hint", "schema", "given", "value", "wrong", "said"), TYPES, ids=str)
def test_json_becomes_the_value_of_the_hint(
    hint: Any, schema: Any, given: Any, value: Any, wrong: Any, said: str
) -> None:
    tool = tool_of(hint)
    assert tool.spec.properties["value"] == schema
    taken = tool.bound({"value": given}).arguments["value"]
    assert taken == value and type(taken) is type(value)
    with pytest.raises(Unfit) as refused:
        tool.bound({"value": wrong})
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


@pytest.mark.parametrize(("hint", "value"), [(row[0], row[3]) for row in TYPES], ids=str)
def test_a_value_of_any_hint_is_a_default_and_a_result(hint: Any, value: Any) -> None:
    def method(self: Any, value: Any = value) -> Any:
        return value

    method.__annotations__["value"] = hint
    environment = ToolClasses("box", [type("Box", (), {"method": method})])
    schema = environment.prepare(task_of("Box")).specs["method"].properties["value"]
    world = environment.open(task_of("Box"))
    world.begin_turn(0)
    first = world.call(ToolCall("method"))
    again = world.call(ToolCall("method", {"value": schema["default"]}))
    assert not first.failed and first == again


def task_of(*classes: str, call: ToolCall | None = None) -> Task:
    turn = Turn("Do it.", (call,) if call else ())
    return Task("box", "base", (turn,), {"classes": [*classes]})


@pytest.mark.parametrize(
    "value",
    [
        datetime.timedelta(minutes=-30),
        datetime.timedelta(days=2, microseconds=5),
        decimal.Decimal("12.50"),
        decimal.Decimal(7),
    ],
    ids=str,
)
def test_what_a_result_shows_is_taken_as_an_argument(value: Any) -> None:
    shown = plain(value, "x")
    assert tool_of(type(value)).bound({"value": shown}).arguments["value"] == value


def test_equal_decimals_are_equal_states_and_none_is_lost() -> None:
    assert plain(decimal.Decimal("1.50"), "x") == plain(decimal.Decimal("1.5"), "x")
    for text in ("0.1000000000000000055", "1E+999999999", "NaN", "Infinity"):
        assert plain(decimal.Decimal(text), "x") == text


class Arguments:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def place(
        self, first: int, second: int = 2, /, third: int = 3, *, fourth: int = 4
    ) -> list[int]:
        return [first, second, third, fourth]

    def rest(self, first: int, *days: datetime.date) -> list[Any]:
        return [first, *days]

    def named(self, first: int = 0, **more: Service) -> dict[str, Any]:
        self.seen.append(more)
        return {"first": first, **more}

    def kept(self, box: Parcel = Parcel(1.0)) -> int:  # noqa: B008
        box.marks.append("x")
        return len(box.marks)

    @functools.lru_cache(maxsize=None)  # noqa: B019, UP033
    def cached(self, value: int) -> int:
        """Cache."""
        return value + 1

    @staticmethod
    def static(value: int) -> int:
        return value

    @classmethod
    def made(cls, value: int) -> Arguments:
        raise NotImplementedError

    @property
    def size(self) -> int:
        return 3

    @functools.cached_property
    def _total(self) -> int:
        return len(self.seen)

    def look(self) -> int:
        return self._total


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("place", {"first": 1, "third": 5}, "[1, 2, 5, 4]"),
        ("place", {"first": 1, "second": 7, "fourth": 5}, "[1, 7, 3, 5]"),
        ("rest", {"first": 1}, "[1]"),
        (
            "rest",
            {"first": 1, "days": ["2026-05-08", "2026-05-09"]},
            '[1, "2026-05-08", "2026-05-09"]',
        ),
        ("named", {"a": "slow", "b": "fast"}, '{"first": 0, "a": "slow", "b": "fast"}'),
        ("named", {"more": "slow"}, '{"first": 0, "more": "slow"}'),
        ("named", {"a": "x"}, '{"error": "a must be one of slow, fast, got \'x\'"}'),
        ("rest", {"first": 1, "days": ["x"]}, "days[0] must be a day"),
        ("kept", {}, "1"),
        ("cached", {"value": 1}, "2"),
        ("static", {"value": 1}, "1"),
    ],
)
def test_every_kind_of_parameter_is_given_by_name(name: str, arguments: Any, result: str) -> None:
    world = ToolClasses("box", [Arguments]).open(task_of("Arguments"))
    world.begin_turn(0)
    for _ in range(2):
        assert result in world.call(ToolCall(name, arguments)).content


def test_which_members_are_tools_and_what_is_no_state() -> None:
    environment = ToolClasses("box", [Arguments])
    task = task_of("Arguments")
    world = environment.open(task)
    assert [spec.name for spec in world.offered()] == [
        "place", "rest", "named", "kept", "cached", "static", "look"
    ]  # fmt: skip
    world.begin_turn(0)
    before = world.public_state()
    assert world.call(ToolCall("look")).content == "0"
    assert world.public_state() == before == {"Arguments": {"seen": []}}


class Inherited(BaseModel):
    """A tool class that is itself a model."""

    model_config = ConfigDict(extra="forbid")
    rates: ClassVar[dict[str, int]] = {"a": 1}
    held: list[int] = []

    def put(self, value: int) -> None:
        self.held.append(value)


@dataclass(frozen=True)
class Frozen:
    rates: ClassVar[dict[str, int]] = {"a": 1}
    held: list[int] = field(default_factory=list)

    def put(self, value: int) -> None:
        self.held.append(value)


@pytest.mark.parametrize("kind", [Inherited, Frozen])
def test_a_tool_class_may_be_a_model_or_frozen(kind: type[Any]) -> None:
    assert list(tools_of(kind)) == ["put"], "methods of its base are no tools"
    world = ToolClasses("box", [kind]).open(task_of(kind.__name__))
    world.begin_turn(0)
    world.call(ToolCall("put", {"value": 3}))
    assert world.public_state() == {kind.__name__: {"held": [3], "rates": {"a": 1}}}


class Refused:
    def one(self, value) -> None: ...  # type: ignore[no-untyped-def]

    def two(self, value: range, other: list[threading.Lock]) -> None: ...  # pyright: ignore

    def three(self, value: Annotated[int, WithJsonSchema({"type": "string"})]) -> None: ...

    def four(self) -> Iterator[int]:
        yield 1


class AlsoRefused:
    def five(self, *values) -> None: ...  # type: ignore[no-untyped-def]


def test_one_message_has_all_that_cannot_be_hosted() -> None:
    with pytest.raises(ConfigError) as refused:
        ToolClasses("box", [Refused, AlsoRefused], hidden=["six"])
    lines = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "class Refused, method one, parameter value",
        "class Refused, method two, parameter value",
        "class Refused, method two, parameter other",
        "class Refused, method three, parameter value",
        "class Refused, method four",
        "class AlsoRefused, method five, parameter values",
        "environment 'box'",
    ]
    assert "its schema by hand says string, the hint is integer" in lines[3]


# -- dialects --------------------------------------------------------------------------------------

NESTED = ToolCall(
    "send",
    {
        "parcels": [{"weight": 2.5, "marks": ["a", "b"], "until": "2026-05-08"}, {"weight": 1}],
        "to": {"line": "Elm 'n' Oak 1", "inner": {"weight": 1, "until": None}},
        "service": "fast",
    },
)


class Courier:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, parcels: list[Parcel], to: Place, service: Service) -> dict[str, Any]:
        """Send parcels."""
        await asyncio.sleep(0)
        assert all(isinstance(parcel, Parcel) for parcel in parcels)
        self.sent.append((parcels, to, service))
        return {"to": to, "service": service, "first": parcels[0]}


NAMES = [name for name in DIALECTS if not isinstance(get_dialect(name), InlineDialect)]


@pytest.mark.parametrize("name", NAMES)
def test_objects_within_objects_pass_every_dialect(name: str) -> None:
    dialect = structured(name)
    environment = ToolClasses("box", [Courier])
    task = task_of("Courier", call=NESTED)
    world = environment.open(task)
    world.begin_turn(0)
    offered = {spec.name: spec for spec in world.offered()}
    calls = dialect.parse(dialect.write([NESTED]), offered, truncated=False).calls
    assert calls == (NESTED,)
    assert not world.call(calls[0]).failed
    assert world.end_turn().solved
    if name not in ("pythonic", "compact"):  # these show the names of parameters alone
        assert "weight" in dialect.describe([*offered.values()])


def test_results_and_states_of_such_values_are_json() -> None:
    world = ToolClasses("box", [Courier]).open(task_of("Courier", call=NESTED))
    world.begin_turn(0)
    assert world.call(NESTED).content == (
        '{"to": {"line": "Elm \'n\' Oak 1", "floors": [], "inner": {"weight": 1.0, "marks": [], '
        '"until": null}}, "service": "fast", "first": {"weight": 2.5, "marks": ["a", "b"], '
        '"until": "2026-05-08"}}'
    )
    other = ToolCall("send", {**NESTED.arguments, "to": {"line": "Elm 2"}})
    assert world.end_turn().solved
    wrong = ToolClasses("box", [Courier]).open(task_of("Courier", call=NESTED))
    wrong.begin_turn(0)
    wrong.call(other)
    assert not wrong.end_turn().solved


# -- async def -------------------------------------------------------------------------------------


class Slow:
    """A class that is partly asynchronous."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._ended = threading.Event()

    def __deepcopy__(self, memo: Any) -> Slow:
        made = Slow()
        made.log, made._ended = [*self.log], self._ended
        return made

    def plain(self) -> str:
        return "plain"

    async def gather(self, count: int) -> list[int]:
        """Wait for several."""

        async def one(number: int) -> int:
            await asyncio.sleep(0.001 * (count - number))
            self.log.append(str(number))
            return number

        return await asyncio.gather(*map(one, range(count)))

    def wrapped(self, count: int) -> Any:
        """A plain method that gives what can be awaited."""
        return self.gather(count)

    async def fail(self) -> None:
        """Fail."""
        raise KeyError("no such parcel")

    async def leave(self) -> str:
        """Leave something running."""
        asyncio.get_running_loop().create_task(self.forever())
        await asyncio.sleep(0)
        return "left"

    async def forever(self) -> None:
        """Never end."""
        try:
            await asyncio.Event().wait()
        finally:
            self._ended.set()


def slow_world() -> World:
    world = ToolClasses("box", [Slow]).open(task_of("Slow"))
    world.begin_turn(0)
    return world


ASYNC = [
    ("plain", {}, '"plain"', False),
    ("gather", {"count": 3}, "[0, 1, 2]", False),
    ("wrapped", {"count": 2}, "[0, 1]", False),
    ("fail", {}, '{"error": "no such parcel"}', True),
    ("leave", {}, '"left"', False),
]


@pytest.mark.parametrize(("name", "arguments", "content", "failed"), ASYNC)
@pytest.mark.parametrize("within", [False, True], ids=["no loop", "within a loop"])
def test_async_tools_run_to_their_end(
    name: str, arguments: Any, content: str, failed: bool, within: bool
) -> None:
    world = slow_world()

    call: Callable[[], Any] = lambda: world.call(ToolCall(name, arguments))  # noqa: E731
    result = in_cell(call) if within else call()
    assert (result.content, result.failed) == (content, failed)


def test_a_class_with_async_tools_has_a_thread_for_each_world() -> None:
    assert ToolClasses("box", [Slow]).blocking
    assert not ToolClasses("box", [Arguments]).blocking


@pytest.mark.parametrize("wrapper", [lambda world: world, hinted], ids=["bare", "hinted"])
def test_an_async_tool_that_never_ends_is_cancelled_at_its_deadline(wrapper: Any) -> None:
    environment = ToolClasses("box", [Slow])

    async def rollout() -> tuple[World, threading.Event]:
        owner = Owner(environment.blocking, seconds=0.2)
        world = await owner.opening(slow_world)
        ended: threading.Event = world._prepared.start["Slow"]._ended  # type: ignore[attr-defined]
        with contextlib.suppress(Late):
            await owner(world.call, ToolCall("forever"))
            raise AssertionError("it ended")
        owner.close(wrapper(world))
        return world, ended

    _world, ended = asyncio.run(rollout())
    assert ended.wait(10)


class Account:
    """Keeps what it owns in a `cached_property`."""

    @functools.cached_property
    def balances(self) -> dict[str, int]:
        return {"a": 100}

    def pay(self, amount: int) -> dict[str, int]:
        """Pay."""
        self.balances["a"] -= amount
        return {}


def test_a_changed_cached_property_is_compared() -> None:
    call = ToolCall("pay", {"amount": 5})
    world = ToolClasses("box", [Account]).open(task_of("Account", call=call))
    world.begin_turn(0)
    world.call(ToolCall("pay", {"amount": 95}))
    assert not world.end_turn().solved


def test_half_a_character_is_refused_in_words() -> None:
    spelled = tools_of(type("Spelled", (), {"spell": spell}))["spell"]
    with pytest.raises(Unfit, match=r"^word must be whole characters, without an unpaired"):
        spelled.bound({"word": "a\ud800"})


def spell(self: object, word: str) -> str:
    """Spell a word."""
    return word
