"""`rods export`: a trained model as a folder for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rods.cli.common import say


def export(
    source: Annotated[
        str,
        typer.Argument(help="A run, a checkpoint, a model or its adapters: folder or name."),
    ],
    target: Annotated[Path, typer.Option("--out", help="Folder that is made.")],
    dtype: Annotated[
        Literal["auto", "bfloat16", "float32"],
        typer.Option(help="Of the weights; auto: float32 if the run computed in it."),
    ] = "auto",
) -> None:
    """Write a trained model, adapters merged, for other programs.

    Beside the weights: generation config, tokenizer, chat template, and a model card with the
    held-out results of the run.
    """
    from rods.assemble.exported import export_model
    from rods.cli.evaluate import located

    run, name = located(source, None, "")
    export_model(name, target, run, dtype)
    say(f"{target}: for example, transformers' from_pretrained({str(target)!r})")
