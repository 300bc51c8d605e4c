"""`rods sft`: supervised training on good trajectories and on demonstrations (a cold start)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from rods.cli.common import out, say
from rods.config import ModelSettings
from rods.errors import ConfigError, Interrupted, StoreError

if TYPE_CHECKING:
    from rods.trainers.examples import Examples
    from rods.trainers.sft import School, SftFigures

MANIFEST, METRICS, CHECKPOINT = "sft.json", "metrics.jsonl", "checkpoint"
QUIET = 15.0
"""Seconds between two lines of progress where no bar can be drawn."""
RECENT = 50
"""Updates that the card's last loss is a mean of."""


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("sft")(sft)


def sft(
    data: Annotated[
        list[Path] | None,
        typer.Argument(help="JSON lines of demonstrations, Parquet trajectories, or runs."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", help="Where the model goes; must be new.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on in this folder, as it was started.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="tiny, tiny-math, tiny-search, a folder, a hub name.")
    ] = "",
    lora_rank: Annotated[int, typer.Option(min=0, help="0 trains all weights.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0: all.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the examples.")] = 2,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an update.")] = 16_384,
    microbatch_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a forward pass.")
    ] = 16_384,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-5,
    schedule: Annotated[str, typer.Option(help="cosine or constant.")] = "cosine",
    warmup: Annotated[float, typer.Option(min=0, max=1, help="Share of the updates.")] = 0.03,
    least: Annotated[
        float, typer.Option(help="Least progress reward of a trajectory; 1: only solved ones.")
    ] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Longer examples are left out; 0: the model's context.")
    ] = 0,
    checkpoint_updates: Annotated[
        int, typer.Option(min=1, help="Updates between two checkpoints.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order.")] = 0,
) -> None:
    """Train a model on what good trajectories and demonstrations say; nothing else has a loss."""
    if resume is not None:
        _run(resume, _read_manifest(resume))
        return
    if not data or target is None or not model:
        raise ConfigError("rods sft needs data, --model and --out; or --resume FOLDER.")
    if schedule not in ("cosine", "constant"):
        raise ConfigError(f"--schedule {schedule!r}: expected cosine or constant.")
    if device not in ("auto", "cpu", "cuda") or lr <= 0:
        raise ConfigError(f"--device {device} --lr {lr}: expected auto, cpu or cuda, and lr > 0.")
    if target.exists():
        raise StoreError(
            f"{target}: exists. Choose another folder; or go on with an unfinished training by "
            f"`rods sft --resume {target}`."
        )
    manifest: dict[str, Any] = {
        "data": [str(path) for path in data],
        "model": {"name": model, "lora_rank": lora_rank, "device": device, "threads": threads},
        "settings": {
            "epochs": epochs,
            "batch_tokens": batch_tokens,
            "microbatch_tokens": microbatch_tokens,
            "lr": lr,
            "schedule": schedule,
            "warmup": warmup,
        },
        "least": least,
        "max_tokens": max_tokens,
        "checkpoint_updates": checkpoint_updates,
        "seed": seed,
    }
    _run(target, manifest)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if (folder / "card.json").exists():
        raise StoreError(f"{folder}: this training is finished; there is nothing to resume.")
    try:
        return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; expected a folder of `rods sft`.") from error
    except ValueError as error:
        raise StoreError(f"{path}: not JSON: {error}. The folder is damaged.") from error


def _run(folder: Path, manifest: dict[str, Any]) -> None:
    """Learn from the beginning, or from the last checkpoint."""
    from rods.infra.files import write_atomic

    school, examples = _open(manifest)
    found = {"examples": len(school.samples), "digest": examples.digest()}
    if manifest.get("digest", found["digest"]) != found["digest"]:
        raise StoreError(
            f"{folder}: the data are not those that this training began with "
            f"({found['examples']} examples, {manifest['examples']} before). Start anew."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / MANIFEST, json.dumps({**manifest, **found}, indent=2) + "\n")
    if (folder / CHECKPOINT).exists():
        school.load(folder / CHECKPOINT)
    say(
        f"{len(school.samples)} examples, {examples.tokens} tokens; left out: {examples.failed} "
        f"that failed, {examples.long} too long. Update {school.step} of {school.total}."
    )
    figures = _learn(folder, school, manifest["checkpoint_updates"])
    school.finish(folder, _card(manifest, school, examples, figures))
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    first, last = _loss(figures[:RECENT]), _loss(figures[-RECENT:])
    out().print(f"loss {first:.3f} -> {last:.3f} in {school.total} updates; saved in {folder}")


