"""The live API objects of one world: opened from bytes, called by name, compared by value.

Owns the safe execution of calls on the benchmark's classes. Never evaluates text, never uses global
state: every world gets objects of its own, fresh mutable defaults and its own random state.

    prototype = prototype_of(["MathAPI"], {}, long_context=False)
    Apis(prototype).run(ToolCall("add", {"a": 1, "b": 2}))   # ToolResult('{"result": 3}')
"""

from __future__ import annotations

import copy
import decimal
import functools
import importlib
import inspect
import json
import marshal
import math
import pickle
import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from rods.dialects.base import has_nested, mapped
from rods.envs.bfcl import assets
from rods.envs.judge import State
from rods.errors import TaskError
from rods.infra.dotted import nearest
from rods.types import ToolCall, ToolResult

CALL_ERRORS = (  # Errors of a benchmark function on a model's arguments: a failed call, no crash
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, StopIteration, TypeError, ValueError,
)  # fmt: skip

_STATELESS = frozenset({"MathAPI"})
_PRECISE = frozenset({"logarithm", "square_root"})
_READERS = """
pwd ls cd cat find wc sort grep du tail diff
list_users get_user_id message_get_login_status view_messages_sent search_messages
get_message_stats
posting_get_login_status get_tweet get_user_tweets search_tweets get_tweet_comments
get_user_stats list_all_following
ticket_get_login_status get_ticket get_user_tickets
trading_get_login_status get_current_time get_symbol_by_name get_stock_info get_order_details
get_account_info get_watchlist get_order_history get_transaction_history get_available_stocks
filter_stocks_by_price notify_price_change
travel_get_login_status get_budget_fiscal_year get_flight_cost get_credit_card_balance
get_all_credit_cards retrieve_invoice list_all_airports get_nearest_airport_by_city
contact_customer_support compute_exchange_rate verify_traveler_information get_booking_history
displayCarStatus check_tire_pressure find_nearest_tire_shop gallon_to_liter liter_to_gallon
get_zipcode_based_on_city estimate_distance estimate_drive_feasibility_by_mileage
get_outside_temperature_from_google get_outside_temperature_from_weather_com get_current_speed
display_log
"""
"""Functions that leave every public attribute as it is: no state is compared because of them."""
_READS = frozenset(_READERS.split())
_PRECISION_LIMIT = 4_000
_DIGITS_ERROR = (
    "Exceeds the limit (4300 digits) for integer string conversion; "
    "use sys.set_int_max_str_digits() to increase the limit"
)
_mpmath_lock = threading.RLock()


class Function(NamedTuple):
    """Facts about a function, known before it is called."""

    owner: str
    """Name of its class."""
    guard: Callable[[dict[str, Any]], None] | None
    """Raises on arguments that would keep the process busy for ever."""
    defaults: tuple[tuple[str, Any], ...]
    """Mutable defaults of the function, by parameter."""
    reads: bool
    """True if it leaves every public attribute as it is."""


Packed: TypeAlias = tuple[Callable[[bytes], dict[str, Any]], bytes]
"""Attributes of an object as bytes, and what makes new ones of them."""


def _packed(attributes: dict[str, Any]) -> Packed:
    """By `marshal`, which is faster, where all is plain data."""
    try:
        return marshal.loads, marshal.dumps(attributes)
    except ValueError:
        return pickle.loads, pickle.dumps(attributes, pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True, slots=True)
class Prototype:
    """Recipe of the API objects of one task: each opening shares nothing with another."""

    types: Mapping[str, type[Any]]
    packed: Mapping[str, Packed]
    """Attributes of each object in its initial state, without its random generator."""
    random_states: Mapping[str, Any]
    initial: Mapping[str, State]
    """Public state of each object at the start. Never handed out, never changed."""
    functions: Mapping[str, Function]
    """All public functions of the classes, by name."""

    def open(self, name: str) -> Any:
        """A fresh object of class `name` in its initial state."""
        api: Any = object.__new__(self.types[name])
        read, data = self.packed[name]
        api.__dict__ = read(data)
        state = self.random_states.get(name)
        if state is not None:
            # A new one would first seed itself, which takes longer than all else here.
            api._random = generator = random.Random.__new__(random.Random)
            generator.setstate(state)
        return api


