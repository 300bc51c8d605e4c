"""Is a running server the engine that it is taken for? Its completions beside the model itself.

Serve the policy (here the bundled one, float32), then let each line be answered with figures:

    python -m sglang.launch_server --model-path src/rods/policies/tiny --served-model-name tiny ...
    python benchmarks/server_engine.py --url http://127.0.0.1:8000/v1 --folder /shared
    python benchmarks/server_engine.py --url ... --folder /shared --weights lora --rank 4

* greedy: eight conversations of three turns; a token is as probable as the model's best one.
* sampled: told log-probabilities beside those of a fresh pass, at `--temperature`.
* stop string: a generation ends with the token that completes it, and can be gone on with.
* hand-over: after it the samples are those of changed weights, in sessions that were open, too.
* in flight: generations go on while weights are handed over; which of the two policies each of
  their tokens was sampled from (the server's own cache of the old one must not remain).

Ends with 1 if a line does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from shared import Options

from policy_server import KEY, serving
from rods.config import EngineSettings, ModelSettings, RolloutSettings
from rods.engines.hf import generation_stops
from rods.engines.openai import OpenAIEngine
from rods.policy import Completion
from rods.rollout.template import ChatTemplate
from rods.trainers.adapters import with_lora
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model
from rods.types import FinishReason
from served_policy import served

SESSIONS, TURNS, PROMPT, TOKENS, LONG = 8, 3, 48, 24, 400
NEAR = 1e-3
"""Differences of log-probabilities in float32 that are called none."""


@dataclass
class Check:
    """A server, and the model that it should be."""

    engine: OpenAIEngine
    model: Any
    temperature: float
    failed: int = 0

    def say(self, name: str, holds: bool, words: str) -> None:
        """One line."""
        self.failed += not holds
        print(f"{'holds' if holds else 'FAILS'}  {name}: {words}", flush=True)

    def fresh(self, ids: Sequence[int], temperature: float) -> torch.Tensor:
        """Log-probabilities of every next token, [length, vocabulary]."""
        with torch.no_grad():
            logits = self.model(torch.tensor([list(ids)])).logits[0].float()
        return torch.log_softmax(logits / (temperature or 1.0), -1)

    def told(self, before: Sequence[int], done: Completion, temperature: float) -> torch.Tensor:
        """What was told of each token less what a fresh pass says."""
        table = self.fresh([*before, *done.ids], temperature)
        rows = table[len(before) - 1 : -1]
        own = rows[range(len(done.ids)), list(done.ids)]
        return torch.tensor(done.logprobs) - own

    def behind(self, before: Sequence[int], done: Completion) -> float:
        """How much less probable than the best one a token is at most."""
        rows = self.fresh([*before, *done.ids], 1.0)[len(before) - 1 : -1]
        own = rows[range(len(done.ids)), list(done.ids)]
        return float((rows.max(-1).values - own).max())


def prompt_of(i: int, tokens: int = PROMPT) -> list[int]:
    """Ids without a meaning; those below 300 are special or single bytes."""
    generator = torch.Generator().manual_seed(i)
    return torch.randint(300, 2500, (tokens,), generator=generator).tolist()


async def conversation(check: Check, i: int, temperature: float) -> tuple[float, torch.Tensor]:
    """Three turns: the largest distance from the best token, and the differences told."""
    session, ids = check.engine.open(i), list[int]()
    behind, off = 0.0, list[torch.Tensor]()
    for turn in range(TURNS):
        new = prompt_of(100 * i + turn)
        done = await session.generate(new, TOKENS, temperature)
        ids += new
        behind = max(behind, check.behind(ids, done))
        off.append(check.told(ids, done, temperature).abs())
        ids += done.ids
    session.close()
    return behind, torch.cat(off)


async def samples(check: Check, name: str) -> None:
    """Greedy, then at a temperature."""
    for temperature in (0.0, check.temperature):
        found = await asyncio.gather(
            *(conversation(check, i, temperature) for i in range(SESSIONS))
        )
        off = torch.cat([o for _, o in found])
        words = f"{len(off)} tokens, told and fresh differ by {off.max():.1e} at most"
        holds = float(off.max()) < NEAR
        if temperature:
            check.say(f"{name}sampled at {temperature:g}", holds, words)
            continue
        behind = max(b for b, _ in found)
        words += f", behind the best token by {behind:.1e} at most"
        check.say(f"{name}greedy", holds and behind < NEAR, words)


async def stop_string(check: Check, template: ChatTemplate) -> None:
    """Ends where it should, with all of the last token, and goes on."""
    prompt = prompt_of(7)
    free = await check.engine.open(1).generate(prompt, TOKENS, 0.0)
    word = template.raw_decode(free.ids[5:7])
    session = check.engine.open(1)
    one = await session.generate(prompt, TOKENS, 0.0, [word])
    ends = [n for n in range(1, TOKENS) if word in template.raw_decode(free.ids[:n])]
    two = await session.generate([], TOKENS - len(one.ids), 0.0)
    holds = (
        one.finish is FinishReason.STOP_STRING
        and one.ids == free.ids[: ends[0]]
        and one.ids + two.ids == free.ids
    )
    words = f"{word!r} ended {len(one.ids)} of {len(free.ids)} tokens by {one.finish.value}"
    check.say("stop string", holds, f"{words}; together they are the free ones: {holds}")


def change(model: Any, lora: bool) -> None:
    """Other weights: of adapters alone, where those are handed over."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not lora or "lora_" in name:
                scale = 0.05 if lora else 0.2 * float(weight.std()) if weight.dim() > 1 else 0.0
                weight += scale * torch.randn(weight.shape, generator=generator)


