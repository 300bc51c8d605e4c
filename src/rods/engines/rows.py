"""Owners of a backend's rows, and rows that hold a prompt which others can copy.

A freed row keeps its content until somebody else needs the row, so a group's prompt outlives the
session that computed it. Choices depend on nothing but the order of events. It runs no model.

    rows = Rows(backend)
    rows.assign([context])             # context.row is set if a row was free
    rows.copy_prompt(context)          # fills it from another row of the group
    rows.release(context)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rods.engines.sampling import Noise
from rods.engines.storage import Backend

_QUIET = 8
"""Passes without use after which an idle row may be moved out of the way."""


@dataclass(eq=False, slots=True)
class Context:
    """Everything the engine knows of one session."""

    noise: Noise
    shared: tuple[int, ...]
    """Prompt that other sessions of the group start with; empty: none."""
    ids: list[int] = field(default_factory=list[int])
    """All tokens so far; the last sampled one is not cached yet."""
    row: int | None = None
    used: int = 0
    """Number of the scheduler's pass that used it last."""

    @property
    def begins_shared(self) -> bool:
        """True if it really starts with the shared prompt, and that is worth sharing."""
        count = len(self.shared)
        return count > 1 and tuple(self.ids[:count]) == self.shared


class Rows:
    """Ownership of a backend's rows."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._owner: list[Context | None] = [None] * len(backend.lengths)
        self._holders: dict[tuple[int, ...], list[int]] = {}
        """Rows whose first tokens are a shared prompt, whether or not a session owns them."""
        self._limit = len(self._owner)
        """Rows that may be used now."""
        self._bounded = backend.limit() < len(self._owner)

    def __len__(self) -> int:
        return len(self._owner)

    @property
    def free(self) -> int:
        """Rows without an owner."""
        return sum(owner is None for owner in self._owner[: self._limit])

    def assign(self, homeless: Sequence[Context]) -> None:
        """Give free rows to contexts, in their order, as far as they go."""
        wanted = {context.shared for context in homeless}
        for context in homeless:
            if self._bounded and not self._has_room(context):
                return
            row = self._pick(context, wanted)
            if row is None:
                return
            # A free row is used again where its first tokens are the prompt of the context's group.
            held = row in self._holders.get(context.shared, []) and context.begins_shared
            if not (held and self._fork(context, row, row)):
                self._drop(row)
            self._owner[row] = context
            context.row = row

    def _has_room(self, context: Context) -> bool:
        """True if memory allows one more row, as long as this context needs; makes it usable."""
        owners = [owner for owner in self._owner if owner is not None]
        limit = self._backend.limit(_longest([*owners, context]))
        if len(owners) >= limit:
            return False
        self._shrink(limit)
        return True

    def make_room(self) -> list[Context]:
        """Take rows away, if memory does not allow so many that are as long as one now gets.

        Returns:
            contexts that lost their row, idle ones first; they are computed again when used.
        """
        if not self._bounded:
            return []
        owners = [owner for owner in self._owner if owner is not None]
        owners.sort(key=lambda c: (c.used, -(c.row or 0)))
        limit = self._backend.limit(_longest(owners))
        lost = owners[: max(0, len(owners) - limit)]
        for context in lost:
            self.release(context)
        self._shrink(limit)
        return lost

    def _shrink(self, limit: int) -> None:
        """Use no row from `limit` on."""
        for row in range(limit, self._limit):
            free = row if self._owner[row] is None else self._owner.index(None)
            self._drop(free)
            if free != row:
                self._swap(free, row)
        self._limit = min(self._limit, limit)

    def _pick(self, context: Context, wanted: set[tuple[int, ...]]) -> int | None:
        """The lowest free row that holds the context's prompt, or whose content nobody wants."""
        own = self._holders.get(context.shared, [])
        # A prompt that only one row still holds would have to be computed again.
        last = {rows[0] for key, rows in self._holders.items() if key in wanted and len(rows) == 1}
        free = [row for row, owner in enumerate(self._owner[: self._limit]) if owner is None]
        return min(free, key=lambda row: (row not in own, row in last, row), default=None)

    def _fork(self, context: Context, source: int, target: int) -> bool:
        # The same length for the whole group, and at least one token left to compute.
        return self._backend.fork(source, target, len(context.shared) - 1)

    def _drop(self, row: int) -> None:
        """Forget what a row holds."""
        self._backend.clear(row)
        for rows in self._holders.values():
            if row in rows:
                rows.remove(row)

    def release(self, context: Context) -> None:
        """Take the row from a context; it can be computed again from its ids."""
        if context.row is not None:
            self._owner[context.row] = None
            context.row = None

    def evict(self, waiting: int) -> None:
        """Take rows from the contexts idle for longest, for some that wait; at most half."""
        idle = sorted((c for c in self._owner if c is not None), key=lambda c: (c.used, c.row))
        for context in idle[: max(1, min(waiting, len(idle) // 2))]:
            self.release(context)

    def forget(self) -> None:
        """Empty all rows, so that what runs next does not depend on what ran before."""
        self._holders.clear()
        self._limit = len(self._owner)
        for row in range(len(self._owner)):
            self._backend.clear(row)

    def missing(self, context: Context) -> list[int]:
        """Ids of a context with a row that the row has not cached yet."""
        assert context.row is not None
        return context.ids[self._backend.lengths[context.row] :]

    def is_leader(self, context: Context) -> bool:
        """True if it must compute a prompt of its group that no row holds."""
        fresh = context.row is not None and self._backend.lengths[context.row] == 0
        return fresh and context.begins_shared and not self._holders.get(context.shared)

    def copy_prompt(self, context: Context) -> None:
        """Fill an empty row with the group's prompt, if some row holds it."""
        sources = self._holders.get(context.shared)
        if context.row is None or not sources or self._backend.lengths[context.row]:
            return
        if context.begins_shared:
            self._fork(context, sources[0], context.row)

    def remember_prompt(self, context: Context) -> None:
        """Note that the context's row holds its group's prompt."""
        if context.row is not None and context.begins_shared:
            holders = self._holders.setdefault(context.shared, [])
            if context.row not in holders:
                holders.append(context.row)

    def compact(self, running: Sequence[int], now: int) -> None:
        """Move running rows down to rows that are free or have been idle for a while.

        The batch of this pass, whose number is `now`, costs as much as the highest of its rows.
        """
        top, live = max(running) + 1, set(running)
        # A move copies a whole row, and a decode step reads all rows up to the highest: an eighth
        # of idle ones pays for the copies within a few steps.
        worth = max(4, top // 8)
        if top - len(live) < worth:
            return
        idle = [(row, self._owner[row]) for row in range(top) if row not in live]
        holes = [row for row, owner in idle if owner is None or now - owner.used > _QUIET]
        if len(holes) < worth:
            return
        for low, high in zip(holes, sorted(live, reverse=True), strict=False):
            if high < low:
                return
            self._swap(low, high)

    def _swap(self, low: int, high: int) -> None:
        self._backend.swap(low, high)
        owners = self._owner
        owners[low], owners[high] = owners[high], owners[low]
        for row in (low, high):
            if (owner := owners[row]) is not None:
                owner.row = row
        places = {low: high, high: low}
        for rows in self._holders.values():
            rows[:] = [places.get(row, row) for row in rows]


def _longest(contexts: Sequence[Context]) -> int:
    """Positions that the longest of them needs for its next token."""
    return max((len(context.ids) for context in contexts), default=0) + 1
