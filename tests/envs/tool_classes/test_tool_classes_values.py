"""Values in the state of hosted classes: each is compared and shown, or refused by name."""

from __future__ import annotations

import argparse
import array
import collections
import collections.abc
import copy
import dataclasses
import datetime
import decimal
import email.message
import enum
import fractions
import http.cookies
import importlib
import ipaddress
import itertools
import pathlib
import random
import re
import sys
import threading
import types
import uuid
import weakref
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

from rods.envs.tool_classes import ToolClasses, state
from rods.envs.tool_classes.state import plain, plain_state
from rods.errors import ConfigError, EnvError
from rods.evaluation.check import check_tasks
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, ToolResult


class Kind(enum.Enum):
    ONE, TWO = 1, 2


class Light(enum.Enum):
    """Members that stand for nothing but themselves."""

    RED, GREEN = object(), object()


@dataclasses.dataclass
class Dog:
    age: int


@dataclasses.dataclass
class Cat:
    age: int


class Open:
    """A state without attributes."""


class Closed(Open):
    pass


class Slotted:
    __slots__ = ("age",)

    def __init__(self, age: int):
        self.age = age


class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


class Terse(decimal.Decimal):
    def __str__(self) -> str:
        return "some money"


class Vault:
    """State of any kind, which a call replaces; nothing is returned."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def put(self, which: str) -> None:
        """Put a value in."""
        self.held = VALUES[int(which)]


def ip(text: str) -> Any:
    return ipaddress.ip_interface(text) if "/" in text else ipaddress.ip_address(text)


def zone(hours: int) -> Any:
    return datetime.timezone(datetime.timedelta(hours=hours), "office")


PAIRS: list[tuple[Any, Any]] = [
    (np.int64(95), np.int64(5)),
    (np.float32(0.5), np.float32(0.25)),
    (np.bool_(True), np.bool_(False)),
    (np.str_("a"), np.str_("b")),
    (np.complex64(1j), np.complex64(2j)),
    (np.longdouble(1), np.longdouble(2)),
    (np.datetime64("2026-01-01T00:00:00.1"), np.datetime64("2026-01-01T00:00:00.2")),
    (np.timedelta64(5, "D"), np.timedelta64(5, "h")),
    (np.timedelta64(1, "Y"), np.timedelta64(1, "M")),
    (np.arange(3), np.zeros(3)),
    (np.ones((2, 2)), np.eye(2)),
    (np.array(1), np.array(2)),
    (np.array(["2026-01-01"], "M8[ns]"), np.array(["2026-01-02"], "M8[ns]")),
    (datetime.timedelta(1), datetime.timedelta(2)),
    (datetime.datetime(2026, 1, 1, 2), datetime.datetime(2026, 1, 1, 3)),
    (datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))),
    (zoneinfo.ZoneInfo("UTC"), zoneinfo.ZoneInfo("Europe/Zurich")),
    (fractions.Fraction(1, 3), fractions.Fraction(1, 4)),
    (Terse("1.5"), Terse("2.5")),
    (1j, 2j),
    (uuid.UUID(int=1), uuid.UUID(int=2)),
    (pathlib.Path("a"), pathlib.Path("b")),
    (range(3), range(4)),
    (ip("1.2.3.4"), ip("1.2.3.5")),
    (ip("1.2.3.4/24"), ip("1.2.3.4/25")),
    (ip("::1"), ip("::2")),
    (ipaddress.ip_network("1.2.3.0/24"), ipaddress.ip_network("1.2.3.0/25")),
    (re.compile("a"), re.compile("b")),
    (re.compile("a"), re.compile("a", re.IGNORECASE)),
    (b"a", b"b"),
    (bytearray(b"a"), bytearray(b"b")),
    (array.array("i", [1]), array.array("i", [2])),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    (argparse.Namespace(a=1), argparse.Namespace(a=2)),
    (collections.UserDict(a=1), collections.UserDict(a=2)),
    (collections.UserList([1]), collections.UserList([2])),
    (zone(1), zone(2)),
    (Kind.ONE, Kind.TWO),
    (Light.RED, Light.GREEN),
    (Dog(1), Dog(2)),
    (Dog(1), Cat(1)),
    ([Dog(1)], [Cat(1)]),
    (Open(), Closed()),
    (Slotted(1), Slotted(2)),
    (Extra(a=1), Extra(a=2)),  # pyright: ignore[reportCallIssue]
    ({np.int64(1): "a"}, {np.int64(2): "a"}),
    ({ip("1.2.3.4"): 1}, {ip("1.2.3.5"): 1}),
    ({datetime.timedelta(1): 1}, {datetime.timedelta(2): 1}),
    ({np.int64(1), np.int64(2)}, {np.int64(1), np.int64(3)}),
]
VALUES = [value for pair in PAIRS for value in pair]


@pytest.mark.parametrize(
    "which", range(len(PAIRS)), ids=[repr(one).split(" at 0x")[0][:40] for one, _ in PAIRS]
)
def test_two_values_that_differ_are_never_equal(which: int) -> None:
    environment = ToolClasses("vault", [Vault])
    right, wrong = (ToolCall("put", {"which": str(2 * which + more)}) for more in (0, 1))
    origin = Provenance("vault_0", "vault_0")
    task = Task("vault", "base", (Turn("put", (right,)),), {"classes": ["Vault"]}, origin)
    assert check_tasks([task], environment).ok
    for call, solved in ((right, True), (wrong, False)):
        world = environment.open(task)
        world.begin_turn(0)
        assert world.call(call).content == "null"
        assert world.end_turn().solved is solved


class Hidden:
    def __init__(self) -> None:
        self._balance = 3


class Sealed(pydantic.BaseModel):
    _balance: int = pydantic.PrivateAttr(3)


class Cents(int):
    _currency = ""


class Money(decimal.Decimal):
    currency = ""


class Basket(list[int]):
    owner = ""


def graph(*edges: tuple[int, int]) -> Any:
    """As those of networkx: a class of a library whose contents are private."""
    made = email.message.EmailMessage()
    for one, other in edges:
        made[f"X-{one}"] = str(other)
    return made


class Ledger(collections.UserDict[str, int]):
    owner = ""


class Shelf(collections.abc.Mapping[str, int]):
    """A mapping of the user's own; what it holds is private, whose it is is not."""

    def __init__(self) -> None:
        self._books = {"a": 1}
        self.owner = "ann"

    def __getitem__(self, key: str) -> int:
        return self._books[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._books)

    def __len__(self) -> int:
        return len(self._books)