async def hand_over(check: Check, lora: bool) -> None:
    """New weights: for new sessions, one that is open, and one that is being generated."""
    engine, old = check.engine, copy.deepcopy(check.model)
    opened, prompt = engine.open(50), prompt_of(50)
    first = await opened.generate(prompt, TOKENS, 0.0)
    starts = [prompt_of(60 + i) for i in range(SESSIONS)]
    tasks = [
        asyncio.create_task(engine.open(60 + i).generate(start, LONG, check.temperature))
        for i, start in enumerate(starts)
    ]
    await asyncio.sleep(0.5)
    change(check.model, lora)
    await engine.sync(ModelWeights(check.model, lora), 1)
    flying = sum(not task.done() for task in tasks)
    flown = await asyncio.gather(*tasks)
    await samples(check, "after the hand-over, ")
    new = prompt_of(52)
    second = await opened.generate(new, TOKENS, 0.0)
    behind = check.behind([*prompt, *first.ids, *new], second)
    check.say("open session", behind < NEAR, f"behind the best token by {behind:.1e} at most")
    by_policy = [policies_of(check, s, f, old) for s, f in zip(starts, flown, strict=True)]
    of_old, of_new, neither = (sum(counts) for counts in zip(*by_policy, strict=True))
    words = (
        f"{flying} of {SESSIONS} generations were in flight at the hand-over; of all their tokens "
        f"{of_old} are the old policy's, {of_new} the new one's, {neither} neither's"
    )
    check.say("in flight", flying > 0 and not neither, words)


def policies_of(check: Check, start: Sequence[int], done: Completion, old: Any) -> list[int]:
    """How many tokens are as probable as under the old policy, else the new one, else neither."""
    of_new = check.told(start, done, check.temperature).abs() < NEAR
    of_old = Check(check.engine, old, 0.0).told(start, done, check.temperature).abs() < NEAR
    return [int(of.sum()) for of in (of_old, of_new & ~of_old, ~of_old & ~of_new)]


async def run(args: argparse.Namespace) -> int:
    """All checks; how many do not hold."""
    model, tokenizer = load_model(ModelSettings(name=args.model, threads=1, device="cpu"))
    template = ChatTemplate(tokenizer, generation_stops(model))
    lora = args.weights == "lora"
    whole: Any = with_lora(model, args.rank, 0) if lora else model
    settings = EngineSettings(
        name="openai", url=args.url, weights=args.weights, folder=str(args.folder)
    )
    rollout = RolloutSettings(temperature=args.temperature, context_tokens=args.context)
    engine = OpenAIEngine(settings, template, rollout)
    check = Check(engine, whole.eval(), args.temperature)
    try:
        await engine.start()
        await engine.sync(ModelWeights(whole, lora), 0)
        await samples(check, "")
        await stop_string(check, template)
        await hand_over(check, lora)
    finally:
        await engine.close()
    return check.failed


def main() -> None:
    """Ask, and say how it went."""
    parser = Options(__doc__, {})
    parser.add_argument("--url", help="base URL of the server, with /v1")
    parser.add_argument("--folder", type=Path, help="which the server sees, too")
    parser.add_argument("--weights", choices=("folder", "lora"), default="folder")
    parser.add_argument("--rank", type=int, default=4, help="of the adapters")
    parser.add_argument("--model", default="tiny", help="what the server serves")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--temperature", type=float, default=0.7)
    options = parser.parse_args()
    if options.url and options.folder:
        sys.exit(1 if asyncio.run(run(options)) else 0)
    if not options.quick:
        parser.error("name a server and its folder by --url and --folder")
    with tempfile.TemporaryDirectory() as folder, double(options) as options.url:
        options.folder = Path(folder)
        sys.exit(1 if asyncio.run(run(options)) else 0)


@contextmanager
def double(options: argparse.Namespace) -> Generator[str]:
    """The URL of the tests' stand-in for a server: this program's own engine behind its routes."""
    settings = ModelSettings(name=options.model, threads=1, device="cpu")
    with serving(served(settings, SESSIONS, options.context, KEY)) as url:
        yield url


if __name__ == "__main__":
    main()
