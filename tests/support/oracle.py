"""A policy that plays the ground truth: what is right must be scored as right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rods.policy import ScriptedPolicy, episode_seed
from rods.task import Task


class OraclePolicy(ScriptedPolicy):
    """Plays the ground truth.

    policy = OraclePolicy(task, get_dialect("pythonic"), ChatTemplate(tokenizer))
    """

    def __init__(
        self,
        tasks: Task | Sequence[Task],
        speech: Any,
        spelling: Any,
        *,
        run_seed: int = 0,
        members: int = 64,
        calls_per_step: int = 0,
        done: str = "Done.",
        abstain: str = "I cannot do this yet: something is missing.",
    ) -> None:
        """Write the scripts.

        Args:
            tasks: one task, played in every session; or several, told apart by the session's seed.
            speech: the dialect.
            spelling: the chat template.
            run_seed: seed of the rollout, used with several tasks.
            members: largest group, used with several tasks.
            calls_per_step: calls of one generation at most; 0: all calls of a turn at once.
            done: the answer after the calls of a turn.
            abstain: the answer on a turn that has no ground truth.
        """

        def script(task: Task) -> list[list[int]]:
            texts: list[str] = []
            for turn in task.turns:
                calls = turn.ground_truth
                size = calls_per_step or max(1, len(calls))
                texts += [speech.write(calls[i : i + size]) for i in range(0, len(calls), size)]
                texts.append(speech.answer(done if calls else abstain))
            return [[*spelling.encode(text), spelling.end_id] for text in texts]

        if isinstance(tasks, Task):
            super().__init__(script(tasks))
            return
        scripts = {task.id: script(task) for task in tasks}
        owner = {
            episode_seed(run_seed, task_id, member, 0): task_id
            for task_id in scripts
            for member in range(members)
        }
        super().__init__(lambda seed, played: scripts[owner[seed]][played])
