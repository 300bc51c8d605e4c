"""Files that commands of pages read: those that other pages, other programs or a reader write.

    inputs = made_once(tmp_path_factory, "page_inputs", make_inputs)
    bring(inputs, ["rods", "check", "--env.tasks", "tasks.jsonl"], place)

Commands get copies, so that none changes what another one reads.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from fake_tokenizer import CHATML
from page_blocks import blocks_of
from places import BENCHMARKS, ROOT, SOURCE
from rods.config import ModelSettings, load_config
from rods.config.bundled import SMOLLM2_BFCL
from rods.registry import recipe_names
from verbs import rods

QWEN3_4B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": True,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936,
    "max_position_embeddings": 262_144,
    "hidden_size": 2560, "num_hidden_layers": 36, "intermediate_size": 9728,
}  # fmt: skip
"""What the `config.json` of Qwen3-4B says of its size. Models of other sizes get it, too."""
HUB = re.compile(r"\b(?:Qwen|models)/[\w.-]+\w")


def make_inputs(folder: Path) -> None:
    """Fill a folder with sets of files, each in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, make in MAKERS.items():
            (folder / name).mkdir()
            patch.chdir(folder / name)
            make(patch)


def bring(inputs: Path, words: Sequence[str], place: Path) -> None:
    """Copy what the words of a command name and what is not in `place` yet.

    A file of the environment's own set goes before one of the same name in another set.
    """
    environment = environment_of(words)
    texts = [word.replace("?", "0") for word in read_by(words)]  # a pattern for runs of seeds
    named = [token for text in texts for token in re.findall(r"\w[\w./-]*\w", text)]
    for token in {*named, *(f"{token}.py" for token in named)}:  # a module is a file, too
        for name in (environment, *MAKERS):
            source, target = inputs / name / token, place / token
            if source.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def environment_of(words: Sequence[str]) -> str:
    """Return the name of the environment that a command names, or that its recipe has."""
    given = dict(pairwise(words))
    recipe, named = given.get("--recipe", "rods"), given.get("--env.name")
    if named is None and recipe in recipe_names():
        named = load_config(recipe, given.get("--profile", "small")).env.name
    return (named or "").removeprefix("./").partition(".")[0]


def read_by(words: Sequence[str]) -> list[str]:
    """Return the words of a command without what it writes."""
    written = ("--out", "--save", ">")
    return [word for before, word in pairwise(["", *words]) if before not in written]


def _page(name: str, language: str) -> list[str]:
    found = blocks_of(ROOT / "docs" / "guides" / name)
    return [block.text for block in found if block.language == language]


def _rods(patch: pytest.MonkeyPatch, line: str) -> None:
    assert not rods(*line.split(), monkeypatch=patch), line


def _write(name: str, rows: Iterable[Any]) -> None:
    Path(name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _desk(patch: pytest.MonkeyPatch) -> None:
    """Class, tasks and reward of the guides on own tools, and what a cold start writes."""
    for name, page in (("desk", "tools"), ("tasks", "tasks"), ("rewards", "rewards")):
        Path(f"{name}.py").write_text(_page(f"{page}.md", "python")[0], encoding="utf-8")
    subprocess.run([sys.executable, "tasks.py"], check=True)
    reward = Path("rewards.py").read_text(encoding="utf-8").replace("thrifty", "my_reward")
    Path("my_module.py").write_text(reward, encoding="utf-8")
    shutil.copytree(SMOLLM2_BFCL, "cold")
    own = "--env.name ./desk.py:desk --env.tasks tasks.jsonl --env.held_out 0.5"
    model = "--profile smollm2 --model smollm2-bfcl"
    _rods(patch, f"demonstrate {own} {model} --n 4 --out cold.parquet")
    _rods(patch, "demonstrate --dialect torl --families add --n 4 --out cold.jsonl")


def _project(patch: pytest.MonkeyPatch) -> None:
    _rods(patch, "init made")
    for path in Path("made").iterdir():
        path.rename(path.name)


def _bfcl(patch: pytest.MonkeyPatch) -> None:
    """Tasks, what a log says of rollouts, and runs that stopped after one of forty updates."""
    _rods(patch, "convert --split train --out tasks.jsonl")
    _rods(patch, "convert --split train --out bfcl_train.parquet --format verl")
    small = "--updates 1 --rollout.tasks_per_step 2 --rollout.generated_tokens 96"
    small += " --evaluation.tasks 2 --evaluation.variants 0 --evaluation.samples 0"
    _rods(patch, f"train {small} --model.threads 1 --out runs/A")
    made = Path("runs/A/manifest.json")
    manifest = json.loads(made.read_text(encoding="utf-8"))
    config = {**manifest["config"], "updates": 40}
    made.write_text(json.dumps({**manifest, "finished": None, "config": config}), encoding="utf-8")
    for name in ("runs/B", "runs/fixed", "runs/rods", "static-0", "rods-0"):
        shutil.copytree("runs/A", name)
    with redirect_stdout(StringIO()) as shown:
        _rods(patch, "eval runs/A --json")
    Path("b.json").write_text(shown.getvalue(), encoding="utf-8")
    suite = "eval --suite bfcl-multi-turn --evaluation.suite.tasks 1 --save trajectories.parquet"
    _rods(patch, f"{suite} --rollout.generated_tokens 32")
    with Path("tasks.jsonl").open(encoding="utf-8") as file:
        names = [json.loads(next(file))["provenance"]["origin"] for _ in range(4)]
    logged = [{"task_id": name, "progress": n / 2} for name in names for n in range(3)]
    _write("rollouts.jsonl", logged)
    Path("rollouts").mkdir()  # verl's dump
    rows = [{"input": row["task_id"], "score": row["progress"]} for row in logged]
    _write("rollouts/1.jsonl", rows)
    _write("log.jsonl", [{**row, "reward": 2 * row["progress"] - 1} for row in logged])


def _python_tool(patch: pytest.MonkeyPatch) -> None:
    """Questions with answers, in the forms of published files."""
    Path("gsm8k").mkdir()
    for first, name in enumerate(("train", "test", "questions", "tasks", "held_out")):
        asked = [(f"How much is {n} + {first}?", str(n + first)) for n in range(10, 18)]
        rows = [
            {
                "data_source": "mine", "prompt": [{"role": "user", "content": question}],
                "reward_model": {"style": "rule", "ground_truth": answer},
            }
            for question, answer in asked
        ]  # fmt: skip
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), f"{name}.parquet")
        plain = [{"question": question, "answer": answer} for question, answer in asked]
        for file in (f"{name}.jsonl", f"gsm8k/{name}.jsonl"):
            _write(file, plain)
        Path(f"{name}.json").write_text(json.dumps(plain), encoding="utf-8")


