"""New cities, airports, zip codes, tickers and companies, from the API's own tables.

Owns the rule that a flown route must exist, that a distance that is asked for must be known, and
that a city keeps its own airport and zip code, a company its own ticker. Never invents a place.

    assign_places(sketch, values, pinned=frozenset(), legs=..., spans=..., rng=rng)
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Set

from rods.synthesis.structure.domains import Domains
from rods.synthesis.writers.resample.sketch import PLACES, New, Sketch

ATTEMPTS = 40
"""Draws of a whole set of places before the old ones are kept."""


def assign_places(
    sketch: Sketch,
    values: list[New],
    pinned: Set[str],
    legs: Set[tuple[str, str]],
    spans: Set[tuple[str, str]],
    rng: random.Random,
) -> None:
    """Fill the slots of places and tickers in `values`; what cannot move stays None."""
    if not any(kind in PLACES for kind, _ in sketch.slots):
        return
    cities = _cities(sketch, pinned, legs, spans, rng)
    tickers = _tickers(sketch, pinned, rng)
    domains = sketch.domains
    companies = {code: name for name, code in domains.companies.items()}
    by_code = {code: city for city, code in domains.airports.items()}
    by_zip = {code: city for city, code in domains.zips.items()}
    for index, (kind, key) in enumerate(sketch.slots):
        if kind == "city":
            values[index] = cities.get(key)
        elif kind == "airport":
            new = cities.get(by_code.get(key, ""))
            values[index] = domains.airports.get(new) if new else None
        elif kind == "zip":
            new = cities.get(by_zip.get(key, ""))
            values[index] = domains.zips.get(new) if new else None
        elif kind == "symbol":
            values[index] = tickers.get(key)
        elif kind == "company":
            values[index] = companies.get(tickers.get(domains.companies.get(key, ""), ""))


def _cities(
    sketch: Sketch,
    pinned: Set[str],
    legs: Set[tuple[str, str]],
    spans: Set[tuple[str, str]],
    rng: random.Random,
) -> Mapping[str, str]:
    """Old city to new city, one to one, for the cities that the task knows by any name."""
    domains = sketch.domains
    old, needs_code, needs_zip = _old_cities(sketch)
    fixed = {c for c in old if _names(domains, c) & pinned}
    pool = sorted({*domains.airports, *domains.zips})
    moving = sorted(old - fixed)
    for _ in range(ATTEMPTS):
        fresh = rng.sample(pool, len(moving)) if len(moving) <= len(pool) else []
        choice = dict(zip(moving, fresh, strict=False)) | {city: city for city in fixed}
        if len(choice) < len(old) or len(set(choice.values())) < len(old):
            continue
        tables = all(choice[c] in domains.airports for c in needs_code) and all(
            choice[c] in domains.zips for c in needs_zip
        )
        if tables and _reachable(domains, domains.airports, choice, legs, spans):
            return {city: new for city, new in choice.items() if city not in fixed}
    return _by_route(sketch, old, fixed, needs_zip, legs, spans, rng)


def _old_cities(sketch: Sketch) -> tuple[set[str], set[str], set[str]]:
    domains = sketch.domains
    by_code = {code: city for city, code in domains.airports.items()}
    by_zip = {code: city for city, code in domains.zips.items()}
    needs_code = {by_code[k] for kind, k in sketch.slots if kind == "airport" and k in by_code}
    needs_zip = {by_zip[k] for kind, k in sketch.slots if kind == "zip" and k in by_zip}
    named = {
        k
        for kind, k in sketch.slots
        if kind == "city" and (k in domains.airports or k in domains.zips)
    }
    classes = sketch.task.world.get("classes", [])
    if isinstance(classes, list) and "TravelAPI" in classes:
        needs_code |= {c for c in named if c in domains.airports}
    elif isinstance(classes, list) and "VehicleControlAPI" in classes:
        needs_zip |= {c for c in named if c in domains.zips}
    return named | needs_code | needs_zip, needs_code, needs_zip


def _names(domains: Domains, city: str) -> set[str]:
    return {city, domains.airports.get(city, city), domains.zips.get(city, city)}


def _reachable(
    domains: Domains,
    codes: Mapping[str, str],
    choice: Mapping[str, str],
    legs: Set[tuple[str, str]],
    spans: Set[tuple[str, str]],
) -> bool:
    by_code = {code: city for city, code in codes.items()}
    by_zip = {code: city for city, code in domains.zips.items()}

    def code_of(old: str) -> str:
        city = by_code.get(old, "")
        return codes.get(choice.get(city, city), old)

    def zip_of(old: str) -> str:
        city = by_zip.get(old, "")
        return domains.zips.get(choice.get(city, city), old)

    known = domains.distances
    return all((code_of(a), code_of(b)) in domains.routes for a, b in legs) and all(
        (zip_of(a), zip_of(b)) in known or (zip_of(b), zip_of(a)) in known for a, b in spans
    )


def _by_route(
    sketch: Sketch,
    old: set[str],
    fixed: set[str],
    needs_zip: set[str],
    legs: Set[tuple[str, str]],
    spans: Set[tuple[str, str]],
    rng: random.Random,
) -> Mapping[str, str]:
    """Draw one existing route or distance and move the cities of one leg to it."""
    domains = sketch.domains
    by_zip = {code: city for city, code in domains.zips.items()}
    by_code = {code: city for city, code in domains.airports.items()}
    pairs = [(by_code, leg, sorted(domains.routes)) for leg in sorted(legs)]
    pairs += [(by_zip, span, sorted(domains.distances)) for span in sorted(spans)]
    if not pairs:
        return {}
    table, (a, b), routes = pairs[0]
    for _ in range(ATTEMPTS):
        route = rng.choice(routes)
        ends = route if table is by_code or rng.random() < 0.5 else (route[1], route[0])
        if a not in table or b not in table or ends[0] not in table or ends[1] not in table:
            continue
        choice = {table[a]: table[ends[0]], table[b]: table[ends[1]]}
        rest = sorted(old - choice.keys() - fixed)
        others = sorted({*domains.airports, *domains.zips} - set(choice.values()) - fixed)
        choice |= dict(zip(rest, rng.sample(others, min(len(rest), len(others))), strict=False))
        clash = fixed & (choice.keys() | set(choice.values()))
        fits = all(choice.get(c, c) in domains.zips for c in needs_zip)
        full = choice | {city: city for city in fixed}
        if not clash and fits and _reachable(domains, domains.airports, full, legs, spans):
            return choice
    return {}


def _tickers(sketch: Sketch, pinned: Set[str], rng: random.Random) -> Mapping[str, str]:
    """Old ticker to new: known ones are permuted, unknown ones get a fresh code."""
    domains = sketch.domains
    table = set(domains.companies.values())
    slots = {k for kind, k in sketch.slots if kind == "symbol"}
    slots |= {domains.companies[k] for kind, k in sketch.slots if kind == "company"}
    known = sorted((slots & table) - pinned)
    free = sorted(table - pinned)
    result = dict(zip(known, rng.sample(free, len(known)), strict=True)) if known else {}
    if known and slots >= set(free):
        shuffled = list(known)
        rng.shuffle(shuffled)
        result = dict(zip(known, shuffled, strict=True))
    for code in sorted(slots - table - pinned):
        if 2 <= len(code) <= 5 and code.isupper():
            count = rng.choice((3, 4, 4))
            result[code] = "".join(rng.choice(string.ascii_uppercase) for _ in range(count))
    return result
