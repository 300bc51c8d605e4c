"""Prompts that several rows share: stored once, attended to once for the whole group.

A decode step reads every cached key. When the rollouts of a group start with the same prompt, their
queries are stacked and multiplied with one copy of it; the result is merged with the attention to
each row's own tokens by their log-sum-exps. The store knows slots and who uses them, not layers'
weights.

    slot = store.take(length=511)                    # None: no slot is free
    plan = store.plan([slot, slot, None])            # three rows, two of them share
    mixed, weight = store.attend(layer, query, plan)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rods.engines.attention import flash, flashes
from rods.engines.storage import KeyValues


class PrefixPlan(NamedTuple):
    """Which rows share which slots in one decode step."""

    slots: int
    """Slots 0 .. slots-1 are computed."""
    members: Tensor
    """Row of each query, shape (slots, most rows of a slot); padded with row 0."""
    place: Tensor
    """Index of each row in the flattened `members`, shape (rows,)."""
    bias: Tensor
    """0 or -inf for each prefix position, shape (slots, 1, 1, longest)."""
    absent: Tensor
    """0 for a row with a prefix and -inf for one without, shape (rows, 1, 1, 1)."""


class PrefixStore:
    """A fixed number of slots for shared keys and values, counted by use."""

    def __init__(self, kept: KeyValues, slots: int) -> None:
        """Make it, for so many prompts at once where the budget of `kept` suffices."""
        self.kept = kept
        self.lengths = [0] * slots
        self._users = [0] * slots

    def take(self, length: int) -> int | None:
        """The lowest free slot for a prompt of `length` tokens, beside which those in use fit."""
        slot = self._users.index(0) if 0 in self._users else len(self._users)
        highest = max([slot, *(number for number, users in enumerate(self._users) if users)])
        if highest >= min(len(self._users), self.kept.limit(length)):
            return None
        self.kept.reserve(slot + 1, length)
        self.lengths[slot] = length
        return slot

    def use(self, slot: int) -> None:
        """Count one more row that refers to the slot."""
        self._users[slot] += 1

    def leave(self, slot: int) -> None:
        """Count one row less; without users the slot is free."""
        self._users[slot] -= 1

    def plan(self, slots: Sequence[int | None]) -> PrefixPlan | None:
        """Plan of one step for rows with these slots; None if no row has one."""
        groups: dict[int, list[int]] = {}
        for row, slot in enumerate(slots):
            if slot is not None:
                groups.setdefault(slot, []).append(row)
        if not groups:
            return None
        count, widest = max(groups) + 1, max(map(len, groups.values()))
        longest = max(self.lengths[slot] for slot in groups)
        members = [[0] * widest for _ in range(count)]
        place = [0] * len(slots)
        for slot, rows in groups.items():
            for number, row in enumerate(rows):
                members[slot][number] = row
                place[row] = slot * widest + number
        device, dtype = self.kept.device, self.kept.dtype
        # An idle slot keeps its first position, so that its softmax stays finite.
        lengths = torch.tensor([max(1, self.lengths[slot]) for slot in range(count)])
        bias = torch.zeros(count, 1, 1, longest, dtype=dtype)
        bias.masked_fill_((torch.arange(longest) >= lengths[:, None])[:, None, None], -math.inf)
        absent = torch.tensor([0.0 if slot is not None else -math.inf for slot in slots])
        return PrefixPlan(
            count,
            torch.tensor(members, device=device),
            torch.tensor(place, device=device),
            bias.to(device),
            absent.to(device, dtype)[:, None, None, None],
        )

    def attend(self, layer: int, query: Tensor, plan: PrefixPlan) -> tuple[Tensor, Tensor]:
        """Attention of every row to its prefix; `query` is scaled.

        Its shape is (rows, kv heads, heads per kv head, head dim).

        Returns:
            the mixed values, shaped like `query`, and the log-sum-exp of the scores, shape
            (rows, kv heads, heads per kv head, 1); -inf for rows without a prefix.
        """
        longest = plan.bias.shape[-1]
        keys = self.kept.keys[layer][: plan.slots, :, :longest]
        values = self.kept.values[layer][: plan.slots, :, :longest]
        stacked = query[plan.members].transpose(1, 2)
        shape = stacked.shape
        mixed, weight = attend(stacked.flatten(2, 3), keys, values, plan.bias)
        mixed = mixed.view(shape).transpose(1, 2).flatten(0, 1)[plan.place]
        weight = weight.view(*shape[:-1], 1).transpose(1, 2).flatten(0, 1)[plan.place]
        return mixed, weight + plan.absent


def attend(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax attention and the log-sum-exp of its scores; the queries are already scaled.

    Args:
        query: (rows, heads, queries, head dim); `keys` and `values` have positions for queries.
        bias: what is added to the scores, (rows, 1, 1, positions).

    Returns:
        values mixed, shaped like `query`, and (rows, heads, queries, 1).
    """
    if query.device.type == "cpu" and flashes(query):
        part = flash(query, keys, values, bias=bias.expand(-1, -1, query.shape[2], -1))
        return part.out, part.weight[..., None]
    scores = torch.matmul(query, keys.transpose(-1, -2)).add_(bias)
    top = scores.amax(-1, keepdim=True)
    shares = scores.softmax(-1)
    # The largest share is exp(top - logsumexp), so the log-sum-exp needs no second exponential.
    return torch.matmul(shares, values), top - shares.amax(-1, keepdim=True).log()