def _function_call(patch: pytest.MonkeyPatch) -> None:
    """Rows of xLAM: one message and its calls."""
    tool = {"name": "rain", "description": "Forecast.", "parameters": {"city": {"type": "str"}}}
    for name, cities in (("train", ("Oslo", "Rome", "Bern")), ("test", ("Riga", "Nice", "Cork"))):
        rows = [
            {
                "id": n, "query": f"Does it rain in {city}?", "tools": json.dumps([tool]),
                "answers": json.dumps([{"name": "rain", "arguments": {"city": city}}]),
            }
            for n, city in enumerate(cities)
        ]  # fmt: skip
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), f"{name}.parquet")
        Path(f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")


def _repo(patch: pytest.MonkeyPatch) -> None:
    from swe_cases import ROW  # asks the machine for name spaces

    for name in ("swe_gym", "verified"):
        rows = [{**ROW, "instance_id": f"{name}__repo-{n}"} for n in range(4)]
        rows = [{**row, "PASS_TO_PASS": "[]"} for row in rows]  # a list of texts, for Parquet
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), f"{name}.parquet")


def _search(patch: pytest.MonkeyPatch) -> None:
    """The page's documents, and its first question under other ids."""
    question, corpus = _page("search.md", "json")
    Path("corpus.jsonl").write_text(corpus, encoding="utf-8")
    first = question.partition("\n")[0]
    rows = [first.replace('"q1"', f'"q{n}"').replace("How", f"{n}: how") for n in range(4)]
    Path("questions.jsonl").write_text("\n".join(rows), encoding="utf-8")


def _stranger(name: str, patch: pytest.MonkeyPatch) -> None:
    """A class that a page of the research trains on, its tasks, and the world of the first one."""
    for path in (BENCHMARKS / "strangers").glob(f"{name}.*"):
        shutil.copy(path, path.name)
    first = Path(f"{name}.jsonl").read_text(encoding="utf-8").partition("\n")[0]
    _write("states.jsonl", [json.loads(first)["world"]])


def _hub(patch: pytest.MonkeyPatch) -> None:
    """Models that pages and recipes name, without their weights, and adapters of one."""
    from rods.config.bundled import ADAPTER_CONFIG
    from rods.trainers.loading import load_tokenizer

    tokenizer = load_tokenizer(ModelSettings(name="tiny"))
    ends = {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}
    tokenizer.add_special_tokens(ends)  # pyright: ignore
    tokenizer.chat_template = CHATML
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [path.read_text("utf-8") for path in (*pages, *SOURCE.rglob("recipe.toml"))]
    adapters = Path("runs/trl/checkpoint-200")
    shutil.copytree(SMOLLM2_BFCL, adapters)
    made = json.loads((adapters / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    made["base_model_name_or_path"] = "Qwen/Qwen3-0.6B"
    (adapters / ADAPTER_CONFIG).write_text(json.dumps(made), encoding="utf-8")
    for name in {"merged", "FOLDER", *(name for text in texts for name in HUB.findall(text))}:
        tokenizer.save_pretrained(name)
        (Path(name) / "config.json").write_text(json.dumps(QWEN3_4B), encoding="utf-8")
        (Path(name) / "model.safetensors").write_bytes(b"")  # fetched, but of no use


MAKERS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "desk": _desk, "tools": _project, "bfcl": _bfcl, "search": _search,
    "python_tool": _python_tool, "function_call": _function_call, "repo": _repo, "hub": _hub,
    **{name: partial(_stranger, name) for name in ("locker", "restaurant")},
}  # fmt: skip
"""Sets of files by the environment that reads them."""
