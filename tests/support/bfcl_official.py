"""A process of its own in which the benchmark's own checker judges trajectories.

Owns the only place where the package's executor runs, which gives call strings to `eval`. It is fed
by `bfcl_judges.official_verdicts` with calls that were parsed and rendered again, never with a
model's text, and it is started for one batch and then gone.

    python bfcl_official.py < batch.json      # one line of JSON a verdict
"""

from __future__ import annotations

import copy
import decimal
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rods.envs.bfcl import assets

_UNSET = object()
_PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval"


class _CountedTurns(list[list[str]]):
    """Ground truth that remembers how many turns the checker has looked at."""

    looked = 0

    def __iter__(self) -> Iterator[list[str]]:
        for turn in super().__iter__():
            self.looked += 1
            yield turn


def reset_leaks(wheel: str = "") -> None:
    """Give every API object of the package its own defaults, as a fresh process would.

    Two leaks are closed: the list defaults of `TwitterAPI.post_tweet`, and the module-wide cards
    and bookings that `TravelAPI` mixes into its state in long context. The checker stays as it is.
    """
    twitter, travel = assets.api_class("TwitterAPI", wheel), assets.api_class("TravelAPI", wheel)
    post: Callable[..., object] = twitter.post_tweet
    load: Callable[..., None] = travel._load_scenario

    def post_tweet(self: Any, content: Any, tags: Any = _UNSET, mentions: Any = _UNSET) -> object:
        if not hasattr(self, "_own_defaults"):
            self._own_defaults = {"tags": [], "mentions": []}
        own: dict[str, Any] = self._own_defaults
        tags = own["tags"] if tags is _UNSET else tags
        return post(self, content, tags, own["mentions"] if mentions is _UNSET else mentions)

    def load_scenario(self: Any, scenario: Any, long_context: bool = False) -> None:
        load(self, scenario, long_context=long_context)
        self.credit_card_list = copy.deepcopy(self.credit_card_list)
        self.booking_record = copy.deepcopy(self.booking_record)

    twitter.post_tweet = post_tweet
    travel._load_scenario = load_scenario


def verdict(case: dict[str, Any], number: int, wheel: str = "") -> dict[str, Any]:
    """Run the package's checker on one case: `entry`, `ground_truth`, `steps` (by turn)."""
    checker = assets.module(f"{_PACKAGE}.multi_turn_checker", wheel)
    utils = assets.module(f"{_PACKAGE}.multi_turn_utils", wheel)
    importlib.import_module("mpmath").mp.dps = 15
    decimal.setcontext(decimal.Context())
    truth = _CountedTurns(case["ground_truth"])
    entry = case["entry"]
    result = checker.multi_turn_checker(
        case["steps"], truth, entry, entry["id"].rsplit("_", 1)[0], f"case{number}"
    )
    for name in [n for n in vars(utils) if n.endswith("_instance")]:
        delattr(utils, name)
    valid = bool(result["valid"])
    return {
        "valid": valid,
        "turn": None if valid else truth.looked - 1,
        "error": "" if valid else result["error_type"],
    }


def main() -> None:
    """Read a batch from standard input, write a verdict a line."""
    batch = json.load(sys.stdin)
    if batch["reset"]:
        reset_leaks(batch["wheel"])
    for number, case in enumerate(batch["cases"]):
        sys.stdout.write(json.dumps(verdict(case, number, batch["wheel"])) + "\n")


if __name__ == "__main__":
    main()
