"""Cautious wordings: a description's whole first sentence, and a list of what it has no place for.

Nothing is cut and nothing is guessed, so that a request reads well for a class that nobody knows.

    cautious(spec).say                   # ("finalize the adoption of {animal_id} ({adopter_id})",)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from rods.infra.files import toml_of
from rods.synthesis.structure.words import article, noun, order_of, patterns, thing
from rods.types import ToolSpec, json_choices, json_type
from rods.writers.templates.nouns import about_of, moments
from rods.writers.templates.wording import Wording

_WHERE = ("writers", "templates", "cautious.toml")
_DATA = toml_of(*_WHERE)
_LISTS = {name: frozenset(text.split()) for name, text in _DATA["lists"].items()}
_P, _UNSURE = patterns(*_WHERE), patterns(*_WHERE, table="unsure")
_D = patterns("writers", "templates", "described.toml")
LONGEST = 18  # Words of a sentence


def cautious(spec: ToolSpec, given: Collection[str] = ()) -> Wording:
    """Templates for a call with these arguments, and with all that are required.

    A value stands in the sentence only where the sentence names its thing: `put an animal on hold`
    becomes `put {animal_id} on hold`. All other values follow in brackets, each with a label.
    """
    say, schemas = _sentence(spec), spec.properties
    names = [name for name in schemas if name in spec.required or name in given]
    nouns = {name: _label(name, spec, say) for name in names}
    named, opened = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    placed = {name: found for name in names if (found := _place(name, spec, say))}
    spans = [found.span("whole") for found in placed.values()]
    placed = {name: p for name, p in placed.items() if spans.count(p.span("whole")) == 1}
    for name, found in sorted(placed.items(), key=lambda item: -item[1].start("whole")):
        named[name], nouns[name] = (_form(found),), found["noun"]
        opened |= {} if found["whole"].startswith("the ") else {name: (found["whole"],)}
        say = f"{say[: found.start('whole')]}{{{name}}}{say[found.end('whole') :]}"
    rest = [name for name in names if name not in placed]
    named |= {name: (_item(name, nouns[name], schemas[name]),) for name in rest}
    say += f" ({', '.join(f'{{{name}}}' for name in rest)})" if rest else ""
    choices = {name: [*map(str, json_choices(schemas[name]) or ())] for name in names}
    words = {n: {v: v.replace("_", " ") for v in choices[n]} for n in names}  # flat tyre
    plain = (n for n, p in placed.items() if noun(n) == thing(n) or p.groupdict().get("extra"))
    kept: dict[str, Any] = {"open": opened, "drop": frozenset(rest), "nouns": nouns}
    return Wording((say,), words=words, named=named, firm=frozenset(plain), described=True, **kept)


def unsure(spec: ToolSpec, given: Collection[str] = ()) -> str:
    """Why a tool is not asked for by its description; empty where that is safe."""
    say = _sentence(spec)
    words = say.split()
    verb, own = words[0], noun(spec.name).split()[0]
    sure = {*words[1:2]} & _LISTS["articles"] and not _P["no_verb"].match(say)
    sure = sure or (verb == own and verb not in map(thing, spec.properties))
    if verb not in _LISTS["verbs"] and not sure:
        return f"its description does not begin with a verb (`{verb}`)"
    for reason, pattern in _UNSURE.items():
        if found := pattern.search(say):
            return reason.format(found[0].strip())
    if not 2 <= len(words) <= LONGEST:
        return f"its description has {len(words)} words"
    listed, wanted = list[str](), [n for n in spec.properties if n in spec.required or n in given]
    if (named := _P["given"].search(say)) and named[1] not in map(thing, wanted):
        return f"`{named[0]}` would be missing"
    for name in wanted:
        if json_type(spec.properties[name]) not in ("string", "integer", "number"):
            return f"`{name}` is neither a text nor a number"
        if not _place(name, spec, say):
            listed.append(_label(name, spec, say))
            if why := _unclear(name, listed[-1], spec, say):
                return why
    twice = [label for label in listed if listed.count(label) > 1]
    return f"`{twice[0]}` occurs twice" if twice else ""


def _unclear(name: str, label: str, spec: ToolSpec, say: str) -> str:
    """Why nobody would understand a value with this label; empty where it is clear."""
    verb, number = say.split()[0], _is_number(spec.properties[name])
    vague = label in _LISTS["vague"] and label not in say.split()
    if vague or _P["bad_label"].search(label):
        return f"`{label}` does not say what `{name}` is"
    if verb in _LISTS["amounts"] and number and not _P["more"].search(label):
        return f"`{verb}` leaves open whether `{name}` is a difference"
    if verb in _LISTS["exchanges"] and f" {label}" in say:  # or it would be a new one
        return f"`{name}` may be what is there or what is new"
    return ""


def _sentence(spec: ToolSpec) -> str:
    """A tool's order without what a program gets or may be given besides."""
    say = order_of(spec)
    for name in ("aside", "based", "by_code"):
        say = _D[name].sub("", say)
    say = _D["plain"].sub(lambda m: article(m[1]) + " ", _P["then"].sub("", say))
    by = _P["by"].search(say)
    listed = re.split(", and |, | and | or ", _P["article"].sub("", by[1])) if by else ()
    say = say[: by.start()] if by and {*listed} <= {*map(thing, spec.properties)} else say
    return _P["tell"].sub("tell me ", say)


