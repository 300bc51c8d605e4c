"""Multi-turn rollouts: the embedded engine against padded `generate` with a prefill every turn.

8 tasks x 8 rollouts, a prompt of 512 tokens shared by each task's rollouts, 6 turns of 8-64
sampled tokens (lengths are forced, so both do the same work) and 48 observation tokens after each
turn, with a random 5M-parameter Qwen3, or with `--model` and its weights in bfloat16. Prints
generated tokens per second of both, their ratio, and the largest difference between the engine's
log-probabilities and those of a fresh forward pass.

    python benchmarks/rollout_engine.py [--threads 2] [--repeats 2] [--generate 1] [--general]
    python benchmarks/rollout_engine.py --threads 1 --repeats 3 --vllm E/bin/vllm
    python benchmarks/rollout_engine.py --model smollm2 --repeats 1

`--vllm` plays it by a warm vLLM server, too, one after the other in each round (`vllm_server.py`
says where a CPU build is had); medians of all. `--general` also plays a small part of the load by
the path of architectures that the fast one does not know, batched and row by row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from shared import Options
from transformers import Qwen3Config, Qwen3ForCausalLM

from engine_counts import EngineCounts
from rods.config import ModelSettings
from rods.engines.fallback import SingleCache
from rods.engines.hf import HFPolicy
from rods.engines.scheduler import Scheduler
from rods.trainers.loading import load_model

if TYPE_CHECKING:
    from vllm_server import Server

TASKS, ROLLOUTS, PROMPT, TURNS, OBSERVATION = 8, 8, 512, 6, 48
SHORTEST, LONGEST, VOCABULARY = 8, 64, 2048
CONTEXT = PROMPT + TURNS * (LONGEST + OBSERVATION)


@dataclass(frozen=True)
class Workload:
    """What every rollout is given and how much it samples."""

    prompts: list[list[int]]
    lengths: list[list[int]]
    """Sampled tokens by rollout and turn."""
    observations: list[list[list[int]]]

    @property
    def generated(self) -> int:
        """Sampled tokens in total."""
        return sum(map(sum, self.lengths))


@dataclass(frozen=True)
class Rollout:
    """One finished context: its ids, and position and log-probability of what was sampled."""

    ids: list[int]
    positions: list[int]
    logprobs: list[float]


def make_workload(tasks: int = TASKS, turns: int = TURNS, seed: int = 0) -> Workload:
    """Random prompts, lengths and observations."""
    rng = random.Random(seed)

    def ids(count: int) -> list[int]:
        return [rng.randrange(10, VOCABULARY) for _ in range(count)]

    number = range(tasks * ROLLOUTS)
    return Workload(
        [ids(PROMPT) for _ in range(tasks)],
        [[rng.randint(SHORTEST, LONGEST) for _ in range(turns)] for _ in number],
        [[ids(OBSERVATION) for _ in range(turns)] for _ in number],
    )


def make_model(name: str = "") -> Any:
    """A random Qwen3 of 5 million parameters, or a named model in bfloat16."""
    if name:
        return load_model(ModelSettings(name=name, dtype="bfloat16", device="cpu"))[0].eval()
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


async def play(policy: HFPolicy | Server, work: Workload, number: int) -> Rollout:
    """One trajectory."""
    prompt = work.prompts[number // ROLLOUTS]
    session = policy.open(number, prompt)
    rollout = Rollout([], [], [])
    new = prompt
    for turn, length in enumerate(work.lengths[number]):
        rollout.ids.extend(new)
        done = await session.generate(new, length, 1.0)
        rollout.positions.extend(range(len(rollout.ids), len(rollout.ids) + length))
        rollout.ids.extend(done.ids)
        rollout.logprobs.extend(done.logprobs)
        new = work.observations[number][turn]
    session.close()
    return rollout


async def play_all(policy: HFPolicy | Server, work: Workload) -> list[Rollout]:
    """All trajectories at once."""
    return await asyncio.gather(*(play(policy, work, i) for i in range(len(work.lengths))))


def generate_padded(model: Any, work: Workload) -> None:
    """The plain way: left-padded `generate`, from the first token again in every turn."""
    contexts = [list(work.prompts[i // ROLLOUTS]) for i in range(len(work.lengths))]
    for turn in range(len(work.observations[0])):
        width = max(map(len, contexts))
        ids = torch.zeros(len(contexts), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, context in enumerate(contexts):
            ids[i, width - len(context) :] = torch.tensor(context)
            mask[i, width - len(context) :] = 1
        longest = max(lengths[turn] for lengths in work.lengths)
        with torch.no_grad():
            output = model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=True,
                top_k=0,
                max_new_tokens=longest,
                min_new_tokens=longest,
                pad_token_id=0,
                eos_token_id=None,
                return_dict_in_generate=True,
                output_logits=True,
            )
        torch.stack(output.logits, 1).log_softmax(-1)
        for i, context in enumerate(contexts):
            length = work.lengths[i][turn]
            context += output.sequences[i, width : width + length].tolist()
            context += work.observations[i][turn]


@torch.inference_mode()
def largest_difference(model: Any, rollouts: list[Rollout], count: int = 16) -> float:
    """Largest absolute difference of log-probabilities from a fresh forward pass, in nats."""
    worst = 0.0
    for rollout in rollouts[:: max(1, len(rollouts) // count)]:
        logprobs = model(torch.tensor([rollout.ids])).logits[0].float().log_softmax(-1)
        at = torch.tensor(rollout.positions)
        fresh = logprobs[at - 1, torch.tensor(rollout.ids)[at]]
        worst = max(worst, float((fresh - torch.tensor(rollout.logprobs)).abs().max()))
    return worst


def compare_paths(count: int = 8) -> None:
    """Processor seconds of the fast path, of batched and of single rows, on one turn of a group."""
    work, model = make_workload(), make_model()

    async def turn(policy: HFPolicy) -> None:
        sessions = [policy.open(i, work.prompts[0]) for i in range(count)]
        await asyncio.gather(*(s.generate(work.prompts[0], 32, 1.0) for s in sessions))
        for session in sessions:
            session.close()

    fast = HFPolicy(model, (), count, CONTEXT)
    general = HFPolicy(model, (), count, CONTEXT, fast=False)
    single = HFPolicy(model, (), count, CONTEXT, fast=False)
    single.scheduler = Scheduler(SingleCache(model, count), ())
    for name, policy in (("fast", fast), ("batched", general), ("row by row", single)):
        cost = cheapest(lambda policy=policy: turn(policy), 2)
        print(f"path {name}: {cost.rate(32 * count)}", flush=True)


class Cost(NamedTuple):
    """What one run took."""

    wall: float
    cpu: float
    """Processor seconds of all threads: says more than the wall on a machine that is shared."""

    def rate(self, tokens: int) -> str:
        """Tokens per second, for people."""
        return (
            f"{tokens / self.wall:.0f} generated tokens/s ({self.wall:.1f} s), "
            f"{tokens / self.cpu:.0f} a cpu second ({self.cpu:.1f})"
        )


async def cost_of(run: Awaitable[object]) -> Cost:
    """What it takes in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    await run
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def cheapest(run: Callable[[], Awaitable[object]], repeats: int) -> Cost:
    """The shortest of some runs."""
    return min(asyncio.run(cost_of(run())) for _ in range(repeats))


