"""Yield of each seed task: how many candidates were accepted, and why the others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rods.infra.text import counted
from rods.synthesis.rejection import reason_words
from rods.task import Task
from rods.types import Json

LOW = 0.2
"""Yield under which a seed task is named: of three attempts, usually not even one is accepted."""
WORST, EXAMPLES = 10, 3
"""Seed tasks that are named, and how many of them with an example."""


@dataclass
class SeedYield:
    """Outcomes of the candidates of one seed task."""

    seed: Task
    accepted: int = 0
    rejections: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    """Stage, reason, detail and message of each rejected candidate."""

    @property
    def name(self) -> str:
        """The name that the seed task came with, else its id; with its id where it is a variant."""
        origin = self.seed.provenance.origin or self.seed.id
        return origin if self.seed.is_original else f"{origin} ({self.seed.id})"

    @property
    def candidates(self) -> int:
        """Candidates that were made."""
        return self.accepted + len(self.rejections)

    @property
    def is_low(self) -> bool:
        """Tell whether the share of accepted candidates is below `LOW`."""
        return self.accepted < LOW * self.candidates

    def to_json(self) -> dict[str, Json]:
        """Return the row of `--json`, the most frequent reason first."""
        reasons = Counter((row[0], row[1]) for row in self.rejections).most_common()
        rejected: list[Json] = [
            {"stage": s, "reason": r, "words": reason_words(r), "count": n} for (s, r), n in reasons
        ]
        return {"seed": self.name, "id": self.seed.id, "candidates": self.candidates,
                "accepted": self.accepted, "rejected": rejected}  # fmt: skip

    def line(self, example: bool) -> str:
        """Return the yield with the most frequent reason in words, and an example if asked."""
        [(reason, count)] = Counter(row[1] for row in self.rejections).most_common(1)
        detail, message = next(row[2:] for row in self.rejections if row[1] == reason)
        shown = f". For example, {detail}" + f' (message: "{message}")' * bool(message)
        text = f"{self.name}, {self.accepted} of {counted(self.candidates, 'candidate')} accepted"
        return f"  {text}; {count} rejected: {reason_words(reason)}{shown * example}"


def low_yields(yields: Sequence[SeedYield], of: str = "seed task") -> list[str]:
    """Return a line with the number of low yields, and one for each of the worst; none: empty."""
    low = [made for made in yields if made.is_low]
    low.sort(key=lambda made: (made.accepted / made.candidates, -made.candidates))
    head = f"{len(low)} of {counted(len(yields), of)} with a yield below {LOW:.0%}:"
    lines = [row.line(number < EXAMPLES) for number, row in enumerate(low[:WORST])]
    rest = [f"  and {len(low) - WORST} more; --json has all"] * (len(low) > WORST)
    return [head, *lines, *rest] if low else []
