"""The output of `--dry-run`: a summary of at most 40 lines, and all of it as data for `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from textwrap import TextWrapper
from typing import Any

from rods.assemble import outlook, pool_sizes, stage_lines
from rods.assemble.refusals import require_named, startable
from rods.assemble.tasks import Splits
from rods.config import FULL, RunConfig, Start, load_config
from rods.config.bundled import require_name
from rods.errors import ConfigError, PolicyError, PrerequisiteError
from rods.registry import provides
from rods.store import RunDirectory
from rods.writers import in_words

TEXT = TextWrapper(108, "", "  ", break_long_words=False, break_on_hyphens=False)
TEXT.max_lines, TEXT.placeholder = 12, " ... (--json has all)"
MOST = 6  # texts of one row


class Outline:
    """A training that is not started: `data`, and the rows of its summary."""

    def __init__(
        self, config: RunConfig, start: Start, evaluates: bool = True, resume: Path | None = None
    ) -> None:
        """Compare with the recipe and read the tasks; raises what training would raise.

        Args:
            evaluates: the training has held-out tasks; false: it is another trainer's.
            resume: a run that goes on, to compare with instead.
        """
        name, profile = start.recipe, start.profile or FULL
        changed = start.overrides
        with suppress(ConfigError):  # a recipe may need a setting from the command line
            if resume:
                changed = RunDirectory.open(resume).config.changed(config)
            elif name:
                ours, theirs = load_config(*start[:2]).env.name, config.env.name
                new = [f"env.name={theirs}"] * (ours != theirs)  # its defaults are no change
                changed = load_config(*start[:2], overrides=new).changed(config)
                changed += [f"env.name: {ours} -> {theirs}"] * len(new)
        changed = sorted(changed, key=lambda one: one.startswith("stages."))
        self.config, self.rows, self.evaluates = config, list[tuple[str, str]](), evaluates
        self.splits: Splits | None = None  # None: the tasks need what is not installed
        self.data: dict[str, Any] = {"recipe": name, "profile": profile, "changed": changed}
        self.data["settings"] = config.model_dump(mode="json")
        rank = config.model.lora_rank
        how = f"profile {profile}, curriculum {config.curriculum}, seed {config.seed}"
        self.add("recipe", f"{name}, {how}" if name else how)
        self.add("changed", *changed)
        trained = f"adapters of rank {rank}" if rank else "all weights"
        self.add("model", f"{config.model.name}: {trained} are trained")
        self._add_tasks()
        if config.grows:
            self.add("variants", f"written by {in_words(config.synthesis)}")

    def add(self, name: str, *texts: str, most: int = MOST) -> None:
        """Add a row with a line for each text, or for the first `most` of many."""
        more = f"and {len(texts) - most} more (--json)"
        texts = texts if len(texts) <= most + 1 else (*texts[:most], more)
        self.rows += [("" if i else name, text) for i, text in enumerate(texts)]

    def _add_tasks(self) -> None:
        config, rollout, originals = self.config, self.config.rollout, ()
        require_named(config)
        try:
            self.splits = splits = startable(config, self.evaluates)
            originals = splits.originals
            self.add("tasks", outlook(config, splits, not self.evaluates))
            self.data["tasks"] = {"training": len(originals), "held_out": len(splits.held_out)}
        except PrerequisiteError as error:  # such as BFCL without a network
            if config.env.tasks:
                raise
            self.add("tasks", f"not read: {error}")
        self.add("stages", *stage_lines(config, originals, not self.evaluates))
        length = f"at most {config.updates}" if config.updates else "until the stages end"
        few = 0 < (drawn := pool_sizes(config, originals)[0]) < rollout.tasks_per_step
        most = few and self.evaluates  # another trainer's batch is full: it draws tasks again
        size = f"{'at most ' * most}{rollout.tasks_per_step} tasks x {rollout.k} rollouts"
        size += f" (at first {drawn}{' different ones' * (not most)})" * few
        self.add("updates", f"{length}, each of {size}")

    def add_host(self, name: str, given: Mapping[str, object]) -> None:
        """Add what another trainer gets beside its own defaults."""
        self.data[name] = given
        self.add(name, ", ".join(f"{key} {value}" for key, value in given.items()))

    def add_memory(self, folder: str, resume: Path | None) -> None:
        """Add the plan of the memory; raises `ConfigError` if it does not fit."""
        try:
            require_name(self.config.model.name)
            from rods.assemble.engines import with_engine, with_room  # torch, behind the refusals
            from rods.trainers import memory
            from rods.trainers.loading import load_architecture

            shape = memory.shape_of(load_architecture(self.config.model))
        except PolicyError as error:
            raise PolicyError(f"{error}\nSo the memory was not planned.") from error
        device = memory.device_of(self.config, here=False)
        config, why = with_engine(self.config, shape.parameters, device.on_gpu)
        planned = memory.plan_of(shape, config, device.on_gpu)
        lines = [*memory.table(planned, device), *([why] if why else [])]
        self.data["memory"] = {item.name: item.bytes / memory.GIB for item in planned.items}
        room = "the GPU is not in this machine, so its host's memory and disk were not checked"
        if memory.is_here(device):  # runs beside it are not its own
            device = with_room(device, resume or Path(folder or "runs") / "new")
            free, host = device.disk / memory.GIB, device.host / memory.GIB
            room = f"{free:.2f} GiB  free on disk; {host:.2f} in the host's memory"
        self.add("memory", *map(str.strip, [*lines, room]), most=99)
        memory.require_fit(shape, config, device, where="")  # the rows above have all of it

    def add_time(self, run: Path | None) -> None:
        """Add the time, as far as it is known: a `run` that resumes has made updates."""
        rows: list[Any] = [*RunDirectory.open(run).metrics()] if run else []
        each = [r["seconds_rollout"] + r["seconds_update"] for r in rows if r["kind"] == "step"]
        known = provides().get(self.data["recipe"], {}).get("time", {})
        time = "unknown; --updates 2 measures it: its report has the seconds of an update"
        if each and (left := self.config.updates - len(each)) > 0:
            time = f"{left * median(each) / 60:.0f} minutes for the updates that are left: {left}"
        elif (own := known.get(self.data["profile"])) and not self.data["changed"]:
            time = own
        self.add("time", time)

    def text(self) -> str:
        """Return the summary."""
        rows = ((f"{name:12}", TEXT.wrap(text)) for name, text in self.rows)
        return "\n".join(name + f"\n{'':12}".join(lines) for name, lines in rows)
