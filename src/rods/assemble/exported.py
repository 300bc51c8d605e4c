"""A trained model as a folder that other programs load.

Owns what is merged, the precision in which it is written, and the model card. The folder has
weights as safetensors, the generation config, the tokenizer with its chat template, and README.md.

    export_model("smollm2-bfcl", Path("agent"))             # or a folder, with `run=` a run
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from safetensors import SafetensorError

from rods.assemble.engines import SETTLED
from rods.assemble.evaluated import weights_of
from rods.config import ModelSettings
from rods.errors import StoreError
from rods.report.results import markdown_table
from rods.report.run_data import load_run
from rods.store import RunDirectory
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.loading import load_model, quiet

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
    part = target.with_name(f"{target.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        ModelWeights(model).save(part)
        with quiet():
            tokenizer.save_pretrained(str(part))
        (part / "README.md").write_text(_card(target.name, opened), encoding="utf-8")
        part.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise StoreError(f"{target}: the model could not be written: {error}.") from error


def _card(title: str, run: RunDirectory | None) -> str:
    """The model card, in Markdown with the header that model hubs read."""
    lines = ["---", "library_name: transformers", "tags: [tool-use, reinforcement-learning, rods]"]
    lines += ["---", "", f"# {title}", "", "A language model that calls tools, exported by RODS."]
    if run is None:
        return "\n".join([*lines, ""])
    data, base, environment = load_run(run.path), run.config.model, run.config.env.name
    adapters = f", LoRA adapters of rank {base.lora_rank}, merged" if base.lora_rank else ""
    lines += [
        "",
        f"* Trained by `{data.manifest.get('command', 'rods train')}`.",
        f"* Base model: `{Path(base.name).name}`{adapters}; {len(data.steps)} updates.",
        f"* Environment: `{environment}`. Tools are described to the model, and its calls are",
        f"  read, in the dialect `{base.dialect}`; other programs have to write prompts likewise.",
        "",
        "## Held-out results",
        "",
        *markdown_table(data),
        "",
        "Before and after training, with the paired 95 % interval by scenario.",
        "",
    ]
    return "\n".join(lines)
