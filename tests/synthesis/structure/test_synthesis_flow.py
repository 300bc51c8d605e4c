"""Sources of arguments, and the profile's figures on the benchmark."""

from __future__ import annotations

from collections import Counter

import pytest

from rods.envs.bfcl.tasks import load_tasks
from rods.synthesis.base import Base
from rods.synthesis.structure.profile import Edge, ProfileWeights, ablate, depth, distance
from rods.synthesis.structure.sources import Source, numbers_in, sources
from rods.synthesis.structure.trace import all_tools, owners, read_result, trace
from synthesis_cases import ENVIRONMENT, named


def by_name(origin: str) -> dict[tuple[int, str], Source]:
    task = named(origin)
    steps = trace(ENVIRONMENT, task).steps
    found = sources(task, steps, all_tools(ENVIRONMENT, task))
    return {(a.turn, a.name): a.source for a in found}


def test_sources_of_a_known_task() -> None:
    found = by_name("multi_turn_base_5")
    assert found[2, "username"] is Source.TURN
    assert found[3, "comment_content"] is Source.TURN
    assert found[3, "tweet_id"] is Source.RESULT


def test_codes_are_told_from_words() -> None:
    # "Zeta Corp" does not say the ticker ZETA
    assert by_name("multi_turn_base_111")[0, "stock"] is not Source.TURN


def test_numbers_in_text() -> None:
    assert numbers_in("$10,000 for 2.5 units, file1.txt, v2 and 83214.") == {10000.0, 2.5, 83214.0}
    assert numbers_in("From -5.5 to -1,200, 3-4 or 3 -4 on 2026-05-06 - 7") == {
        *(-5.5, -1200.0),
        *(3.0, 4.0, 2026.0, 5.0, 6.0, 7.0),
    }


def test_results_are_read_as_json_or_python() -> None:
    assert read_result('{"a": [1, true]}')[0] == {"a": [1, True]}
    assert read_result("['RMS', 'SBK']")[0] == ["RMS", "SBK"]
    assert read_result("not [json")[0] == "not [json"


def test_owners() -> None:
    assert owners(ENVIRONMENT, named("multi_turn_base_0"))["mkdir"] == "GorillaFileSystem"


def test_depth_of_a_chain_and_a_fork() -> None:
    assert depth(4, frozenset({Edge(0, 1), Edge(1, 3), Edge(0, 2)})) == 2
    assert depth(3, frozenset()) == 0


def test_distance_is_zero_to_itself_and_symmetric() -> None:
    a, b = (Base(ENVIRONMENT, named(f"multi_turn_base_{i}")).profile for i in (0, 120))
    assert distance(a, a) == 0.0
    assert distance(a, b) == pytest.approx(distance(b, a))
    assert 0.25 < distance(a, b) <= 1.0


def test_weights_sum_to_one() -> None:
    assert sum(vars(ProfileWeights()).values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_state_edges_are_those_of_the_benchmark() -> None:
    edges = across = 0
    depths: Counter[int] = Counter()
    for task in load_tasks():
        if task.category != "base":
            continue
        found = ablate(ENVIRONMENT, task).edges
        turns = [i for i, turn in enumerate(task.turns) for _ in turn.ground_truth]
        edges += len(found)
        across += sum(turns[e.producer] != turns[e.consumer] for e in found)
        depths[depth(len(turns), found)] += 1
    assert (edges, across) == (514, 308)
    assert depths == {0: 29, 1: 139, 2: 25, 3: 7}
