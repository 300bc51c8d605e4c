"""What is known of failed calls of the benchmark's classes: which call or value would help.

Owns the table of errors and the choices that documentation tells in words. The file system has a
module of its own. It reads live objects and changes nothing; a clause that names a function which
is not offered in this turn is left out. What can be known of any tool is `rods.envs.hints`'s.

    hint_of(ToolCall("startEngine", {"ignitionMode": "START"}), said, apis, offered)
    # "lockDoors(unlock=False, door=['driver']) locks what is open."
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from rods.envs.bfcl.apis import Apis
from rods.envs.bfcl.file_hints import file_hint
from rods.envs.hints import quoted, value_hint
from rods.types import ToolCall, ToolSpec

_CALLED = re.compile(r"\b(\w+)\(")
_CHOICES = re.compile(r"(?:\[Enum\]:\s*\[?|[Oo]ptions are:\s*)([^\]]+)")
_LOGIN = r"not authenticated|currently logged in"
_UNKNOWN = re.compile(r"not found|Invalid stock|ot registered|No such")
"""Errors of a name that is not there: the nearest one helps."""

_ERRORS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "TravelAPI": (
        (r"[Tt]oken", "authenticate_travel() gives an access token"),
        (
            r"ard not registered|Balance not found",
            "get_all_credit_cards() lists the cards; register_credit_card() adds one",
        ),
        (r"already registered", "get_all_credit_cards() shows it"),
        (r"Booking not found", "get_booking_history() lists the bookings"),
        (
            r"Insufficient|less than budget",
            "get_credit_card_balance() says what a card holds; get_flight_cost() what a flight "
            "costs; get_all_credit_cards() lists other cards",
        ),
        (r"Exceeded budget", "set_budget_limit() sets another limit"),
        (r"travel class", "get_flight_cost() takes the classes 'economy', 'business' and 'first'"),
        (r"date format", "book_flight() takes dates as YYYY-MM-DD"),
    ),
    "VehicleControlAPI": (
        (r"[Bb]rake", "pressBrakePedal(pedalPosition=1) presses it fully"),
        (r"Fuel tank is empty", "fillFuelTank() fills it"),
        (r"tank capacity", "displayCarStatus(option='fuel') says what is in it; it holds 50"),
        (r"Start the engine", "startEngine(ignitionMode='START') starts it"),
        (r"404", "get_outside_temperature_from_google() has it"),
        (
            r"distance not found",
            "distances are between zip codes, of some pairs alone; get_zipcode_based_on_city() "
            "gives that of a city",
        ),
    ),
    "TradingBot": (
        (_LOGIN, "trading_login() logs in"),
        (
            r"in watchlist",
            "get_watchlist() shows what is in it; get_symbol_by_name() gives that of a company",
        ),
        (r"[Ss]tock.*symbol", "get_symbol_by_name() gives that of a company"),
        (r"Order with ID", "get_order_history() lists the orders"),
        (r"already completed", "get_order_details() shows it"),
        (r"Market is closed", "get_current_time() tells the time"),
        (
            r"[Ii]nsufficient",
            "get_account_info() shows the balance; fund_account() adds to it",
        ),
    ),
    "TicketAPI": (
        (_LOGIN, "ticket_login() logs in"),
        (r"Ticket with ID .* not found", "get_user_tickets() lists the tickets"),
        (r"already (closed|resolved)", "get_ticket() shows it"),
    ),
    "MessageAPI": (
        (_LOGIN, "message_login() logs a user in"),
        (
            r"Receiver ID",
            "list_users() lists the users; get_user_id() gives the ID of one; "
            "view_messages_sent() shows who was written to",
        ),
        (r"User.*(not found|already exists)", "list_users() lists the users"),
    ),
    "TwitterAPI": (
        (_LOGIN, "authenticate_twitter() logs in"),
        (
            r"Tweet with ID",
            "get_user_tweets() lists tweets with their IDs; search_tweets() finds some",
        ),
    ),
}
"""By class: what its error matches, and clauses that help, separated by semicolons."""


def hint_of(call: ToolCall, said: str, apis: Apis, offered: Mapping[str, ToolSpec]) -> str:
    """What would help after a failed call; nothing where that is not known."""
    function = apis.prototype.functions.get(call.name)
    api = None if function is None else apis.peek(function.owner)
    if function is None or api is None:
        return ""
    error = _error(said)
    if function.owner == "GorillaFileSystem":
        return file_hint(call, api, offered)
    clauses = _choice_clauses(call, offered[call.name])
    if function.owner == "TravelAPI" and re.search(r"airport code|No available route", error):
        clauses += _airport_clauses(call, api)
    if function.owner == "VehicleControlAPI" and "doors must be locked" in error:
        opened = [door for door, status in api.doorStatus.items() if status == "unlocked"]
        clauses += [f"lockDoors(unlock=False, door=[{quoted(opened)}]) locks what is open"]
    elif not clauses:
        rules = _ERRORS.get(function.owner, ())
        clauses += next((text.split("; ") for what, text in rules if re.search(what, error)), [])
    kept = [c for c in clauses if all(name in offered for name in _CALLED.findall(c))]
    if _UNKNOWN.search(error):
        state = {function.owner: apis.live_state(function.owner)}
        kept += filter(None, [value_hint(call, said, state).rstrip(".")])
    return f"{'; '.join(kept)}." if kept else ""


def _error(said: str) -> str:
    """The words of an error that a dictionary may hold."""
    try:
        found = json.loads(said)
    except ValueError:
        return said
    told = cast("dict[str, object]", found).get("error") if isinstance(found, dict) else None
    return said if told is None else str(told)


def _choice_clauses(call: ToolCall, spec: ToolSpec) -> list[str]:
    """Arguments that are not among what their documentation lists."""
    clauses: list[str] = []
    for name, value in call.arguments.items():
        told = _CHOICES.search(str(spec.properties.get(name, {}).get("description", "")))
        choices = [c.strip(" \"'.") for c in told[1].split(",")] if told else []
        values = value if isinstance(value, list) else [value]
        if choices and any(v not in choices for v in values):
            clauses.append(f"{name} is one of {quoted(choices, 24)}")
    return clauses


def _airport_clauses(call: ToolCall, api: Any) -> list[str]:
    """Codes that are none, or a pair without a route."""
    codes: list[str] = api.list_all_airports()
    pair = [str(call.arguments.get(name)) for name in ("travel_from", "travel_to")]
    wrong = [code for code in pair if code not in codes]
    if not wrong:
        return [f"there is no route from {pair[0]!r} to {pair[1]!r}, though both are airports"]
    return [
        f"not an airport code: {quoted(wrong)}",
        "list_all_airports() lists the codes",
        "get_nearest_airport_by_city() gives that of a city",
    ]
