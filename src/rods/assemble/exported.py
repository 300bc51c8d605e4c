"""A trained model as a folder that other programs load.

The folder has weights as safetensors, the generation config, the tokenizer with its chat template,
and a model card, README.md.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from jinja2 import Template
from safetensors import SafetensorError

from rods.assemble.engines import SETTLED
from rods.assemble.evaluated import weights_of
from rods.config import ModelSettings
from rods.errors import StoreError
from rods.infra.checkpoints import by_step
from rods.report.results import markdown_table
from rods.report.run_data import load_run
from rods.store import RunDirectory
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model, quiet
from rods.trajectory_codec import read_parquet

PROMPT = 4_000  # characters of a prompt in the card at most
Precision: TypeAlias = Literal["auto", "bfloat16", "float32"]


def export_model(
    name: str, target: Path, run: Path | None = None, dtype: Precision = "auto"
) -> None:
    """Write a whole model; adapters are added to their base in float32, then all is rounded.

    Args:
        name: `model.name`: a folder of weights or adapters, or a name; not read for a `run`.
        run: write its last checkpoint, and its held-out results into the card.
        dtype: of the weights; `auto`: float32 if the run computed in it, else bfloat16.

    Raises:
        StoreError: the folder exists or cannot be written, or the run has no checkpoint.
        PolicyError: the model cannot be loaded.
    """
    if target.exists():
        raise StoreError(f"{target}: it exists already. Name another folder, or move it away.")
    opened = None if run is None else RunDirectory.open(run)
    settled: Any = {} if opened is None else opened.manifest.get(SETTLED, {})
    name = name if run is None else str(Path(weights_of(run)) / "policy")
    model, tokenizer = load_model(ModelSettings(name=name, device="cpu", dtype="float32"))
    if dtype == "bfloat16" or (dtype == "auto" and settled.get("dtype") != "float32"):
        model.to(torch.bfloat16)  # pyright: ignore[reportArgumentType]
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        ModelWeights(model).save(part)
        with quiet():
            tokenizer.save_pretrained(str(part))
        card = _card(target.name, opened, tokenizer)
        (part / "README.md").write_text(card, encoding="utf-8")
        part.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise StoreError(f"{target}: the model could not be written: {error}.") from error


def _card(title: str, run: RunDirectory | None, tokenizer: Any) -> str:
    """The model card, in Markdown with the header that model hubs read."""
    template = Template(Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8"))
    if run is None:
        return template.render(title=title)
    data, config = load_run(run.path), run.config
    about = {"base": Path(config.model.name).name, "table": "\n".join(markdown_table(data))}
    files = by_step(run.trajectories, ".parquet")
    first = next(read_parquet(files[-1]), None) if files else None
    prompt = tokenizer.decode(first.spans[0].ids) if first and first.spans else ""
    if len(prompt) > PROMPT:
        prompt = f"{prompt[:PROMPT]} ... ({len(prompt):,} characters)"
    return template.render(about, title=title, run=data, config=config, prompt=prompt)
