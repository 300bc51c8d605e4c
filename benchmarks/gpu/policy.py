"""A policy of 70 million parameters from nothing, kept as a folder that a later command reads.

`tools/pretrain --kind math` on generated questions: no download is needed. Its folder goes to
`--out`; `against.py` trains it.

    python benchmarks/gpu/policy.py --out policy-70m
    python benchmarks/gpu/policy.py --out /tmp/policy --device cpu --tiny
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run `python -m pretrain`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--tokens", type=int, default=12_000_000)
    parser.add_argument("--kind", default="math", choices=["math", "tools", "search"])
    parser.add_argument("--wheel", default="", help="the benchmark's wheel, for --kind tools")
    found = parser.parse_args()
    hidden, layers, tokens = ("128", "2", "60000") if found.tiny else ("768", "10", found.tokens)
    command = [
        sys.executable, "-m", "pretrain", "--out", found.out, "--kind", found.kind,
        "--hidden", hidden, "--layers", layers, "--tokens", str(tokens), "--device", found.device,
        "--wheel", found.wheel,
    ]  # fmt: skip
    tools = str(Path(__file__).parents[2] / "tools")
    environment = {**os.environ, "PYTHONPATH": tools}
    return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
