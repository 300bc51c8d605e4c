"""The scripted policy."""

from __future__ import annotations

import asyncio

import pytest

from rods.errors import PolicyError
from rods.policy import ScriptedPolicy
from rods.types import FinishReason


def test_it_plays_its_script_for_each_session() -> None:
    async def go() -> None:
        policy = ScriptedPolicy([[5, 6, 2], [7, 2]], logprob=-0.5)
        for seed in range(2):
            session = policy.open(seed)
            first = await session.generate([1], 2, 1.0)
            assert first.ids == (5, 6) and first.finish is FinishReason.LENGTH
            second = await session.generate([1], 2, 1.0)
            assert second.ids == (7, 2) and second.logprobs == (-0.5, -0.5)
            assert second.finish is FinishReason.STOP
            with pytest.raises(PolicyError, match="2 generations"):
                await session.generate([1], 2, 1.0)

    asyncio.run(go())


def test_a_function_sees_seed_and_number() -> None:
    async def go() -> None:
        session = ScriptedPolicy(lambda seed, turn: [seed, turn]).open(9)
        assert (await session.generate([1], 5, 1.0)).ids == (9, 0)
        assert (await session.generate([1], 5, 1.0)).ids == (9, 1)
        session.close()
        with pytest.raises(PolicyError, match="closed=True"):
            await session.generate([1], 5, 1.0)

    asyncio.run(go())
