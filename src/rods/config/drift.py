"""Settings of a run that a resume may change.

Owns the lists, and the refusal of all other changes unless drift is allowed.

    require_same(f"{path}", made.changed(asked), drift=False)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rods.config.run import RunConfig
from rods.errors import StoreError
from rods.infra.dotted import within

SAVED = ("seed", "env", "model", "curriculum", "stages", "train.local", "train.advantage")
"""Settings, or sections of them, that shape the saved state: a resume never changes them."""
LENGTH = ("updates", "trajectories", "evaluation")
"""Length of training and evaluation. They change no update but by a schedule that is spread over
them, which is reported; compared runs must have the same values."""
FILES = ("env.tasks", "static.variants")
"""Files of tasks. The saved state refuses a pool of other tasks than its own."""
PLACES = frozenset(
    {
        "model.threads", "env.options.token", "engine.folder", "engine.vllm.command",
        "rollout.concurrency", "rollout.seconds", "rollout.max_invalid",
        "ray.address", "ray.worlds", "ray.writers", "ray.cpus", "engine.url", "engine.timeout",
        "rollout.worlds.starting", "rollout.worlds.running", "rollout.worlds.judging",
        "rollout.worlds.call_seconds", "rollout.worlds.processes",
        "synthesis.drain_seconds", "engine.vllm.memory", "engine.vllm.sleep",
        "train.local.checkpoint_steps", "train.local.microbatch_tokens",
        "train.local.gradient_checkpointing", "train.local.memory_gib",
    }
)  # fmt: skip
"""Settings, or sections of them, of machine, speed and time limits; plug-ins declare their own."""


def may_change(compared: bool = False) -> frozenset[str]:
    """Return settings, or sections of them, that a resume may change.

    They are length, evaluation, files, machine, speed and time limits; without the first three for
    runs that are `compared`. The manifest records a change. After it, sums may round differently,
    and variants of a server may arrive sooner or later.
    """
    free = {f"{at}{name}" for at, section in RunConfig.walk() for name in section.places}
    if not compared:
        free |= {f"{at}{name}" for at, section in RunConfig.walk() for name in section.data_files}
        free |= {*LENGTH, *FILES}
    return PLACES | free


def deciding(changes: Iterable[str], free: Collection[str]) -> list[str]:
    """Return the changes, each `key: before -> after`, that affect results.

    Keys and sections in `free` do not.
    """
    return [text for text in changes if not _among(text, free)]


def require_same(path: str, changes: Iterable[str], drift: bool) -> None:
    """Raise `StoreError` for changes of settings that affect the results of the run at `path`.

    With `drift` they may change, except those in `SAVED`.
    """
    wrong = [text for text in deciding(changes, may_change()) if not moved(text)]
    fixed = [text for text in wrong if _among(text, SAVED)]
    if fixed and drift:
        raise StoreError(
            f"{path}: the saved state depends on these settings, which no resume can change: "
            f"{'; '.join(fixed)}. Resume without them, or start a new run."
        )
    if wrong and not drift:
        raise StoreError(
            f"{path}: these settings affect results and differ from those of the run: "
            f"{'; '.join(wrong)}. Resume without them, or start a new run. (A resume may change "
            "length of training, evaluation, places of files and servers, and speed. With "
            "--allow-drift it may change most others; the change is recorded.)"
        )


def respread(before: RunConfig, now: RunConfig) -> Iterator[str]:
    """Yield what a resume with another length continues as if that had been set at first."""
    hints = now.curriculum == "envtuning" and not now.envtuning.hints
    for name, rate in (("updates", now.train.schedule == "cosine"), ("trajectories", False)):
        old, new = getattr(before, name), getattr(now, name)
        as_if = f"as if {name} = {new} had been set at first, not {old}"
        if rate and old != new:
            yield f"the learning rate continues {as_if} (train.schedule = 'cosine')"
        if hints and old != new:
            yield f"epochs get hints {as_if} (envtuning.hints is empty)"


def moved(change: str) -> bool:
    """Return true if a change names the same thing in a file of the same name elsewhere."""
    files = [text.rpartition("/")[2] for text in change.partition(": ")[2].split(" -> ")]
    return ".py:" in files[0] and len(set(files)) == 1


def _among(change: str, names: Collection[str]) -> bool:
    return within(change.partition(":")[0], names)
