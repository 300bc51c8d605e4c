"""Hosting a class: schemas from hints and docstrings, checked arguments, what is refused."""

from __future__ import annotations

import datetime
import enum
import inspect
import random
import threading
import typing
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Dict, List, Literal, Optional, Union  # noqa: UP035

import pydantic
import pytest

from rods.envs.hints import call_hint
from rods.envs.tool_classes import ToolClasses
from rods.envs.tool_classes.schema import Tool, Unfit, read_docstring, tools_of
from rods.envs.tool_classes.state import StateError, copied, make, plain_state
from rods.errors import ConfigError, TaskError
from rods.synthesis.structure.typed import mistyped
from rods.types import ToolCall


def fault(tool: Tool, arguments: Any) -> str:
    """What the agent reads of arguments, empty where the tool takes them."""
    try:
        tool.bound(arguments)
    except Unfit as error:
        return str(error)
    return ""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def schema_of(hint: Any, default: Any = ...) -> dict[str, Any]:
    def method(self: Any, value: Any = default) -> None: ...

    method.__annotations__["value"] = hint
    if default is ...:
        method.__defaults__ = None
    kind = type("Box", (), {"method": method})
    parameters: Any = tools_of(kind)["method"].spec.parameters
    assert parameters["required"] == (["value"] if default is ... else [])
    return parameters["properties"]["value"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (int | float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            list[Literal["a", "b"]],
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        ),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
        (Union[int, None], {"type": ["integer", "null"]}),  # noqa: UP007
        (List, {"type": "array"}),  # noqa: UP006
        (Dict, {"type": "object"}),  # noqa: UP006
        (Sequence, {"type": "array"}),
        (typing.Sequence, {"type": "array"}),
        (typing.Iterable[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping, {"type": "object"}),
        (typing.Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[List], {"type": ["array", "null"]}),  # noqa: UP006, UP045
        (list[Dict], {"type": "array", "items": {"type": "object"}}),  # noqa: UP006
        (list[Any], {"type": "array"}),
        (list[str | None], {"type": "array", "items": {"type": ["string", "null"]}}),
        (
            dict[str, int | None],
            {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
        ),
        (Optional[Annotated[int, "n"]], {"type": ["integer", "null"], "description": "n"}),  # noqa: UP045
        (Annotated[int | None, "n"], {"type": ["integer", "null"], "description": "n"}),
        (int | float | None, {"type": ["number", "null"]}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (Colour | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
        (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
        (Literal["a", None], {"type": ["string", "null"], "enum": ["a", None]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Annotated[str, "Its name."], {"type": "string", "description": "Its name."}),
    ],
    ids=str,
)
def test_hints_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_defaults_are_told_and_optional() -> None:
    assert schema_of(int, 3) == {"type": "integer", "default": 3}
    assert schema_of(str | None, None) == {"type": ["string", "null"], "default": None}
    assert schema_of(str, None) == {"type": ["string", "null"], "default": None}
    assert schema_of(Colour, Colour.RED)["default"] == "red"
    assert schema_of(list[Colour], [Colour.RED])["default"] == ["red"]


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (list[str | None], ["a", None], ["a", 1]),
        (dict[str, int | None], {"a": None, "b": 1}, {"a": "x"}),
        (Optional[Annotated[int, "n"]], None, "x"),  # noqa: UP045
        (Optional[List], None, "x"),  # noqa: UP006, UP045
        (Optional[List], ["x", 1], "x"),  # noqa: UP006, UP045
        (list[Dict], [{"a": 1}], ["x"]),  # noqa: UP006
        (Mapping, {"a": 1}, ["x"]),
        (Sequence, [1], "x"),
        (Colour | None, None, "green"),
        (Literal["a", None], None, "b"),
        (list[int], [1], None),
        (list[int], [1], [None]),
    ],
    ids=str,
)
def test_null_is_taken_where_the_hint_says_so(hint: Any, right: Any, wrong: Any) -> None:
    def method(self: Any, value: Any) -> None: ...

    method.__annotations__["value"] = hint
    tool = tools_of(type("Box", (), {"method": method}))["method"]
    assert fault(tool, {"value": right}) == ""
    assert dict(tool.bound({"value": right}).arguments) == {"value": right}
    assert "value" in fault(tool, {"value": wrong})
    spec = tool.spec
    assert (mistyped(spec, {"value": None}) == []) is (fault(tool, {"value": None}) == "")
    if fault(tool, {"value": None}) == "":
        assert call_hint(ToolCall("method", {"value": None}), {"method": spec}) == ""


def test_a_tuple_comes_as_a_tuple() -> None:
    def method(self: Any, value: tuple[float, ...]) -> None: ...

    tool = tools_of(type("Box", (), {"method": method}))["method"]
    assert dict(tool.bound({"value": [1, 2]}).arguments) == {"value": (1.0, 2.0)}


def google() -> None:
    """Lend a book.

    The clock stands still.

    Args:
        member: Who takes it,
            by card.
        days (int): How long.

    Returns:
        member: not a parameter.
    """


def sphinx() -> None:
    """Lend a book.

    The clock stands still.

    :param str member: Who takes it,
        by card.
    :param days: How long.
    :returns: nothing
    """


def numpy() -> None:
    """Lend a book.

    The clock stands still.

    Parameters
    ----------
    member : str
        Who takes it, by card.
    days : int
        How long.
    """


def plain() -> None:
    """Lend a book.

    The clock stands still.

    Then: nothing.
    """


def test_a_docstring_without_sections_is_all_text() -> None:
    assert read_docstring(inspect.getdoc(plain) or "") == (
        "Lend a book.\nThe clock stands still.\nThen: nothing.",
        {},
    )
    assert read_docstring("") == ("", {})


@pytest.mark.parametrize("function", [google, sphinx, numpy], ids=lambda f: f.__name__)
def test_docstrings_of_every_style(function: Any) -> None:
    doc = read_docstring(inspect.getdoc(function) or "")
    assert doc.text == "Lend a book.\nThe clock stands still."
    assert doc.parameters == {"member": "Who takes it, by card.", "days": "How long."}


@pytest.mark.parametrize(
    "described",
    [
        "Args:\n    notes: What.",
        ":param notes: What.",
        "Parameters\n----------\nnotes : str\n    What.",
    ],
    ids=["google", "sphinx", "numpy"],
)
def test_a_docstring_of_no_parameter_is_named(
    described: str, caplog: pytest.LogCaptureFixture
) -> None:
    def method(self: Any, note: str) -> None: ...

    def open_to_more(self: Any, **more: str) -> None: ...

    method.__doc__ = open_to_more.__doc__ = f"Note it.\n\n{described}\n"
    kind = f"Box{len(described)}"  # each class is named once
    tools_of(type(kind, (), {"method": method, "open_to_more": open_to_more}))
    where = f"class {kind}, method method"
    hint = "Did you mean 'note'?"
    assert caplog.messages == [
        f"{where}: docstring describes 'notes', which is no parameter. {hint}"
    ]


class Shop:
    """All that a method may take."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def buy(
        self,
        name: str,
        count: int = 1,
        price: float = 1.5,
        colour: Colour = Colour.RED,
        size: Literal["s", "m"] | None = None,
        tags: list[str] = [],  # noqa: B006
    ) -> dict[str, Any]:
        tags.append("sold")
        self.log.append([name, count, price, type(price).__name__, colour, size, tags])
        return {"sold": count}

    @staticmethod
    def rate() -> float:
        """The rate."""
        return 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "required argument name"),
        ({"name": 3}, "name must be a string, got '3'"),
        ({"name": "x", "count": "2"}, "count must be a whole number"),
        ({"name": "x", "count": True}, "count must be a whole number"),
        ({"name": "x", "count": None}, "count must be a whole number"),
        ({"name": "x", "colour": "green"}, "one of red, blue"),
        ({"name": "x", "size": "l"}, "one of s, m"),
        ({"name": "x", "tags": ["a", 1]}, "tags[1] must be a string"),
        ({"name": "x", "weight": 1}, "no parameter 'weight'; it takes: name, count"),
        ({"name": ToolCall("rate")}, "not a call; call rate first"),
    ],
)
def test_wrong_arguments_are_explained(arguments: Any, said: str) -> None:
    assert said in fault(tools_of(Shop)["buy"], arguments)


def test_right_arguments_become_what_the_method_wants() -> None:
    tool = tools_of(Shop)["buy"]
    given: Any = {"name": "x", "price": 2, "colour": "blue", "size": None}
    assert fault(tool, given) == ""
    taken = tool.bound(given).arguments
    want = {"name": "x", "count": 1, "price": 2.0, "colour": Colour.BLUE, "size": None, "tags": []}
    assert taken == want and type(taken["price"]) is float
    assert list(tools_of(Shop)) == ["buy", "rate"]


class NoHint:
    def put(self, value) -> None: ...  # type: ignore[no-untyped-def]


class Unreadable:
    def put(self, value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Unsayable:
    def put(self, value: range) -> None: ...


class Starred:
    def put(self, *values, **more) -> None: ...  # type: ignore[no-untyped-def]


class Yielding:
    def put(self, value: int) -> Iterator[int]:
        yield value


class AwaitedYielding:
    async def put(self, value: int) -> AsyncIterator[int]:
        yield value


class Silent:
    def _put(self) -> None: ...


class Circular:
    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.rows.append(self.rows)

    def put(self) -> None: ...


class Locked:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def put(self) -> None: ...


class Opaque:
    def __init__(self) -> None:
        self.draw = {"rng": random.Random(1)}

    def put(self) -> None: ...


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no database")

    def put(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            NoHint,
            r"class NoHint, method put, parameter value: it has no type hint\. Write one: str",
        ),
        (Unreadable, "class Unreadable, method put: its type hints cannot be read.*Missing"),
        (Unsayable, "class Unsayable, method put, parameter value: the hint .*range.* Use str"),
        (Starred, r"method put, parameter values: .*no type hint(?s:.*)parameter more: .*no type"),
        (Yielding, r"class Yielding, method put: it is a generator\. Return a list"),
        (AwaitedYielding, "class AwaitedYielding, method put: it is a generator"),
        (Silent, "class Silent: it has no public methods"),
        (Circular, r"Circular\.rows\[0\]: it holds itself \(circular state\).*by an id"),
        (Locked, "class Locked, attribute _lock: a lock cannot be copied.*its own copy"),
        (Opaque, r"Opaque\.draw\.rng: a Random has no plain form.*leading underscore"),
        (Broken, "class Broken: an object cannot be made: RuntimeError: no database"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_hosted_is_said_at_once(kind: type[Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ToolClasses("box", [kind])


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (Any, "Any"),
        (None, "None"),
        (type("Point", (), {}), "Point"),
        (list[type("Point", (), {})], "Point"),
        (typing.Callable[[], int], "Callable"),
        (typing.TypeVar("T"), "T"),
    ],
    ids=str,
)
def test_a_hint_without_schema_is_refused_by_name(hint: Any, shown: str) -> None:
    where = "class Box, method method, parameter value"
    with pytest.raises(ConfigError, match=rf"{where}: the hint .*{shown}.* has no tool schema"):
        schema_of(hint)


@pytest.mark.parametrize(
    "default", [object(), pydantic.Field(3), iter("a")], ids=lambda v: type(v).__name__
)
def test_a_default_that_is_no_json_is_refused_by_name(default: Any) -> None:
    with pytest.raises(ConfigError, match=r"value: its default .* cannot be said in JSON"):
        schema_of(str, default)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no classes were given"),
        ([Shop()], r"expected classes, got <.*\. Write Shop, not Shop\(\)"),
        ([Shop, plain], r"expected classes, got <function plain.*\. A function is none"),
        ([inspect], r"expected classes, got <module.*\. A module is none"),
        (["Shop"], r"expected classes, got 'Shop'\. A str is none"),
        ("Shop", r"expected classes, got 'Shop'\. A str is none"),
        (Shop, r"expected a list of classes\. Write \[Shop\]"),
    ],
)
def test_what_is_no_class_is_refused_with_what_to_write(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^environment 'market': {said}"):
        ToolClasses("market", given)


def test_tools_are_called_by_name_alone() -> None:
    class Stall:
        def buy(self) -> None: ...

        def sell(self) -> None: ...

    with pytest.raises(ConfigError, match="Shop and Stall both have a method buy"):
        ToolClasses("market", [Shop, Stall])
    with pytest.raises(ConfigError, match="two classes have one name"):
        ToolClasses("market", [Shop, Shop])
    with pytest.raises(ConfigError, match="no class has a method 'steal'"):
        ToolClasses("market", [Shop], hidden=["steal"])
    with pytest.raises(ConfigError, match=r"no class has a method 'by'\. Did you mean 'buy'"):
        ToolClasses("market", [Shop], hidden=["by"])
    assert "sell" not in tools_of(Stall, hidden=["sell"])


@dataclass
class Point:
    x: int
    y: int


class Board:
    shared: list[int] = []  # noqa: RUF012 (what users write)

    def __init__(self, points: dict[int, Point] | None = None, size: int = 3):
        self.points = points or {}
        self.size = size
        self.when = datetime.date(2026, 1, 2)
        self.marks: set[str] = set()
        self._hidden = random.Random(1)

    def look(self) -> None: ...


class Loaded:
    def __init__(self) -> None:
        self.rows: list[int] = []

    def load(self, config: dict[str, Any]) -> None:
        self.rows = [2 * row for row in config["rows"]]

    def look(self) -> None: ...


def test_state_is_public_attributes_as_plain_values() -> None:
    board = make(Board, {"points": {"7": {"x": 1, "y": 2}}, "marks": ["b", "a"]}, "task")
    assert board.points == {7: Point(1, 2)}
    board.marks = {"b", "a"}
    other = copied(board)
    assert plain_state(other) == {
        "points": {7: {"x": 1, "y": 2}},
        "size": 3,
        "when": "2026-01-02",
        "marks": ["a", "b"],
        "shared": [],
    }
    other.points[7].x, other.shared[:] = 5, [1]
    assert (board.points[7].x, Board.shared) == (1, [])
    assert plain_state(other) != plain_state(copied(board))


def test_a_loader_takes_the_configuration_and_is_no_tool() -> None:
    assert make(Loaded, {"rows": [1, 2]}, "task").rows == [2, 4]
    assert list(tools_of(Loaded)) == ["look"]


@pytest.mark.parametrize(
    ("kind", "config", "said"),
    [
        (Board, {"sise": 2}, r"task: world\.initial_config\.Board: .*'sise'.*Did you mean 'size'"),
        (Board, {"look": 2}, "no attribute 'look'"),
        (Board, {"points": {"a": {}}}, r"initial_config\.Board\.points\.a"),
        (Loaded, {}, "Loaded cannot be loaded: KeyError: rows"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(kind: Any, config: Any, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        make(kind, config, "task")


def test_state_that_becomes_circular_is_no_plain_value() -> None:
    board = Board()
    board.points = {1: board}  # type: ignore[dict-item]
    with pytest.raises(StateError, match=r"Board\.points\.1\.points.*circular|holds itself"):
        plain_state(board)
