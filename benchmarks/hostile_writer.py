"""Yield of the language-model writer against a chat server that breaks its answers, by mode.

    python benchmarks/hostile_writer.py [--seeds 24] [--share 0.3] [--modes empty http_500]

The server runs on loopback with the scripted author of the tests. Every accepted variant is checked
by all gates again; the command fails if one does not pass, or if a mode takes over ten minutes.
"""

from __future__ import annotations

import random
import sys
import time

from shared import Options

from loopback import MODES, Loopback
from rods.config import SynthesisSettings
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.split import split
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.llm.writer import make_llm_writer
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.writer import WriterOptions
from rods.writers.assembly import keeper_of
from scripted_author import ScriptedAuthor
from yields import Yield

LIMIT = 600.0
"""Seconds after which a mode counts as hanging."""


def main() -> None:
    parser = Options(__doc__, {"seeds": 2, "modes": ["none", "empty"]})
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--modes", nargs="*", default=["none", *MODES])
    options = parser.parse_args()
    sides, environment = split(load_tasks()), BfclEnvironment()
    author = ScriptedAuthor(sides.train, environment)
    keeper = keeper_of(environment, sides.train, sides.held_out)
    seeds = random.Random(2).sample(list(sides.train), options.seeds)
    heads = f"{'accepted':>9}{'tried':>7}{'requests':>9}{'retries':>8}{'seconds':>9}"
    print(f"{'mode':16}{heads}  top reasons")
    bad = 0
    for mode in options.modes:
        hostile = [] if mode == "none" else [mode]
        with Loopback(author, hostile, options.share, seed=1) as server:
            settings = SynthesisSettings(
                writer="llm", llm=LlmWriterSettings(url=server.url, timeout=10.0)
            )
            writer = make_llm_writer(sides.train, environment, WriterOptions(settings, None))
            counted, started = Yield(), time.perf_counter()
            for number, seed in enumerate(seeds):
                outcome = Pipeline(keeper.environment, writer, keeper, 3).make(seed, number)
                counted.add(outcome)
                if outcome.variant is not None:
                    bad += keeper.check(seed, outcome.variant).rejection is not None
            seconds = time.perf_counter() - started
            bad += seconds > LIMIT
            retries = server.count - int(sum(row["calls"] for row in writer.usage().values()))
            reasons = ", ".join(f"{s}:{r} {n}" for (s, r), n in counted.rejected.most_common(3))
            print(
                f"{mode:16}{counted.accepted:>9}{counted.tried:>7}{server.count:>9}{retries:>8}"
                f"{seconds:>9.1f}  {reasons}",
                flush=True,
            )
            writer.close()
    print(f"{bad} accepted variants that fail a gate, or modes that hang")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
