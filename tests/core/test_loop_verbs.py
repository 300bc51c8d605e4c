"""The training loop reads as the paper's algorithm: its verbs stand in order, each in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from places import SOURCE

LOOP = ast.parse((SOURCE / "loop.py").read_text(encoding="utf-8"))
LINES = 430

VERBS = (
    "curriculum.lease", "schedule.roll_out", "rewards.score_group",
    "curriculum.judge", "curriculum.request_variants", "trainer.update",
    "curriculum.ingest_variants", "curriculum.retire", "run.checkpoint",
)  # fmt: skip
"""Draw, roll out, score, judge, request variants, update, ingest variants, retire, checkpoint."""
STEP = (
    "_batch", "curriculum.judge", "curriculum.request_variants",
    "_update", "_next_epoch", "checkpoint",
)  # fmt: skip
"""How a step reads; a helper stands for the verbs that it holds."""
HELPERS = {
    "step": ("curriculum.judge", "curriculum.request_variants"),
    "_draw": ("curriculum.lease",),
    "_roll_out": ("schedule.roll_out",),
    "_score": ("rewards.score_group",),
    "_update": ("trainer.update",),
    "_next_epoch": ("curriculum.ingest_variants", "curriculum.retire"),
    "checkpoint": ("run.checkpoint",),
}
"""Methods in the order of the source, and the verbs of each."""
Method = ast.FunctionDef | ast.AsyncFunctionDef


def loop_class() -> ast.ClassDef:
    """The class that makes a training step."""
    classes = [node for node in LOOP.body if isinstance(node, ast.ClassDef)]
    (found,) = [c for c in classes if "step" in {m.name for m in methods_of(c)}]
    return found


def methods_of(node: ast.ClassDef) -> list[Method]:
    return [member for member in node.body if isinstance(member, Method)]


def names_in(node: ast.AST) -> Iterator[str]:
    """Attributes that code reaches for in the order of the source, `self.` and owners cut off."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Attribute)]
    for attribute in sorted(found, key=lambda n: (n.end_lineno or 0, n.end_col_offset or 0)):
        *_, owner, name = f".{ast.unparse(attribute)}".split(".")
        yield name if owner == "self" else f"{owner}.{name}"


def verbs_in(node: ast.AST, wanted: Sequence[str] = VERBS) -> tuple[str, ...]:
    return tuple(name for name in names_in(node) if name in wanted)


def test_the_loop_holds_each_verb_once() -> None:
    assert sorted(verbs_in(LOOP)) == sorted(VERBS)


def test_a_step_reads_in_the_order_of_the_paper() -> None:
    (step,) = [method for method in methods_of(loop_class()) if method.name == "step"]
    assert verbs_in(step, STEP) == STEP


def test_helpers_stand_in_the_order_of_the_paper() -> None:
    found = {m.name: verbs for m in methods_of(loop_class()) if (verbs := verbs_in(m))}
    assert list(found.items()) == list(HELPERS.items())
    helpers = [verb for name, verbs in found.items() if name != "step" for verb in verbs]
    ranks = [VERBS.index(verb) for verb in helpers]
    assert all(before < after for before, after in pairwise(ranks))


def test_a_batch_is_drawn_rolled_out_and_scored() -> None:
    methods = {method.name: method for method in methods_of(loop_class())}
    assert {"_roll_out", "_score"} <= set(names_in(methods["_batch"]))
    assert "_draw" in names_in(methods["_roll_out"])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("self.curriculum.retire()\nself.curriculum.judge(x)", VERBS[7:2:-4]),
        ("self.schedule.roll_out(await self.curriculum.lease(n))", VERBS[1::-1]),
        ("work = partial(self.trainer.update, x)", ("trainer.update",)),
        ("self.other.retire()", ()),
    ],
)
def test_the_order_of_verbs_is_read_from_the_source(code: str, found: tuple[str, ...]) -> None:
    assert verbs_in(ast.parse(code)) == found


def test_the_loop_and_its_components_fit_on_a_few_pages() -> None:
    texts = [(SOURCE / name).read_text(encoding="utf-8") for name in ("loop.py", "components.py")]
    assert sum(len(text.splitlines()) for text in texts) <= LINES
