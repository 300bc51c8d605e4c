"""From settings to demonstrations of the tasks that they train on.

Owns the choice of tasks, dialect, template and writers; `rods.policies` writes the texts.

    made, template = demonstrations_of(config, ["resample"], 0, originals=0.25, several=0.5)
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.abilities import in_process
from rods.assemble.tasks import sides_of
from rods.config import RunConfig
from rods.config.synthesis import ResampleSettings
from rods.dialects import structured
from rods.envs.remote.processes import environment_of
from rods.policies.ground_truth import DemonstrationPlan, Demonstrations
from rods.rollout.template import ChatTemplate
from rods.trainers.loading import load_stops, load_tokenizer
from rods.writers.assembly import make_pipeline


def demonstrations_of(
    config: RunConfig, writers: Sequence[str], variants: int, originals: float, several: float
) -> tuple[Demonstrations, str]:
    """Demonstrations of the tasks that a run trains on, and the digest of their chat template.

    Args:
        writers: names of what makes variants of them; none: originals alone.
        variants, originals, several: see `DemonstrationPlan`.

    Raises:
        ConfigError: the dialect is inline, or there is no such writer.
    """
    dialect = structured(config.model.dialect)
    template = ChatTemplate(load_tokenizer(config.model), load_stops(config.model))
    environment = environment_of(config)
    sides = sides_of(config, environment)
    alone = {"resample": ResampleSettings()}
    made = {
        name: make_pipeline(
            config.synthesis.model_copy(update={"writer": name, **alone}),
            in_process(environment),
            sides.train,
            sides.held_out,
        )
        for name in dict.fromkeys(writers)
    }
    plan = DemonstrationPlan(
        sides.originals,
        dialect,
        config.rollout,
        [made[name] for name in writers],
        variants,
        originals,
        several,
    )
    return Demonstrations(environment, template, plan, config.seed), template.digest()
