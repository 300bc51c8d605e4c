"""Settings of the held-out evaluation and of published benchmarks."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, field_validator

from rods.config.base import Extended, Settings, Texts


class SuiteSettings(Extended):
    """A published benchmark, `rods eval --suite NAME`."""

    place: ClassVar[str] = "evaluation.suite"

    folder: str = ""
    """Folder of the suite's data; empty: the benchmark's package, for suites with one."""
    categories: Texts = ()
    """Categories to evaluate; empty: all."""
    omit: Texts = ()
    """Leave out, and count, tasks whose own names contain one of these texts."""
    tasks: int = Field(default=0, ge=0)
    """Number of tasks, spread evenly over categories where possible; 0: all."""
    repeats: int = Field(default=1, ge=1)
    """Greedy rollouts of each task. They are equal with a built-in engine, and can differ with a
    server that batches."""


class EvaluationSettings(Settings):
    """Held-out evaluation, before and after training."""

    tasks: int = Field(default=0, ge=0)
    """Number of original held-out tasks, stratified; 0: all."""
    files: Texts = ()
    """Files of evaluation tasks (AIME, MATH500) that replace the held-out split. They are read as
    `env.tasks` are. Training tasks in them, or made of them, are left out with a warning."""
    variants: int = Field(default=0, ge=0)
    """Number of variants of held-out scenarios, made once with their own seed, never trained on."""
    samples: int = Field(default=1, ge=0)
    """Samples of a task at `temperature`, averaged, in addition to one greedy rollout; 0: none."""
    temperature: float = Field(default=1.0, le=5.0)
    """Temperature of the samples."""

    every: int = Field(default=0, ge=0)
    """Updates between two evaluations during training, for curves; 0: only before and after."""
    suite: SuiteSettings = Field(default_factory=SuiteSettings)

    @field_validator("temperature")
    @classmethod
    def _above_zero(cls, value: float) -> float:
        if value <= 0:
            raise ValueError(
                "expected a number above 0; for only greedy rollouts set evaluation.samples = 0"
            )
        return value
