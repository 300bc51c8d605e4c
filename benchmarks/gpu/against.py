"""RODS against the fixed pool on the policy that `policy.py` made: one seed each, equal budgets.

Two arms of `rods experiment math` with that policy, or with `--kind tools` of `rods experiment
bfcl`: the same tasks, updates and held-out evaluation. More seeds are more commands (`--seeds 1`);
finished runs in `--out` are kept, and what was killed goes on.

    python benchmarks/gpu/against.py --policy policy-70m --out runs/against
    python benchmarks/gpu/against.py --policy tools-70m --kind tools --wheel FILE --out runs/bfcl
    python benchmarks/gpu/against.py --policy /tmp/policy --out /tmp/against --device cpu --tiny
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

EXPERIMENTS = {"math": "math", "tools": "bfcl"}
TINY = {
    "math": {"env.questions.count": "40"},
    "tools": {"evaluation.variants": "4", "evaluation.tasks": "2"},
}


def main() -> int:
    """Run `rods experiment`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", required=True, type=Path)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument(
        "--kind", default="math", choices=[*EXPERIMENTS], help="as policy.py has it"
    )
    parser.add_argument("--wheel", default="", help="the benchmark's wheel, for --kind tools")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--parallel", default="2", help="runs at once on the same GPU")
    found = parser.parse_args()
    settings = {"model.name": str(found.policy.resolve()), "model.device": found.device}
    if found.wheel:
        settings["env.bfcl.wheel"] = found.wheel
    if found.tiny:
        settings |= {"updates": "2", "env.train_tasks": "8", "rollout.tasks_per_step": "2",
                     "evaluation.every": "0", **TINY[found.kind]}  # fmt: skip
    command = [
        sys.executable, "-m", "rods.cli.main", "experiment", EXPERIMENTS[found.kind],
        "--arms", "fixed,rods", "--seeds", found.seeds, "--out", found.out,
        "--parallel", found.parallel,
        *(word for key, value in settings.items() for word in (f"--{key}", value)),
    ]  # fmt: skip
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