def median(costs: Sequence[Cost]) -> Cost:
    """Of each figure its own."""
    return Cost(statistics.median(c.wall for c in costs), statistics.median(c.cpu for c in costs))


async def play_vllm(server: Server, work: Workload) -> tuple[Cost, float]:
    """What the load takes by a server, and processor seconds of its busiest process alone."""
    before, wall = server.seconds(), time.perf_counter()
    await play_all(server, work)
    took, now = time.perf_counter() - wall, server.seconds()
    return Cost(took, sum(now) - sum(before)), now[0] - before[0]


async def compare(
    options: argparse.Namespace, policy: HFPolicy, model: Any, work: Workload, server: Server | None
) -> None:
    """All sides in turn, so often; print medians and ratios."""
    tokens = work.generated
    engine: list[Cost] = []
    plain: list[Cost] = []
    vllm: list[Cost] = []
    core: list[float] = []
    if server is not None:
        await play_all(server, work)  # warm: its prompts are cached from here on
    for number in range(options.repeats):
        engine.append(await cost_of(play_all(policy, work)))
        print(f"engine ({policy.engine_name}): {engine[-1].rate(tokens)}", flush=True)
        if server is not None:
            took, busiest = await play_vllm(server, work)
            vllm.append(took)
            core.append(busiest)
            print(f"vLLM, warm: {took.rate(tokens)}; busiest process {busiest:.1f}", flush=True)
        if number < options.generate:
            plain.append(await cost_of(asyncio.to_thread(generate_padded, model, work)))
            print(f"padded generate: {plain[-1].rate(tokens)}", flush=True)
    mine = median(engine)
    print(f"\nmedians: engine {mine.rate(tokens)}")
    for name, costs in (("vLLM", vllm), ("padded generate", plain)):
        if costs:
            other = median(costs)
            print(f"{name} {other.rate(tokens)}")
            wall, cpu = other.wall / mine.wall, other.cpu / mine.cpu
            print(f"  engine against it: {wall:.1f} times on the clock, {cpu:.1f} in cpu seconds")
    if core:
        ratio = statistics.median(core) / mine.cpu
        print(f"  {ratio:.1f} in cpu seconds of its busiest process alone")


async def measure(options: argparse.Namespace) -> None:
    """Check the engine, then compare."""
    work, model = make_workload(options.tasks, options.turns), make_model(options.model)
    torch.set_num_threads(options.threads)
    print(f"{len(work.lengths)} trajectories, {work.generated} sampled tokens, ", end="")
    print(f"{torch.get_num_threads()} threads", flush=True)
    rows = len(work.lengths)
    policy = HFPolicy(model, (), rows=rows, max_context=CONTEXT, dtype=model.dtype)
    counts = EngineCounts(policy)
    rollouts = await play_all(policy, work)
    print(f"log-probs: largest difference {largest_difference(model, rollouts):.1e}", flush=True)
    if not options.vllm:
        await compare(options, policy, model, work, None)
    else:
        from vllm_server import serving

        extra = shlex.split(options.vllm_options)
        with tempfile.TemporaryDirectory() as folder:
            async with serving(
                options.vllm, model, Path(folder), CONTEXT + 1, options.threads, extra
            ) as server:
                await compare(options, policy, model, work, server)
    print(f"engine over all runs: {json.dumps(counts.as_dict())}")


def main() -> None:
    """Measure and print."""
    parser = Options(__doc__, {"tasks": 1, "turns": 2, "repeats": 1, "threads": 1})
    parser.add_argument("--tasks", type=int, default=TASKS, help="of 8 trajectories each")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="", help="such as smollm2")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--generate", type=int, default=1, help="repeats of padded generate")
    parser.add_argument("--vllm", default="", help="executable of a CPU build of vLLM")
    parser.add_argument("--vllm-options", default="", help="more options of vllm serve, with =")
    parser.add_argument("--general", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.general:
        compare_paths()
    asyncio.run(measure(options))


if __name__ == "__main__":
    main()
