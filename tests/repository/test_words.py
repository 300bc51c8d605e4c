"""One meaning a word, and the field's word where it has one: the list of those that went."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from places import SOURCE

BUNDLED = SOURCE / "envs" / "repo" / "repositories"
"""Programs with planted bugs, which speak as they like."""
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if BUNDLED not in path.parents]

GONE = {
    "baton": "world lock",
    "workshop": "worker process",
    "maker": "generator, writer",
    "school": "SFT trainer, pretraining",
    "schooled": "SFT trainer, pretraining",
    "schooling": "pretraining",
    "trouble": "RequestError",
    "crew": "task group",
    "rig": "rollout context",
    "watched": "progress callback",
    "sieve": "filter",
    "tally": "metrics, counts",
    "giver": "producer",
    "taker": "consumer",
    "kin": "source turn",
    "mend": "fix",
}
"""Parts of identifiers, and what is said instead."""
DEFINED = {"ask": "call request", "said": "literal", "meant": "reference", "told": "what was told"}
"""Words that name no class: elsewhere they are verbs."""
PHRASES = re.compile(
    r"(?<!there )\b(?:is|are) no (?:number|object|list|table|text|file|folder)\b"
    r"|\b[Mm]end(?:ed|s|ing)?\b|\brbar\b"
)
PERSISTED = re.compile(r"rbar|.*\b(?:SELECT|CREATE TABLE|task_id)\b.*", re.S)
"""A column and a key of what runs have written."""


def parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def names(path: Path) -> set[str]:
    text = io.StringIO(path.read_text(encoding="utf-8"))
    return {t.string for t in tokenize.generate_tokens(text.readline) if t.type == tokenize.NAME}


def test_no_identifier_says_what_the_field_says_otherwise() -> None:
    for path in FILES:
        found = {name: GONE[w] for name in names(path) for w in parts(name) & GONE.keys()}
        assert not found, f"{path}: {found}"


def test_no_class_is_called_by_a_verb() -> None:
    for path in FILES:
        classes = {name for name in names(path) if re.match("_?[A-Z].*[a-z]", name)}
        found = {name: DEFINED[w] for name in classes for w in parts(name) & DEFINED.keys()}
        assert not found, f"{path}: {found}"


def texts(path: Path) -> Iterator[str]:
    """Literals that are no docstrings: messages, mostly."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_messages_say_it_in_usual_words() -> None:
    for path in FILES:
        found = [t for t in texts(path) if PHRASES.search(t) and not PERSISTED.fullmatch(t)]
        assert not found, f"{path}: {found}"
