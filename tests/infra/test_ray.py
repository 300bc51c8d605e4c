"""Worlds and synthesis on a Ray of two nodes, all of this machine: the same as without, and alive.

A node is what a machine is elsewhere: processes of its own, which can be taken away as they work.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from elsewhere_cases import TASK, bfcl_tasks, played
from oracle import OraclePolicy
from queue_cases import SEEDS, SETTINGS, drained, ordered
from rods.config import load_config
from rods.config.sections import RaySettings
from rods.envs import make_environment
from rods.envs.remote.processes import ProcessEnvironment, environment_of, on
from rods.errors import ConfigError, EnvError, PrerequisiteError, WriterError
from rods.infra.cluster import ActorLost, Cluster
from rods.synthesis.worker import actors
from rods.synthesis.worker.actors import ActorPipeline
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.settings import WorkerSettings
from rods.task import Task
from rods.types import ToolCall
from rods.writers.assembly import worker_settings
from rollout_cases import DIALECT, TEMPLATE

CPUS = 0.25
ON_RAY = pytest.mark.hosts
"""Skipped where Ray is missing; `.ci/hosts` has it."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A Ray of a head and another node, two processors each, to which this process is connected."""
    ray = pytest.importorskip("ray", reason="needs the extra [ray]")
    from ray.cluster_utils import Cluster as Nodes

    found = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path, found])  # actors import this folder's
    made = Nodes(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    made.add_node(num_cpus=2)
    ray.init(made.address, logging_level="ERROR", log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ["PYTHONPATH"] = found


def on_ray(nodes: Any, name: str, seconds: float, worlds: int = 2) -> ProcessEnvironment:
    begin = on(Cluster.at(nodes.address), name, {}, CPUS)
    return ProcessEnvironment(make_environment(name), begin, worlds, seconds)


@ON_RAY
@pytest.mark.slow
def test_worlds_on_ray_are_worlds_here(nodes: Any) -> None:
    here = make_environment("bfcl")
    tasks = bfcl_tasks(here)[:2]
    policy = OraclePolicy(tasks, DIALECT, TEMPLATE)
    elsewhere = on_ray(nodes, "bfcl", 60)
    try:
        assert elsewhere.capacity == 2
        assert played(tasks, elsewhere, policy, k=3) == played(tasks, here, policy, k=3)
        assert elsewhere.replaced == 0
    finally:
        elsewhere.close()


@ON_RAY
@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "seconds", "said"),
    [("hang", 1.0, "no answer for 1 seconds; this Ray has 2 machines"), ("die", 60.0, "it died")],
)
def test_an_actor_that_hangs_or_dies_is_replaced(
    nodes: Any, deed: str, seconds: float, said: str
) -> None:
    elsewhere = on_ray(nodes, "elsewhere_worlds:Moody", seconds)
    try:
        world = elsewhere.open(TASK)
        world.begin_turn(0)
        with pytest.raises(EnvError, match=said):
            world.call(ToolCall(deed))
        world.close()
        assert elsewhere.replaced == 1
        policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
        assert all(t.solved for t in played([TASK], elsewhere, policy, k=4))
    finally:
        elsewhere.close()


@ON_RAY
@pytest.mark.slow
def test_settings_send_worlds_and_writers_there(nodes: Any) -> None:
    there = [f"ray.address={nodes.address}", "ray.worlds=2", "ray.writers=3", f"ray.cpus={CPUS}"]
    config = load_config("rods", "small", there)
    environment = environment_of(config)
    try:
        assert isinstance(environment, ProcessEnvironment) and environment.capacity == 2
        assert {type(worker).__module__ for worker in environment._all} == {on.__module__}
    finally:
        environment.close()
    assert worker_settings(config, (), ()).ray.writers == 3


@ON_RAY
@pytest.mark.slow
def test_worlds_of_a_node_that_is_lost_are_played_elsewhere(nodes: Any) -> None:
    third = nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    elsewhere = on_ray(nodes, "elsewhere_worlds:Slow", 60.0, worlds=6)
    policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
    try:
        elsewhere.warm_up()  # spread over all nodes
        there = [a for a in actors_of(elsewhere) if node_of(a) == third.node_id]
        assert 1 <= len(there) < 6
        with ThreadPoolExecutor() as pool:
            playing = pool.submit(played, [TASK], elsewhere, policy, k=24)
            time.sleep(1.0)  # in their first or second calls
            assert not playing.done() and elsewhere.replaced == 0
            nodes.remove_node(third, allow_graceful=False)
            trajectories = playing.result()
        assert len(trajectories) == 24 and all(t.solved for t in trajectories)
        assert elsewhere.replaced >= len(there)  # Ray may yet start one on a node that is gone
    finally:
        elsewhere.close()


def actors_of(elsewhere: ProcessEnvironment) -> list[Any]:
    return [worker._actor for worker in elsewhere._all]  # type: ignore[attr-defined]


