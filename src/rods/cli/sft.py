"""`rods sft`: supervised training on good trajectories and demonstrations (a cold start)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods.cli import common
from rods.cli.common import READS, AsJson, Resume, overrides_of, print_results, say
from rods.config import ModelSettings, parse_config
from rods.errors import ConfigError, Interrupted, StoreError
from rods.infra.claims import claimed
from rods.infra.dotted import override
from rods.infra.interrupt import ctrl_c
from rods.infra.text import counted, quoted
from rods.store import RunDirectory, new_run_dir, require_free

if TYPE_CHECKING:
    from rods.trainers.examples import Examples
    from rods.trainers.sft import SftTrainer

KIND = "sft"
CHECKPOINT_SECONDS = 180.0
"""Longest time between checkpoints, unless writing one takes over a twentieth of it."""
RECENT = 50  # updates that the card averages for its first and last loss, at most half of all
ALSO = ("resume", "target", "updates", "as_json")  # parameters that a resumed training may have


def sft(
    context: typer.Context,
    data: Annotated[
        list[Path] | None,
        typer.Argument(help="Demonstrations (JSON lines or Parquet), trajectories, or runs."),
    ] = None,
    target: Annotated[Path | None, typer.Option("--out", help="New folder for the model.")] = None,
    resume: Resume = None,
    model: Annotated[
        str, typer.Option(help="Bundled name, such as tiny; folder; .gguf file; Hugging Face name.")
    ] = "",
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write only the adapters, not merged weights.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the examples.")] = 2,
    updates: Annotated[
        int, typer.Option(min=0, help="Stop after so many updates; 0: no limit. Also for --resume.")
    ] = 0,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens in one update.")] = 16_384,
    warmup_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the updates with a linear warm-up.")
    ] = 0.03,
    least: Annotated[
        float, typer.Option(help="Lowest progress reward to learn from; 1: solved trajectories.")
    ] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Leave out longer examples; 0: the model's context.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the examples' order.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a model on solved conversations (supervised).

    Only the assistant's messages of good trajectories and demonstrations carry loss.

    \b
    Settings, as --section.key VALUE:
      --model.lora_rank, --model.device, --model.dtype, --model.threads
      --train.lr (1e-5; with LoRA 1e-3), --train.schedule (cosine)
      --train.local.microbatch_tokens (4096)
    """
    asked = overrides_of(context.args, "sft")
    given: dict[str, Any] = {"train": {"schedule": "cosine", "local": {"microbatch_tokens": 4096}}}
    if resume is not None:
        common.resumed(target, resume)
        _require_nothing_else(context, resume, asked)
        _resume(resume, updates)
        return
    if not data or target is None or not model:
        raise ConfigError("rods sft needs data, --model and --out, or --resume FOLDER.")
    for text in (f"model.name={json.dumps(model)}", *asked):
        override(given, text)
    config = parse_config(given, "command line")
    rank = config.model.lora_rank
    rate = config.train.lr if "lr" in given["train"] else 1e-3 if rank else 1e-5
    if adapter and not rank:
        raise ConfigError("--adapter needs adapters. Set --model.lora_rank, or leave it out.")
    settings = {
        "epochs": epochs, "updates": updates, "batch_tokens": batch_tokens,
        "warmup_share": warmup_share, "lr": rate, "schedule": config.train.schedule,
        "microbatch_tokens": config.train.local.microbatch_tokens,
    }  # fmt: skip
    model_settings = config.model.model_dump(exclude={"dialect"})
    chosen = {"data": [*map(str, data)], "model": model_settings, "settings": settings}
    others = {"adapter": adapter, "least": least, "max_tokens": max_tokens, "seed": seed}
    context.with_resource(claimed(target, "folder"))
    _begin(target, {**chosen, **others})


def _require_nothing_else(context: typer.Context, resume: Path, asked: list[str]) -> None:
    """Raise `ConfigError` for options beside `--resume`."""
    named = common.named_options(context, [name for name in context.params if name not in ALSO])
    others = [*(f"--{text}" for text in asked), *named]
    if others:
        raise ConfigError(
            f"--resume {resume} continues with its own settings; only --updates may change. "
            f"Leave out {' '.join(others)}."
        )


def _begin(target: Path, chosen: dict[str, Any]) -> None:
    """Make the folder and train from the start; a failed start leaves no folder."""
    from rods.trainers.examples import require_examples

    require_examples([Path(path) for path in chosen["data"]])  # before torch is imported
    require_free(target)
    trainer, examples = _open(chosen)
    run = RunDirectory.begin(
        new_run_dir(target.parent, target.name),
        {"config": chosen, "digest": examples.digest(), "examples": len(examples.samples)},
        KIND,
    )
    _learn(run, chosen, trainer, examples)