def prototype_of(
    classes: Sequence[str],
    config: Mapping[str, object],
    *,
    long_context: bool,
    wheel: str = "",
    where: str = "task",
) -> Prototype:
    """Load every class's scenario once.

    Raises:
        TaskError: an unknown class, or a configuration that its class cannot load; names `where`.
    """
    types: dict[str, type[Any]] = {}
    packed: dict[str, Packed] = {}
    states: dict[str, Any] = {}
    initial: dict[str, State] = {}
    functions: dict[str, Function] = {}
    for name in classes:
        if name not in assets.CLASS_NAMES:
            raise TaskError(
                f"{where}: world.classes: there is no class {name!r}; expected some of "
                f"{', '.join(assets.CLASS_NAMES)}.{nearest(name, assets.CLASS_NAMES)}"
            )
        types[name] = kind = assets.api_class(name, wheel)
        try:
            api = kind()
            if name not in _STATELESS:
                api._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long_context)
            packed[name] = _packed({k: v for k, v in vars(api).items() if k != "_random"})
        except CALL_ERRORS as error:
            raise TaskError(
                f"{where}: world.initial_config.{name} cannot be loaded: "
                f"{type(error).__name__}: {error}."
            ) from error
        if isinstance(getattr(api, "_random", None), random.Random):
            states[name] = _one_of_equals(api._random.getstate())
        read, data = packed[name]
        initial[name] = {k: v for k, v in read(data).items() if k[0] != "_"}
        functions.update(_functions(kind))
    return Prototype(types, packed, states, initial, functions)


@functools.lru_cache(maxsize=256)
def _one_of_equals(random_state: object) -> object:
    """Most tasks have one of a few seeds: they need not each keep 20 KB of their own."""
    return random_state