def node_of(actor: Any) -> str:
    import ray

    def here(_: object) -> str:
        return ray.get_runtime_context().get_node_id()

    return ray.get(actor.__ray_call__.remote(here), timeout=60)


def with_ray(nodes: Any, writers: int = 2) -> WorkerSettings:
    ray = RaySettings(address=nodes.address, writers=writers, cpus=CPUS)
    return dataclasses.replace(SETTINGS, ray=ray)


@ON_RAY
@pytest.mark.slow
def test_variants_made_on_ray_are_those_of_the_worker(nodes: Any, tmp_path: Path) -> None:
    with SynthesisWorker(tmp_path / "here.sqlite", SETTINGS) as worker:
        here = drained(worker, ordered(worker))
    with SynthesisWorker(tmp_path / "there.sqlite", with_ray(nodes)) as worker:
        there = drained(worker, ordered(worker))
        assert worker.state()["accepted"] == len(there)
    assert there == here
    with SynthesisWorker(tmp_path / "there.sqlite", SETTINGS) as worker:  # it is the same queue
        assert drained(worker, ordered(worker)) == here


@ON_RAY
@pytest.mark.slow
def test_outcomes_under_way_in_a_lost_actor_are_made_again(
    nodes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    settings = with_ray(nodes)
    pipeline, made = ActorPipeline(settings), dict[str, Any]()

    def make(seed: Task) -> None:
        made[seed.id] = pipeline.make(seed, 7)

    threads = [threading.Thread(target=make, args=(seed,)) for seed in SEEDS]
    try:
        assert pipeline.parallel == 2
        for number in range(2):  # both actors have answered once
            pipeline.make(SEEDS[0], number)
        for thread in threads:
            thread.start()
        for actor in pipeline._actors:  # at once: of six outcomes most are still to come
            ray.kill(actor, no_restart=False)
        for thread in threads:
            thread.join(120)
        assert caplog.text.count("an actor that makes variants was lost") == 2
    finally:
        pipeline.close()
    alone = ActorPipeline(with_ray(nodes, writers=1))
    try:
        assert made == {seed.id: alone.make(seed, 7) for seed in SEEDS}
    finally:
        alone.close()


@ON_RAY
@pytest.mark.slow
def test_an_actor_that_does_not_start_is_replaced(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    real = Cluster.start

    def start(self: Cluster, *made: Any, **options: int) -> Any:
        actor = real(self, *made, **options)
        ray.kill(actor, no_restart=False)
        return actor

    monkeypatch.setattr(Cluster, "start", start)
    pipeline = ActorPipeline(with_ray(nodes))
    try:
        assert pipeline.parallel == 2
        assert pipeline.make(SEEDS[0], 7).tried
    finally:
        pipeline.close()


@ON_RAY
@pytest.mark.slow
def test_actors_that_die_again_and_again_suspend_the_writer(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = ActorPipeline(with_ray(nodes, writers=1))

    def lose(self: Cluster, answer: object, seconds: float | None = None) -> None:
        raise ActorLost("it died: on purpose")

    monkeypatch.setattr(Cluster, "get", lose)
    try:
        with pytest.raises(WriterError, match=r"3 actors were lost over a variant of .*on purpose"):
            pipeline.make(SEEDS[0], 7)
    finally:
        pipeline.close()


@ON_RAY
@pytest.mark.slow
def test_why_a_writer_cannot_be_used_comes_back_from_ray(nodes: Any) -> None:
    cluster = Cluster.at(nodes.address)
    actor = cluster.start(Refusing, (), CPUS)
    with pytest.raises(WriterError, match=r"^no such model$") as found:
        cluster.get(actor.make.remote(SEEDS[0], 7, ()))
    assert (found.value.fatal, found.value.down) == (True, False)
    cluster.end(actor)


class Refusing(actors.WriterActor):
    """A writer whose server refuses."""

    def __init__(self) -> None:
        class Pipeline:
            def make(self, *_: object) -> None:
                raise WriterError("no such model", fatal=True)

            def usage(self) -> dict[str, Any]:
                return {}

        self._pipeline: Any = Pipeline()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PrerequisiteError, match=r"\[ray\] needs ray: pip install"):
        Cluster.at("auto")


def test_without_a_cluster_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def is_initialized(self) -> bool:
            return False

        def init(self, address: str, **_: object) -> None:
            raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setitem(sys.modules, "ray", Absent())
    with pytest.raises(ConfigError, match=r"ray\.address = 'auto': no Ray .* `ray start --head`"):
        Cluster.at("auto")


def test_an_address_where_nothing_answers_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for minutes."""

    class Patient:
        def is_initialized(self) -> bool:
            return False

        def init(self, *_: object, **__: object) -> None:
            raise AssertionError("Ray was asked")

    monkeypatch.setitem(sys.modules, "ray", Patient())
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{found.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"'{address}': no Ray was found there"):
            Cluster.at(address)
    with pytest.raises(ConfigError, match=r"'localhost:99999': no Ray was found there"):
        Cluster.at("localhost:99999")