def _open(manifest: dict[str, Any]) -> tuple[School, Examples]:
    from rods.rollout.template import ChatTemplate
    from rods.trainers.examples import read_examples
    from rods.trainers.loading import load_model
    from rods.trainers.sft import School, SftSettings

    chosen = ModelSettings(**manifest["model"])
    model, tokenizer = load_model(chosen)
    config: Any = model.config
    most = manifest["max_tokens"] or int(getattr(config, "max_position_embeddings", 0) or 1 << 20)
    embedding: Any = model.get_input_embeddings()
    examples = read_examples(
        [Path(path) for path in manifest["data"]],
        ChatTemplate(tokenizer),
        vocabulary=len(embedding.weight),
        most=most,
        least=manifest["least"],
    )
    settings = SftSettings(**manifest["settings"])
    school = School(model, tokenizer, examples.samples, settings, chosen, manifest["seed"])
    return school, examples


def _learn(folder: Path, school: School, every: int) -> list[dict[str, Any]]:
    """The updates that are left; returns the log of all."""
    from rods.infra.interrupt import ctrl_c

    log = folder / METRICS
    figures = _kept(log, school.step)
    with _progress(school) as show, ctrl_c() as stopped, log.open("a", encoding="utf-8") as lines:
        for update in school.updates():
            record = update.record()
            figures.append(cast("dict[str, Any]", record))
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            show(update)
            if update.step < school.total and (stopped() or update.step % every == 0):
                school.save(folder / CHECKPOINT)
            if update.step < school.total and stopped():
                raise Interrupted(
                    f"stopped after update {update.step}. Go on with: rods sft --resume {folder}"
                )
    school.save(folder / CHECKPOINT)
    return figures


def _kept(log: Path, step: int) -> list[dict[str, Any]]:
    """The records up to the checkpoint; later ones are cut, their updates are made again."""
    if not log.exists():
        return []
    *lines, _torn = log.read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    log.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    return [json.loads(line) for line in kept]


def _loss(figures: Sequence[dict[str, Any]]) -> float:
    return sum(f["loss"] for f in figures) / max(1, len(figures))


def _card(
    manifest: dict[str, Any], school: School, examples: Examples, figures: list[dict[str, Any]]
) -> dict[str, Any]:
    base = Path(manifest["model"]["name"])
    data = [Path(path).name for path in manifest["data"]]
    words = [f"--{k.replace('_', '-')} {v}" for k, v in manifest["settings"].items()]
    rank = manifest["model"]["lora_rank"]
    command = ["rods sft", *data, f"--model {base.name}", *words, f"--seed {manifest['seed']}"]
    return {
        "command": " ".join([*command, f"--lora-rank {rank}"]),
        "model": base.name,
        "data": data,
        "digest": examples.digest(),
        "examples": len(examples.samples),
        "left_out": {"failed": examples.failed, "long": examples.long},
        "tokens": examples.tokens,
        "trained_tokens": sum(s.sampled for s in examples.samples),
        "updates": school.total,
        "loss_first": round(_loss(figures[:RECENT]), 4),
        "loss": round(_loss(figures[-RECENT:]), 4),
        "seconds": round(sum(f["seconds"] for f in figures)),
        "seed": manifest["seed"],
    }


@contextmanager
def _progress(school: School) -> Generator[Any]:
    """A bar; where none can be drawn, a line now and then."""
    said = time.monotonic()
    with Progress(
        SpinnerColumn(),
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        "{task.fields[note]}",
        console=Console(stderr=True),
    ) as bar:
        line = bar.add_task("learning", total=school.total, completed=school.step, note="")

        def show(update: SftFigures) -> None:
            nonlocal said
            speed = update.tokens / max(update.seconds, 1e-9)
            note = f"loss {update.loss:.3f}  {speed:.0f} tok/s  lr {update.lr:.1e}"
            bar.update(line, completed=update.step, note=note)
            last = update.step == update.total
            if not bar.console.is_terminal and (last or time.monotonic() - said > QUIET):
                said = time.monotonic()
                say(f"update {update.step} of {update.total}: {note}")

        yield show
