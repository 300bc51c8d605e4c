"""What verl's trainer was given and made, step by step, written where a test can read it.

Owns nothing of verl: it looks on at `HostedRun.judge` and before the update.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from rods.trainers.hosted import HostedRun

FIELDS = ("prompts", "responses", "response_mask", "loss_mask", "rm_scores")
SAMPLED = ("rollout_log_probs", "old_log_probs", "advantages")


def watch(folder: Path) -> None:
    """Write a file a step; in the process of verl's task runner."""
    import ray
    import transfer_queue

    from rods.integrations.verl.trainer import CurriculumTrainer

    seen: dict[str, Any] = {}
    judge, update = HostedRun.judge, CurriculumTrainer._update_actor

    def judged(run: HostedRun, drawn: Any, groups: Any) -> Any:
        scores = judge(run, drawn, groups)
        rows = [run.curriculum.log_row(j) for j in run.judged if j is not None]
        seen.update(drawn=list(drawn), groups=list(groups), scores=scores, rows=rows)
        return scores

    def updated(trainer: Any, batch: Any, metrics: Any) -> Any:
        data = transfer_queue.kv_batch_get(
            keys=batch.keys,
            partition_id=batch.partition_id,
            select_fields=[*FIELDS, *SAMPLED, "ticket", "session_id"],
        )
        table = {name: [row.tolist() for row in data[name]] for name in (*FIELDS, *SAMPLED)}
        for name in ("ticket", "session_id"):
            table[name] = [getattr(value, "data", value) for value in data[name]]
        table["padding"] = [bool(tag.get("is_padding")) for tag in batch.tags]
        made = update(trainer, batch, metrics)
        actors = [row["ActorClassName"] for row in ray._private.state.actors().values()]
        record = {**seen, "table": table, "metrics": dict(metrics), "actors": actors}
        (folder / f"step-{trainer.global_steps}.pkl").write_bytes(pickle.dumps(record))
        return made

    HostedRun.judge = judged  # type: ignore[method-assign]
    CurriculumTrainer._update_actor = updated  # type: ignore[method-assign]


def fail_once(marker: Path) -> None:
    """Let one trajectory die as a bug would, the first that is played; in agent workers."""
    from rods.integrations.verl.agent import CurriculumAgentLoop

    run = CurriculumAgentLoop.run

    async def failing(loop: Any, sampling_params: dict[str, Any], **row: Any) -> Any:
        if row["ticket"] and not marker.exists():
            marker.write_text(row["ticket"])
            raise RuntimeError("a trajectory that dies for the test")
        return await run(loop, sampling_params, **row)

    CurriculumAgentLoop.run = failing  # type: ignore[method-assign]