@functools.cache
def _functions(kind: type[object]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            parameters = inspect.signature(function).parameters.values()
            given: list[tuple[str, Any]] = [(p.name, p.default) for p in parameters]
            mutable = tuple((k, v) for k, v in given if isinstance(v, list | dict | set))
            found[name] = Function(kind.__name__, _GUARDS.get(name), mutable, name in _READS)
    return found


class Apis:
    """The API objects of one world. An object is opened when it is first called."""

    __slots__ = ("_defaults", "_live", "initial", "prototype", "version")

    def __init__(self, prototype: Prototype):
        self.prototype, self.initial = prototype, prototype.initial
        self._live: dict[str, Any] = {}
        self._defaults: dict[tuple[str, str], Any] = {}
        self.version: dict[str, int] = {}
        """Number of changing calls to each class: equal versions, equal state."""

    def run(self, call: ToolCall, deep: bool | None = None) -> ToolResult:
        """Execute one call of a declared function and render its result as the benchmark does.

        `deep`: what `is_deep` says of it; None: it was not asked.
        """
        if deep is None:
            deep = is_deep(call)
        if call.name in _PRECISE or (deep and has_nested(call)):
            with _own_precision():
                return self._run(call, deep)
        return self._run(call, deep)

    def _run(self, call: ToolCall, deep: bool) -> ToolResult:
        try:
            result = self._invoke(call, deep)
            kind: type[Any] = type(result)
            if kind is dict:
                return ToolResult(json_text(result), "error" in result)
            return ToolResult(str(result), kind is list and _is_error(result))
        except CALL_ERRORS as error:
            return ToolResult(f"Error during execution: {error}", True)

    def _invoke(self, call: ToolCall, deep: bool) -> Any:
        function = self.prototype.functions.get(call.name)
        if function is None:
            raise NameError(f"name '{call.name}' is not defined")
        owner, guard, defaults, reads = function
        arguments: Any = call.arguments
        if deep or defaults:
            arguments = {name: mapped(value, self._nested) for name, value in arguments.items()}
        if guard is not None:
            guard(arguments)
        for name, default in defaults:
            if name not in arguments:
                # As a function's own default, one object for all calls; but of this world only.
                key = (call.name, name)
                if key not in self._defaults:
                    self._defaults[key] = copy.deepcopy(default)
                arguments[name] = self._defaults[key]
        api = self._live.get(owner)
        if api is None:
            api = self._live[owner] = self.prototype.open(owner)
        if not reads:
            self.version[owner] = self.version.get(owner, 0) + 1
        return getattr(api, call.name)(**arguments)

    def _nested(self, call: ToolCall) -> object:
        # A copy: some functions return a global of the benchmark's module in long context.
        return copy.deepcopy(self._invoke(call, deep=True))

    def live_state(self, name: str) -> State:
        """Public attributes of one class as they are now; they belong to the world, do not keep."""
        api = self._live.get(name)
        if api is None:
            return self.prototype.initial[name]
        return {k: v for k, v in vars(api).items() if k[0] != "_"}

    def peek(self, name: str) -> Any:
        """The object of one class to be looked at, never changed; None before its first call."""
        return self._live.get(name)

    def same(self, name: str, expected: State) -> bool:
        """True if every public attribute in `expected` has the same value here."""
        api = self._live.get(name)
        now = self.prototype.initial[name] if api is None else vars(api)
        try:
            return expected.items() <= now.items()
        except RecursionError:  # a folder that was copied into itself
            return False

    def unchanged(self, name: str, expected: State) -> bool:
        """True if a class has exactly these public attributes and values."""
        return self.live_state(name).keys() == expected.keys() and self.same(name, expected)

    def copy_state(self, name: str) -> State:
        """Public attributes of one class as values that share nothing with the world."""
        return pickle.loads(pickle.dumps(self.live_state(name), pickle.HIGHEST_PROTOCOL))


_DEEP = frozenset({ToolCall, list, dict})


def is_deep(call: ToolCall) -> bool:
    """True if some argument is more than one plain value."""
    return not _DEEP.isdisjoint(map(type, call.arguments.values()))


def _is_error(result: object) -> bool:
    if type(result) is list and len(result) == 1:  # some functions wrap their error in a list
        first = result[0]
        return _is_error(first) or (isinstance(first, str) and first.startswith("Error:"))
    return type(result) is dict and "error" in result


@contextmanager
def _own_precision() -> Generator[None]:
    """Undo what a call does to the process's precision of mpmath and decimal."""
    context = importlib.import_module("mpmath").mp  # has no type stubs; only needed here
    with _mpmath_lock, decimal.localcontext(decimal.Context()):
        before: int = context.dps
        try:
            yield
        finally:
            context.dps = before


def _guard_power(arguments: Mapping[str, object]) -> None:
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if not (isinstance(base, int) and isinstance(exponent, int)) or exponent <= 0 or abs(base) < 2:
        return
    if exponent * math.log10(abs(base)) > 5_000:  # such a result cannot be shown anyway
        raise ValueError(_DIGITS_ERROR)


def _guard_precision(arguments: Mapping[str, object]) -> None:
    for name in ("precision", "decimal_places"):
        value = arguments.get(name)
        if isinstance(value, int | float) and abs(value) > _PRECISION_LIMIT:
            raise ValueError(f"{name} must be at most {_PRECISION_LIMIT}, got {value}")


_GUARDS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "power": _guard_power,
    "logarithm": _guard_precision,
    "square_root": _guard_precision,
    "round_number": _guard_precision,
}
"""Arguments that would keep the process busy for ever or fill its memory fail at once."""


_LONG = 200  # Items from which a list's text is remembered
_write = json.JSONEncoder(check_circular=False).encode


def json_text(result: Mapping[object, object]) -> str:
    """Write a result as `json.dumps` does, or as `str` where that cannot."""
    values = result.values()
    try:
        # Long lists are the fillers of long context, which come again and again.
        long = list in map(type, values) and any(_is_long(value) for value in values)
        if not long or not all(type(key) is str for key in result):
            return _write(result)
        items = (f"{json.dumps(key)}: {_json_of(value)}" for key, value in result.items())
        return "{" + ", ".join(items) + "}"
    except (TypeError, ValueError, RecursionError):
        return str(result)


def _is_long(value: object) -> bool:
    return type(value) is list and len(value) >= _LONG


def _json_of(value: object) -> str:
    if type(value) is list and _is_long(value):
        with suppress(ValueError):  # something in it is not plain data
            return _text_of(marshal.dumps(value, 2))
    return json.dumps(value)


@functools.lru_cache(maxsize=64)
def _text_of(packed: bytes) -> str:
    """By the exact value: 1, 1.0 and True are equal but are written differently."""
    return json.dumps(marshal.loads(packed))