def _resume(folder: Path, updates: int) -> None:
    """Continue from the last checkpoint, up to `updates` in all; 0: as planned."""
    made = RunDirectory.open(folder, KIND).manifest
    if made.get("kind") == KIND and made["finished"]:
        raise StoreError(
            f"{folder}: this training is finished; nothing was changed. Train its model further in "
            f"a new folder: rods sft DATA --model {quoted(folder)} --out NEW."
        )
    run = RunDirectory.resume(folder, kind=KIND)
    chosen: Any = run.manifest["config"]
    settings, planned = chosen["settings"], chosen["settings"].get("updates", 0)
    settings["updates"] = updates or planned
    trainer, examples = _open(chosen)
    if run.manifest["digest"] != examples.digest():
        raise StoreError(
            f"{folder}: the data differ from those that this training began with "
            f"({len(examples.samples)} examples, {run.manifest['examples']} before). Start a new "
            "training."
        )
    checkpoint = run.latest_checkpoint()
    if checkpoint is not None:
        trainer.load(checkpoint.path / "policy")
    if trainer.step > trainer.total:
        raise ConfigError(
            f"--updates {updates}: {folder} has {counted(trainer.step, 'update')}. Give no fewer."
        )
    if settings["schedule"] == "cosine" and settings["updates"] != planned:
        say(f"the learning rate continues as in a training of {counted(trainer.total, 'update')}")
    if updates:
        before: Any = run.manifest.get("changes") or []
        run.update_manifest(config=chosen, changes=[*before, [trainer.step, updates]])
    _learn(run, chosen, trainer, examples)


def _open(chosen: dict[str, Any]) -> tuple[SftTrainer, Examples]:
    from rods.rollout.template import ChatTemplate
    from rods.trainers.examples import read_examples
    from rods.trainers.loading import load_model, positions_of
    from rods.trainers.sft import SftSettings, SftTrainer

    model_settings = ModelSettings(**chosen["model"])
    model, tokenizer = load_model(model_settings)
    positions, longest = positions_of(model.config), chosen["max_tokens"]
    if 0 < positions < longest:
        raise ConfigError(
            f"--max-tokens {longest}: model {model_settings.name!r} has positions for "
            f"{positions:,} tokens. Give no more, or leave it out."
        )
    embedding: Any = model.get_input_embeddings()
    limits = {"vocabulary": len(embedding.weight), "most": longest or positions or 1 << 20}
    data = [Path(path) for path in chosen["data"]]
    examples = read_examples(data, ChatTemplate(tokenizer), **limits, least=chosen["least"])
    how = (SftSettings(**chosen["settings"]), model_settings, chosen["seed"])
    return SftTrainer(model, tokenizer, examples.samples, *how), examples


def _learn(
    run: RunDirectory, chosen: dict[str, Any], trainer: SftTrainer, examples: Examples
) -> None:
    """Run the remaining updates and write the finished policy."""
    say(
        f"{len(trainer.samples)} examples, {examples.tokens} tokens; left out: {examples.failed} "
        f"that failed, {examples.long} too long. Update {trainer.step} of {trainer.total}."
    )
    saved, took = time.monotonic(), 0.0
    with common.progress("updates", trainer.total, trainer.step) as show, ctrl_c() as stopped:
        for update in trainer.updates():
            run.log({"kind": KIND, **update._asdict()})
            pace = f"{update.tokens / max(update.seconds, 1e-9):.0f} tok/s"
            show(update.step, f"loss {update.loss:.3f}  {pace}  lr {update.lr:.1e}")
            last = update.step == trainer.total
            if stopped() or last or is_due(time.monotonic() - saved, took):
                began = time.monotonic()
                with run.checkpoint(update.step) as folder:
                    trainer.save(folder / "policy")
                saved = time.monotonic()
                took = saved - began
            if stopped() and not last:
                again = f"rods sft --resume {quoted(run.path)}"
                raise Interrupted(f"stopped after update {update.step}. Continue: {again}")
    figures: list[dict[str, Any]] = list(run.metrics())
    card = {**_card(chosen, trainer, examples, figures), "changes": run.manifest.get("changes", [])}
    trainer.finish(run.path, card, adapter=chosen.get("adapter", False))
    run.finish()
    shutil.rmtree(run.checkpoints.folder)
    first = f"{card['loss_first']:.3f} -> " * (trainer.total > 1)
    done = counted(trainer.total, "update")
    end = f"loss {first}{card['loss']:.3f} in {done}; saved in {run.path}"
    print_results({"out": run.path, **card}, end)


def is_due(since: float, took: float) -> bool:
    """Return true if a checkpoint is due: after some minutes, later if the last one took long."""
    return since > max(CHECKPOINT_SECONDS, 20 * took)


def _loss(figures: Sequence[dict[str, Any]]) -> float:
    return sum(f["loss"] for f in figures) / max(1, len(figures))


def _card(
    chosen: dict[str, Any], trainer: SftTrainer, examples: Examples, figures: list[dict[str, Any]]
) -> dict[str, Any]:
    base = Path(chosen["model"]["name"]).name
    data = [Path(path).name for path in chosen["data"]]
    named = {key.rpartition(".")[2]: key for key in READS["sft"]}
    rows = chosen["settings"].items()
    words = [f"--{named.get(key, key.replace('_', '-'))} {value}" for key, value in rows]
    recent = max(1, min(RECENT, len(figures) // 2))
    command = ["rods sft", *data, f"--model {base}", *words, f"--seed {chosen['seed']}"]
    command += [f"--model.lora_rank {chosen['model']['lora_rank']}"]
    command += ["--adapter"] * bool(chosen.get("adapter"))
    return {
        "command": " ".join(command), "model": base, "data": data, "digest": examples.digest(),
        "examples": len(examples.samples),
        "left_out": {"failed": examples.failed, "long": examples.long},
        "tokens": examples.tokens, "trained_tokens": sum(s.sampled for s in examples.samples),
        "updates": trainer.total, "loss_first": round(_loss(figures[:recent]), 4),
        "loss": round(_loss(figures[-recent:]), 4),
        "seconds": round(sum(f["seconds"] for f in figures)), "seed": chosen["seed"],
    }  # fmt: skip
