"""The append-only token ledger: ids, where they came from, and what they cost.

Ids that a policy sampled stay as sampled and are never decoded and encoded again (invariant 1).
A ledger grows by spans; mask and log-probabilities live on the span, so lengths cannot differ.

    ledger = Ledger()
    ledger.add_context(prompt_ids)                  # environment: mask 0
    ledger.add_sampled(ids, logprobs, version=3)    # policy: mask 1
    ledger.ids, ledger.mask, ledger.logprobs        # equal lengths
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rods.errors import TokenError


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive tokens of one origin."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    """Natural log-probability of each id when sampled (temperature applied); None: not sampled."""
    version: int = 0
    """Policy version that sampled it (`Completion.version`); 0 where nothing was sampled."""

    def __post_init__(self) -> None:
        if self.logprobs is not None and len(self.logprobs) != len(self.ids):
            raise TokenError(
                f"a span of {len(self.ids)} sampled ids came with {len(self.logprobs)} "
                "log-probabilities; the engine must return one for each id."
            )

    @property
    def sampled(self) -> bool:
        """True if the policy produced these tokens, so that they carry loss."""
        return self.logprobs is not None


class Ledger:
    """Append-only list of spans of one trajectory."""

    def __init__(self, spans: Sequence[Span] = ()) -> None:
        self._spans = list(spans)
        self._length = sum(len(s.ids) for s in self._spans)

    def __len__(self) -> int:
        return self._length

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans so far, in order."""
        return tuple(self._spans)

    @property
    def ids(self) -> list[int]:
        """All token ids, in order."""
        return [i for s in self._spans for i in s.ids]

    @property
    def mask(self) -> list[int]:
        """1 where the policy sampled the token, 0 elsewhere; same length as `ids`."""
        return [int(s.sampled) for s in self._spans for _ in s.ids]

    @property
    def logprobs(self) -> list[float]:
        """Log-probability at sampling, 0.0 where the token was not sampled; length of `ids`."""
        return [p for s in self._spans for p in (s.logprobs or (0.0,) * len(s.ids))]

    @property
    def generated(self) -> int:
        """Return the number of tokens that the policy sampled."""
        return sum(len(s.ids) for s in self._spans if s.sampled)

    def add_context(self, ids: Sequence[int]) -> None:
        """Append tokens of the prompt or the environment; they carry no loss."""
        self._append(Span(tuple(ids), None))

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float], version: int) -> None:
        """Append tokens that this version of the policy sampled, with their log-probabilities."""
        self._append(Span(tuple(ids), tuple(logprobs), version))

    def _append(self, span: Span) -> None:
        self._spans.append(span)
        self._length += len(span.ids)