def cookie() -> Any:
    made = http.cookies.SimpleCookie()
    made["a"] = "1"
    return made


def owned(kind: Any, name: str) -> Any:
    made = kind()
    setattr(made, name, "ann")
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            Hidden(),
            "a Hidden has no plain form.{,60}Keep objects .* with only public attributes",
        ),
        (graph((1, 2)), "a EmailMessage has no plain form"),
        (owned(Ledger, "owner"), r"Box\.held: a Ledger is a Mapping with .*\(owner\)"),
        (Shelf(), r"Box\.held: a Shelf is a Mapping with .*\(owner\)"),
        (cookie(), r"Box\.held\.a: a Morsel is a dict with .*\(_coded_value, _key, _value\)"),
        (weakref.WeakValueDictionary({"a": Hidden}), "has no plain form|attributes of its own"),
        ([{"a": Hidden()}], r"Box\.held\[0\]\.a: a Hidden has no plain form"),
        (Sealed(), r"Box\.held: a Sealed has no plain form"),
        (owned(Money, "_currency"), r"Box\.held: a Money is a Decimal with .*\(_currency\)"),
        (owned(Cents, "_currency"), r"Box\.held: a Cents is a int with .*\(_currency\)"),
        (owned(Basket, "_owner"), r"Box\.held: a Basket is a list with .*\(_owner\)"),
        (owned(Money, "currency"), r"Box\.held: a Money is a Decimal with .*\(currency\)"),
        (owned(Basket, "owner"), r"Box\.held: a Basket is a list with .*\(owner\)"),
        (random.Random(1), "a Random has no plain form"),
        (object(), "a object has no plain form"),
        (re.match("a", "a"), "a Match has no plain form"),
        (np.ma.masked_array([1], [True]), "a MaskedArray has no plain form"),  # type: ignore[no-untyped-call]
        (np.zeros(1, [("a", int)]), r"held\[0\]: a void has no plain form"),
        (slice(1, 2), "a slice has no plain form"),
        ({(1, "a"): 1, ("1", "a"): 2}, "two of its keys have the same text"),
        ({Hidden(): 1}, "a key of type Hidden"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_compared_is_refused_at_once(value: Any, said: str) -> None:
    class Box:
        def __init__(self) -> None:
            self.held = value

        def put(self) -> None: ...

    with pytest.raises(ConfigError, match=said):
        ToolClasses("box", [Box])


class Late:
    """State that cannot be compared: at a start that tasks give, after a call, in a result."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.held: Any = Hidden() if owner == "nobody" else None

    def keep(self) -> None:
        self.held = [{"a": Hidden()}]

    def give(self) -> dict[str, Any]:
        return {"a": Hidden()}


@pytest.mark.parametrize(
    ("owner", "call", "said"),
    [
        ("nobody", "give", "Late.held: a Hidden has no plain form"),
        ("ann", "keep", "Late.held[0].a: a Hidden has no plain form"),
        ("ann", "give", "the result of Late.give.a: a Hidden has no plain form"),
    ],
)
def test_rods_check_names_what_cannot_be_compared_wherever_it_appears(
    owner: str, call: str, said: str
) -> None:
    world: Any = {"classes": ["Late"], "initial_config": {"Late": {"owner": owner}}}
    origin = Provenance("late_0", "late_0")
    task = Task("late", "base", (Turn("go", (ToolCall(call),)),), world, origin)
    report = check_tasks([task], ToolClasses("late", [Late]))
    assert not report.ok
    assert [said in row.detail for row in report.rows if row.finding == "unreachable"] == [True]


class Till:
    """Keeps its state on the class, where no world has its own."""

    balance = 100

    def pay(self, count: int) -> None:
        Till.balance -= count


class BigTill(Till):
    """Keeps it on the class from which it derives."""


class Payer:
    """Keeps it on another class of the world."""

    def pay(self, count: int) -> None:
        Bank.held += count


class Bank:
    held = 0

    def ask(self) -> int:
        return Bank.held


class Account:
    paid: list[int] = []  # noqa: RUF012


class Book:
    """Keeps it in containers on the classes of what it holds."""

    def __init__(self) -> None:
        self.account: Account | None = Account()

    def pay(self, count: int) -> None:
        assert self.account
        self.account.paid.append(count)


class LateBook(Book):
    """Makes what it holds when it is called."""

    def __init__(self) -> None:
        self.account = None

    def pay(self, count: int) -> None:
        self.account = Account()
        super().pay(count)


class Summed:
    """Keeps it in a container on a class within its own."""

    class Row:
        sums: dict[str, int] = {}  # noqa: RUF012

    def pay(self, count: int) -> None:
        self.Row.sums["all"] = count


class Listed:
    """Keeps it in a container of its own, which it names by the class."""

    paid: list[int] = []  # noqa: RUF012

    def pay(self, count: int) -> None:
        Listed.paid.append(count)


class Nested:
    """Keeps it in a record of a container on the class."""

    accounts: dict[str, dict[str, Any]] = {"M-1": {"paid": [], "fine": 5}}  # noqa: RUF012

    def pay(self, count: int) -> None:
        Nested.accounts["M-1"]["fine"] -= count
        Nested.accounts["M-1"]["paid"].append(count)


class Purse:
    def __init__(self) -> None:
        self.cents = 100


class Held:
    """Keeps it in an object on the class, in a pair there, and in an array; reached by `self`."""

    purse = Purse()
    pair = (Purse(), [1])
    counts = np.zeros(2)

    def pay(self, count: int) -> None:
        self.purse.cents -= count


class Paired(Held):
    def pay(self, count: int) -> None:
        self.pair[1].append(count)


class Counted(Held):
    def pay(self, count: int) -> None:
        self.counts[0] += count


class Opened:
    """Adds an attribute to its class."""

    def pay(self, count: int) -> None:
        Opened.paid = count  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        ([Till], "Till.balance"),
        ([BigTill], "Till.balance"),
        ([Payer, Bank], "Bank.held"),
        ([Book], "Account.paid"),
        ([LateBook], "Account.paid"),
        ([Summed], "Row.sums"),
        ([Listed], "Listed.paid"),
        ([Nested], "Nested.accounts"),
        ([Held], "Held.purse"),
        ([Paired], "Held.pair"),
        ([Counted], "Held.counts"),
        ([Opened], "Opened.paid"),
    ],
    ids=lambda value: value[0].__name__ if isinstance(value, list) else value,
)
def test_state_that_worlds_would_share_is_named_by_rods_check(
    kinds: list[type[Any]], named: str
) -> None:
    world: Any = {"classes": [kind.__name__ for kind in kinds]}
    pay = ToolCall("pay", {"count": 5})
    task = Task("till", "base", (Turn("pay 5", (pay,)),), world, Provenance("t", "t"))
    environment = ToolClasses("till", kinds)
    report = check_tasks([task], environment)
    assert not report.ok
    assert any(f"{named}: pay changed it on the class" in row.detail for row in report.rows)
    require_undone()


def require_undone() -> None:
    assert (Till.balance, Bank.held) == (100, 0)
    assert Account.paid == Listed.paid == [] and Summed.Row.sums == {}
    assert Nested.accounts == {"M-1": {"paid": [], "fine": 5}}
    assert (Held.purse.cents, Held.pair[1], Held.counts[0]) == (100, [1], 0)
    assert "paid" not in vars(Opened)


class Refusing:
    """Changes another class, then raises."""

    def pay(self, count: int) -> None:
        Bank.held += count
        raise ValueError(f"{count} is too much")


def test_what_a_call_that_raises_did_to_a_class_is_undone() -> None:
    world: Any = {"classes": ["Refusing"]}
    task = Task("till", "base", (Turn("pay"),), world, Provenance("t", "t"))
    opened = ToolClasses("till", [Refusing]).open(task)
    opened.begin_turn(0)
    assert "5 is too much" in opened.call(ToolCall("pay", {"count": 5})).content
    require_undone()


class Described:
    """Has containers on the class whose copies are not equal to them, and changes none."""

    class Shelf:
        locks = [threading.Lock()]  # noqa: RUF012

    shelves = [Shelf()]  # noqa: RUF012
    weights = {"A": np.array([1.0, float("nan")])}  # noqa: RUF012

    def look(self) -> int:
        return len(Described.shelves)


def test_containers_on_a_class_that_have_no_equal_copy_are_no_change() -> None:
    task = Task("shelf", "base", (Turn("look"),), {"classes": ["Described"]}, Provenance("t", "t"))
    opened = ToolClasses("shelf", [Described]).open(task)
    opened.begin_turn(0)
    assert opened.call(ToolCall("look")) == ToolResult("1")


class Numbered:
    """Numbers and draws from the class, as people write it; each world has its own."""

    _ids = itertools.count(1)
    _chance = random.Random(7)

    def __init__(self) -> None:
        self.tickets: list[list[int]] = []

    def pay(self, count: int) -> list[int]:
        self.tickets.append([next(self._ids), self._chance.randrange(10**9), count])
        return self.tickets[-1]


@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")
def test_worlds_have_counters_and_generators_of_the_class_for_themselves() -> None:
    world: Any = {"classes": ["Numbered"]}
    pay = ToolCall("pay", {"count": 5})
    task = Task("till", "base", (Turn("pay 5", (pay, pay)),), world, Provenance("t", "t"))
    environment = ToolClasses("till", [Numbered])
    assert check_tasks([task], environment).ok
    opened = environment.open(task)
    opened.begin_turn(0)
    assert opened.call(pay).content.startswith("[1, ")


class Store(dict[str, int]):
    def put(self, key: str) -> None: ...


class Rows(list[int]):
    def put(self, key: str) -> None: ...


@pytest.mark.parametrize("kind", [Store, Rows])
def test_a_class_whose_contents_are_no_attributes_is_refused(kind: type[Any]) -> None:
    with pytest.raises(ConfigError, match=f"class {kind.__name__}: .*Hold them in an attribute"):
        ToolClasses("store", [kind])


class Purse:
    def __init__(self) -> None:
        self._coins = 3

    def pay(self, count: int) -> None:
        self._coins -= count


def test_a_class_without_public_state_is_named(caplog: pytest.LogCaptureFixture) -> None:
    ToolClasses("purse", [Purse])
    assert "class Purse: all its attributes begin with an underscore" in caplog.text


def test_objects_of_two_classes_are_never_equal() -> None:
    one, other = plain(Dog(1), "x"), plain(Cat(1), "x")
    assert one != other and one not in [other]
    assert one == {"age": 1} == other, "a mere dictionary has no class"
    assert copy.deepcopy(one) == one and copy.deepcopy(one) != other


def test_sets_of_objects_have_one_order() -> None:
    ones = [plain({frozenset([name, 1]) for name in names}, "x") for names in ("abc", "cba")]
    assert ones[0] == ones[1]


class Notes:
    def __init__(self) -> None:
        self.held: Any = None

    def echo(self, content: dict[str, Any]) -> dict[str, Any]:
        return content

    def keep(self, content: dict[str, Any]) -> None:
        self.held = content


@pytest.mark.parametrize(
    ("depth", "fits"), [(100, True), (200, False), (600, False), (3000, False)]
)
def test_a_deep_value_is_a_failed_call_or_another_state_and_breaks_nothing(
    depth: int, fits: bool
) -> None:
    content: Any = {}
    for _ in range(depth):
        content = {"a": content}
    environment = ToolClasses("notes", [Notes])
    truth = ToolCall("keep", {"content": {}})
    origin = Provenance("notes_0", "notes_0")
    world = environment.open(
        Task("notes", "base", (Turn("keep", (truth,)),), {"classes": ["Notes"]}, origin)
    )
    world.begin_turn(0)
    assert world.call(ToolCall("echo", {"content": content})).failed is not fits
    world.call(ToolCall("keep", {"content": content}))
    assert not world.end_turn().solved


LIBRARY = """
import datetime

class Graph:
    def __init__(self, *edges):
        self.graph, self._edges = {}, list(edges)

class Exact(datetime.timedelta):
    nanoseconds = 0
    def __str__(self):
        return f"{super().__str__()} and {self.nanoseconds} ns"

class Desk:
    def __init__(self):
        self.held = Graph()
    def put(self):
        self.held = Graph((1, 2))
"""


def test_private_attributes_count_where_a_library_chose_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "networks.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    networks: Any = importlib.import_module("networks")
    one, other = networks.Exact(1), networks.Exact(1)
    one.__class__.nanoseconds = 5
    assert plain(networks.Graph((1, 2)), "x") == {"graph": {}}, "a module of the user's"
    assert plain(one, "x") == "P1D"
    monkeypatch.setattr(state, "_LIBRARIES", (str(tmp_path),))
    with pytest.raises(EnvError, match="x: a Graph has no plain form"):
        plain(networks.Graph((1, 2)), "x")
    assert plain(other, "x") == "1 day, 0:00:00 and 5 ns"
    assert plain_state(networks.Desk()) == {"held": {"graph": {}}}, "installed with the tools"
    ToolClasses("desk", [networks.Desk])
    monkeypatch.delitem(sys.modules, "networks")
