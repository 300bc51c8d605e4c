"""Where a math policy stands before training, by dialect and difficulty.

    python benchmarks/math_start.py [--policy FOLDER] [--questions 24] [--show 3]

Plays K rollouts of questions of the training side in the real sandbox and prints: share of
responses with code, calls per response, share that end by themselves, accuracy over all, with code
and without, and the share of groups whose rewards differ.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from shared import Options

from rods.assemble.engines import engine_of
from rods.config import load_config
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.envs.python_tool.environment import PythonToolEnvironment
from rods.envs.questions.families import FAMILIES, question_tasks
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trainers.loading import load_model
from rods.trajectory import Group, Trajectory


def main() -> None:
    parser = Options(__doc__, {"questions": 1, "difficulties": [1], "dialects": ["torl"], "k": 2})
    parser.add_argument("--policy", default="tiny-math")
    parser.add_argument("--dialects", nargs="+", default=["torl", "zerotir", "retool"])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument("--difficulties", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--questions", type=int, default=24, help="of each difficulty")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="responses to print")
    options = parser.parse_args()
    set_threads(options.threads)
    with_environment = PythonToolEnvironment()
    try:
        for dialect in options.dialects:
            for difficulty in options.difficulties:
                tasks = question_tasks(options.families, [difficulty], options.questions)
                started = time.monotonic()
                groups = play(options, dialect, tasks, with_environment)
                spent = time.monotonic() - started
                print(f"{dialect:8} {difficulty}: {figures(groups)}  {spent:.0f} s", flush=True)
                show([t for g in groups for t in g.trajectories][:: options.k][: options.show])
    finally:
        with_environment.close()


def play(
    options: argparse.Namespace,
    name: str,
    tasks: Sequence[Task],
    environment: PythonToolEnvironment,
) -> list[Group]:
    config = load_config(
        "rods",
        "small",
        [
            f"model.name={options.policy}",
            f"model.dialect={name}",
            f"model.threads={options.threads}",
            "rollout.context_tokens=768",
            "rollout.generated_tokens=384",
            "rollout.step_tokens=256",
            f"rollout.calls={options.calls}",
        ],
    )
    model, tokenizer = load_model(config.model)
    template = ChatTemplate(tokenizer)

    async def run() -> list[Group]:
        sampling = {"temperature": options.temperature, "k": options.k}
        context = RolloutContext(
            environment,
            engine_of(config, model, template),
            get_dialect(name),
            template,
            config.rollout.model_copy(update=sampling),
            seed=1,
        )
        return [group async for group in run_groups(context, tasks)]

    return asyncio.run(run())


def calls(trajectory: Trajectory) -> int:
    return sum(len(step.results) for step in trajectory.steps)


def share(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f}" if values else "  - "


def figures(groups: Sequence[Group]) -> str:
    played = [t for g in groups for t in g.trajectories if t.valid]
    coded, direct = [t for t in played if calls(t)], [t for t in played if not calls(t)]
    differ = [len({t.solved for t in g.trajectories if t.valid}) > 1 for g in groups]
    ended = [bool(t.verdicts and t.verdicts[-1].answered) for t in played]
    tokens = [t.ledger.generated for t in played]
    return (
        f"n={len(played):4} code {share([calls(t) > 0 for t in played])} "
        f"calls {share([calls(t) for t in played])} ended {share(ended)} "
        f"right {share([t.solved for t in played])} "
        f"(code {share([t.solved for t in coded])} direct {share([t.solved for t in direct])}) "
        f"differing {share(differ)} tokens {statistics.fmean(tokens):.0f}"
    )


def show(trajectories: Sequence[Trajectory]) -> None:
    for trajectory in trajectories:
        text = "".join(m.content for m in trajectory.messages)
        print(f"--- {trajectory.task_id} solved={trajectory.solved}\n{text}")


if __name__ == "__main__":
    main()
