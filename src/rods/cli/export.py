"""`rods export`: write a trained model as a folder for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rods.cli.common import AsJson, Source, print_results, say
from rods.cli.evaluate import located
from rods.infra.claims import claimed


def export(
    source: Source,
    target: Annotated[Path, typer.Option("--out", help="Folder to write; must be new.")],
    dtype: Annotated[
        Literal["auto", "bfloat16", "float32"],
        typer.Option(help="Precision of the weights; auto: float32 if the run computed in it."),
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Write a trained model, adapters merged, for other programs.

    The folder also holds the generation config, the tokenizer, the chat template, and a model
    card with the held-out results of the run.
    """
    run, name = located(source)  # before torch is imported
    with claimed(target):
        from rods.assemble.exported import export_model

        export_model(name, target, run, dtype)
    print_results({"out": target, "files": sorted(path.name for path in target.iterdir())})
    load = f"AutoModelForCausalLM.from_pretrained({str(target)!r})"
    say(f"The model is in {target}. In transformers, load it with {load}.")
