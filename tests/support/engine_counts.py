"""Counts of what an embedded engine does, for tests and benchmarks.

counts = EngineCounts(policy)       # from now on
asyncio.run(play(policy, 1, prompt))
counts.prefill_tokens
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rods.engines.hf import HFPolicy


class EngineCounts:
    """Stands between a policy's scheduler and its backend, and counts the calls."""

    def __init__(self, policy: HFPolicy) -> None:
        scheduler: Any = policy.scheduler
        rows = scheduler._rows
        self._backend = scheduler._backend
        self.prefill_passes = self.prefill_tokens = self.decode_steps = 0
        self.forked_tokens = 0
        """Prompt tokens that were copied from another session of the group, not computed."""
        self.moves = 0
        """Rows that were moved to keep the running batch dense."""
        self.evictions = 0
        """Contexts that lost their row to others and are computed again when used."""
        scheduler._backend = rows._backend = self
        rows.evict = self._evicting(rows.evict, rows)
        rows.make_room = self._evicting(rows.make_room, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def prefill(self, rows: Sequence[int], chunks: Sequence[Sequence[int]]) -> Any:
        self.prefill_passes += 1
        self.prefill_tokens += sum(map(len, chunks))
        return self._backend.prefill(rows, chunks)

    def decode(self, rows: Sequence[int], ids: Sequence[int]) -> Any:
        self.decode_steps += 1
        return self._backend.decode(rows, ids)

    def fork(self, source: int, target: int, length: int) -> bool:
        done = self._backend.fork(source, target, length)
        self.forked_tokens += length if done else 0
        return done

    def swap(self, a: int, b: int) -> None:
        self.moves += 1
        self._backend.swap(a, b)

    def as_dict(self) -> dict[str, int]:
        """All counts by name."""
        return {name: n for name, n in vars(self).items() if not name.startswith("_")}

    def _evicting(self, method: Callable[..., Any], rows: Any) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            before = sum(owner is not None for owner in rows._owner)
            found = method(*args)
            self.evictions += before - sum(owner is not None for owner in rows._owner)
            return found

        return counted
