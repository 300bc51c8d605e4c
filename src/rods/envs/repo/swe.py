"""SWE-Gym: rows of the published data as tasks, and the judge of their patches.

Owns the form of a row, the name of its image, and what its tests say. Never fetches data or images.
The tests reach a container only when its agent has ended, in a fresh container; but there they run
beside the code under test, as in the released system, so a patch can claim that they pass.

    tasks = load_rows(Path("swe_gym.parquet"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from rods.envs.repo.container import Container
from rods.errors import TaskError
from rods.infra.rows import field, file_rows
from rods.task import CARRYING, Provenance, Task, Turn, carried, read_tasks
from rods.types import Json

IMAGE = "xingyaoww/sweb.eval.x86_64."
COLUMNS = ("instance_id", "repo", "problem_statement", "test_patch", "fail_to_pass", "pass_to_pass")
"""What is read of a row, without regard to case."""
APPLY_SECONDS, TEST_SECONDS = 600.0, 1200.0
"""Of applying a patch and of running the tests, as released."""
_FILE = re.compile(r"^\+\+\+ b/(\S+\.py)$", re.MULTILINE)
_STATUS = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)", re.MULTILINE)


def load_rows(path: Path, env: str) -> list[Task]:
    """Tasks of a file of rows (JSON, JSON lines or Parquet), or of task rows of ours.

    Raises:
        TaskError: the file or a row of it cannot be read; the message names both.
        PrerequisiteError: a Parquet file, and pyarrow is missing.
    """
    if not path.is_file():
        raise TaskError(f"{path}: there is no such file of tasks.")
    tasks: list[Task] = []
    for number, row in file_rows(
        path, "repositories", TaskError, (*COLUMNS, "image_name", *CARRYING)
    ):
        where = f"{path}, row {number}"
        if number == 1 and carried(row, where):
            return list(read_tasks(path))
        tasks.append(_task(row, where, env))
    return tasks


def _task(row: Any, where: str, env: str) -> Task:
    if not isinstance(row, dict):
        raise TaskError(f"{where}: not an object. Expected {', '.join(COLUMNS)}.")
    found = {str(key).lower(): value for key, value in cast("dict[Any, Any]", row).items()}
    lacking = [name for name in COLUMNS if name not in found]
    if lacking:
        raise TaskError(f"{where}: no {', '.join(lacking)}. Expected rows of SWE-Gym.")
    for key in ("instance_id", "repo", "problem_statement", "test_patch"):
        field(found, key, str, where, TaskError)
    name = str(found["instance_id"])
    image = str(found.get("image_name") or IMAGE + name.replace("__", "_s_").lower())
    return Task(
        env=env,
        category=str(found["repo"]),
        turns=(Turn(_asked(str(found["problem_statement"]))),),
        world={
            "image": image,
            "test_patch": str(found["test_patch"]),
            "fail_to_pass": _names(found["fail_to_pass"], where),
            "pass_to_pass": _names(found["pass_to_pass"], where),
        },
        provenance=Provenance(origin=name, scenario=name),
    )


def _names(value: Any, where: str) -> list[Json]:
    """Names of tests: a list, or the text of one."""
    try:
        listed = json.loads(value) if isinstance(value, str) else list(value)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{where}: {value!r} is not a list of tests.") from error
    return [str(name) for name in listed]


def _asked(problem: str) -> str:
    return (
        f"This repository has a problem:\n\n{problem.strip()}\n\nChange its code so that the "
        "problem is solved; leave its tests as they are. They will be run, and others."
    )


def passes(world: Mapping[str, Json], patch: str, start: Callable[[], Container]) -> bool:
    """Whether a patch applies to a fresh container and all named tests then pass.

    Raises:
        EnvError: the container was lost, or the row's own tests do not apply to its image.
    """
    tests = str(world["test_patch"])
    place = start()
    try:
        apply = ["git", "apply", "--whitespace=nowarn", "-"]
        touched = _FILE.findall(tests)
        if not place.run(apply, patch, APPLY_SECONDS).ok:
            return False
        place.run(["git", "checkout", "-q", "HEAD", "--", *touched])  # the agent's are not asked
        if not place.run(apply, tests, APPLY_SECONDS).ok:
            return False  # the agent made files that the tests would make
        run = ["python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *touched]
        done = place.run(run, "", TEST_SECONDS, whole=True)
    finally:
        place.close()
    said = {name: word for word, name in _STATUS.findall(done.output)}
    wanted = cast("list[str]", [*_list(world, "fail_to_pass"), *_list(world, "pass_to_pass")])
    return bool(wanted) and all(said.get(name) == "PASSED" for name in wanted)


def _list(world: Mapping[str, Json], name: str) -> list[Json]:
    return cast("list[Json]", world[name])
