"""What verl has in flight, without verl."""

from __future__ import annotations

import pytest

from rods.errors import TrainError
from rods.trainers.verl.flight import ATTEMPTS, Flight


def test_what_verl_threw_away_is_told_once() -> None:
    flight = Flight()
    flight.took_off(["a", "b", "c"], ["0:x", "0:y", "1:x"])
    assert flight.lost({"a", "b", "c", "somebody's"}) == []
    assert flight.lost({"a", "c"}) == ["0:y"]
    assert flight.lost({"a", "c"}) == []


def test_what_was_sampled_is_not_lost() -> None:
    flight = Flight()
    flight.took_off(["a", "b"], ["0:x", "0:y"])
    flight.landed(["a_0_0", "a_1_0", "padding"])
    assert flight.lost(set()) == ["0:y"]


def test_a_draw_that_fails_again_and_again_stops_the_training_by_name() -> None:
    flight = Flight()
    for attempt in range(ATTEMPTS - 1):
        flight.took_off([f"u{attempt}"], ["2:base_7"])
        assert flight.lost(()) == ["2:base_7"]
    flight.took_off(["last"], ["2:base_7"])
    with pytest.raises(TrainError, match=r"failed 3 times in verl's agent workers: 2:base_7\."):
        flight.lost(())