def _place(name: str, spec: ToolSpec, say: str) -> re.Match[str] | None:
    """Where the sentence names the thing of an argument, once and with an article; None without.

    `a kennel` is no place for where an animal stays if it is moved to `another kennel`.
    """
    schema, what, verb = spec.properties[name], thing(name), say.split()[0]
    if name not in spec.required or json_choices(schema):
        return None
    side, _, rest = what.partition(" ")
    toward = bool(rest) and side in _LISTS["directions"]
    what, form = (rest, "toward") if toward else (what, "one")
    if _is_number(schema):
        what, form = noun(name), "many"
    elif (
        json_type(schema) not in ("string", "")
        or len(re.findall(rf"\b{re.escape(what)}\b", say)) != 1
    ):
        return None
    elif moments(schema) or what in _LISTS["days"]:
        form = "moment"
    found = re.search(_P[form].pattern.replace("NOUN", re.escape(what)), say)
    joined = found and re.match(r" (?:and|or) (\w+)", say[found.end("whole") :])
    if joined and joined[1] in map(thing, spec.properties):
        return None  # free at a given day and time
    if found is None or form != "one":
        return found
    # `replace the speaker sp2 of a talk` asks for another effect where sp2 is the new one.
    which = noun(name) != thing(name) and (len(spec.required) == 1 or verb in _LISTS["amounts"])
    changed = verb in _LISTS["changes"] and found.start() == len(verb) + 1 and not which
    return None if changed or _P["fresh"].search(f"{found[0]} {about_of(schema)}") else found


def _is_number(schema: Mapping[str, object]) -> bool:
    return json_type(schema) in ("integer", "number")


def _form(found: re.Match[str]) -> str:
    """The noun phrase around a value: `the room {}`, `{} minutes`, `{}` behind `on`."""
    groups = found.groupdict()
    if "count" in groups:
        return f"{{}} {found['noun']}"
    return "{}" if "when" in groups else f"the {groups.get('extra') or ''}{found['noun']} {{}}"


def _label(name: str, spec: ToolSpec, say: str) -> str:
    """What a value is called in a list: `order number`, `new price`."""
    about = about_of(spec.properties[name])
    label = re.sub(" (?:no|nr|num)$", " number", _P["unit_name"].sub("", noun(name)))
    label = thing(name) if label.endswith((" id", " ids", " ref")) else label
    if stated := _P["stated"].fullmatch(_P["unit"].sub("", about)):
        words, own = stated["what"].split(), label.split()
        poor = label in _LISTS["vague"] or _P["bad_label"].search(label)
        poor = poor or (label in _LISTS["measures"] and not _LISTS["measures"] & {*words})
        longer = len(words) > len(own) and words[-1] == own[-1]  # `price` is no maximum price
        label = stated["what"] if poor or longer else label
    if _is_number(spec.properties[name]) and (counted := _D["counted"].match(about)):
        label = counted[1]
    label, what = re.sub("^(max|min) ", r"\1imum ", label), _P["side"].sub("", label)
    found = re.findall(rf"\b((?:another|different|new) )?{re.escape(what)}\b", say)
    changed = len(found) == 1 and found[0]  # two may be what is there and what is new
    if (changed or _P["new"].match(about)) and not _P["makes"].match(say):
        label = f"new {what}"
    return _P["short"].sub(lambda match: match[0].upper(), label)


def _item(name: str, label: str, schema: Mapping[str, object]) -> str:
    """A value as an item of a list: `volume: {} ml`, `{} nights`."""
    if not _is_number(schema):
        return f"{label}: {{}}"
    kind, _, last = label.rpartition(" ")
    if last in _LISTS["measures"]:
        return f"{{}} {kind} {_DATA['units'].get(last, last)}".replace("  ", " ")
    if _P["plural"].search(label):
        return f"{{}} {label}"
    about, own = str(schema.get("description", "")), noun(name)
    stated = _P["unit"].search(about) or _P["unit_name"].search(f" {own}")
    unit = stated[1].lower() if stated else ""
    return f"{label}: {{}} {_DATA['units'].get(unit, unit)}".strip()
