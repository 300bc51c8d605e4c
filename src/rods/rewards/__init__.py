"""The bundled rewards. Importing this package registers them; `rods.reward.get_reward` does so.

Of turns, judged by the world:

* `progress` - share of the task's turns that were solved, with the fixed denominator (the default)
* `observed_progress` - the same over the turns that were seen (EnvTuning's released code)
* `accuracy` - 1 if every turn was solved
* `parity` - 1 if the benchmark's own checker accepts every turn
* `format` - well-formed steps and successful calls, for the first stage

Of final answers, for tasks with `world["answer"]` (`answers.py`); each logs `correct`, 0 or 1:

* `outcome`, `outcome_signed` - right or not, as 1/0 and +1/-1
* `torl`, `torl_penalty`, `torl_penalty_code`, `torl_wformat`
* `retool`, `retool_recipe`
* `zerotir`, `zerotir_format`, `zerotir_format_code`
* `otc_ppo`, `otc_ppo_additive`, and of whole groups `otc_grpo`, `otc_grpo_additive`
"""

from rods.rewards import otc, outcome, retool, torl, zerotir
from rods.rewards.format import format_reward
from rods.rewards.progress import accuracy, observed_progress, parity, progress

__all__ = [
    "accuracy",
    "format_reward",
    "observed_progress",
    "otc",
    "outcome",
    "parity",
    "progress",
    "retool",
    "torl",
    "zerotir",
]
