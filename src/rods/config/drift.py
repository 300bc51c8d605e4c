"""What a resume may change of a run's settings.

Owns the lists and the refusal of all between them, unless drift is allowed.

    require_same(f"{path}", made.changed(asked), drift=False)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rods.errors import StoreError
from rods.infra.dotted import within

SAVED = ("seed", "env", "model", "curriculum", "stages", "train.local", "train.advantage")
"""Settings, or sections of them, that the saved state is made of: a resume never changes them."""
LENGTH = ("updates", "trajectories", "evaluation")
"""How long a run trains and what it is evaluated on: they change no update. Runs that are compared
must have the same."""
FILES = ("env.tasks", "static.variants", "env.search.corpus")
"""Where tasks and documents are. The saved state refuses a pool of other tasks than its own."""
MAY_CHANGE = frozenset(
    {
        *LENGTH,
        *FILES,
        *("model.threads", "env.bfcl.wheel", "env.python_tool.sandbox"),
        *("env.remote.url", "env.options.token", "engine.folder"),
        *("rollout.concurrency", "rollout.seconds", "rollout.max_invalid"),
        *("ray.address", "ray.worlds", "ray.writers", "ray.cpus", "engine.url", "engine.timeout"),
        *("rollout.worlds.starting", "rollout.worlds.running", "rollout.worlds.judging"),
        *("rollout.worlds.call_seconds", "rollout.worlds.processes"),
        *("synthesis.llm.url", "synthesis.llm.concurrency", "synthesis.llm.timeout"),
        *("synthesis.drain_seconds", "synthesis.llm.price"),
        *("train.local.checkpoint_steps", "train.local.microbatch_tokens"),
        *("train.local.gradient_checkpointing", "train.local.memory_gib", "track"),
    }
)
"""Settings, or sections of them, of length, evaluation, files, machine, speed and patience: a
resume may change them, the manifest remembers it. Sums may round otherwise after a change, and what
a server writes may come sooner or later."""


def deciding(changes: Iterable[str], free: Collection[str] = MAY_CHANGE) -> list[str]:
    """Changes, each `key: before -> after`, that alter what a run does.

    They are of no key, and of no section, in `free`.
    """
    return [text for text in changes if not _among(text, free)]


def require_same(path: str, changes: Iterable[str], drift: bool) -> None:
    """Raise `StoreError` for changes of settings that decide what the run at `path` does.

    With `drift` they may change, but for those of `SAVED`.
    """
    wrong = deciding(changes)
    fixed = [text for text in wrong if _among(text, SAVED)]
    if fixed and drift:
        raise StoreError(
            f"{path}: the saved state is made of these settings, which no resume can change: "
            f"{'; '.join(fixed)}. Resume without them, or start a new run."
        )
    if wrong and not drift:
        raise StoreError(
            f"{path}: these settings decide what a run does and differ from the run's: "
            f"{'; '.join(wrong)}. Resume without them, or start a new run. (A resume may change "
            "how long to train, what to evaluate, where files and servers are, and speed; with "
            "--allow-drift most others, too, and the manifest records it.)"
        )


def _among(change: str, names: Collection[str]) -> bool:
    return within(change.partition(":")[0], names)
