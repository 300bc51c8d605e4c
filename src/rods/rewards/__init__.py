"""The bundled rewards. Importing this package registers them; `rods.reward.get_reward` does so.

* `progress` - share of the task's turns that were solved, with the fixed denominator (the default)
* `observed_progress` - the same over the turns that were seen (EnvTuning's released code)
* `accuracy` - 1 if every turn was solved
* `parity` - 1 if the benchmark's own checker accepts every turn
* `format` - well-formed steps and successful calls, for the first stage
"""

from rods.rewards.format import format_reward
from rods.rewards.progress import accuracy, observed_progress, parity, progress

__all__ = ["accuracy", "format_reward", "observed_progress", "parity", "progress"]
