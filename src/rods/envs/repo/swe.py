"""SWE-Gym: rows of the published data as tasks, and the judge of their patches.

Owns the form of a row, the name of its image, and what its tests say. Never fetches data or images.
The tests reach a container only when its agent has ended, in a fresh container. They run beside the
code under test, so what they expect does not go in (`claims.py`), nor do those files of a patch
that decide how tests are run. A test that expects no literal is believed, but only beside one that
a patch has to make pass and whose values are compared outside.

    tasks = load_rows(Path("swe_gym.parquet"))
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from rods.envs.repo.claims import passed, read_report, withhold
from rods.envs.repo.container import LOST, Container
from rods.envs.repo.world import APPLY_SECONDS
from rods.errors import EnvError, TaskError
from rods.infra.rows import field, file_rows, listed
from rods.infra.text import require_whole
from rods.sandbox.shell import ShellResult
from rods.task import CARRYING, Provenance, Task, Turn, carried, read_tasks
from rods.types import Json

IMAGE = "xingyaoww/sweb.eval.x86_64."
COLUMNS = ("instance_id", "repo", "problem_statement", "test_patch", "fail_to_pass", "pass_to_pass")
"""Columns that are read of a row, without regard to case."""
TEST_SECONDS = 1200.0  # Limit of running the tests, as released
_FILE = re.compile(r"^\+\+\+ b/(.+?)\t?$", re.MULTILINE)
APPLY = ("git", "apply", "--whitespace=nowarn")
WRITE = 'rm -rf -- "$0" && mkdir -p -- "$(dirname -- "$0")" && cat > "$0"'
_NAMES = (
    "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg pyproject.toml "
    "sitecustomize.py usercustomize.py"
)
DECIDING = (  # Files that decide how tests are run: the image's stay, whatever a patch says of them
    *(name for one in _NAMES.split() for name in (one, f"*/{one}")),
    "*.egg-info/*", "*.dist-info/*", "*.pth",
)  # fmt: skip


def load_rows(path: Path, env: str) -> list[Task]:
    """Tasks of a file of rows (JSON, JSON lines or Parquet), or of task rows of RODS.

    Raises:
        TaskError: the file or a row of it cannot be read; the message names both.
        PrerequisiteError: a Parquet file, and pyarrow is missing.
    """
    tasks: list[Task] = []
    columns = (*COLUMNS, "image_name", *CARRYING)
    for _, where, row in file_rows(path, "repositories", TaskError, columns):
        if not tasks and carried(row, where):
            return list(read_tasks(path))
        tasks.append(_task(row, where, env))
        require_whole(tasks[-1].to_json(), where, TaskError)  # a text may hold JSON again
    return tasks


def _task(row: object, where: str, env: str) -> Task:
    if not isinstance(row, dict):
        raise TaskError(f"{where}: not an object. Expected {', '.join(COLUMNS)}.")
    found = {str(key).lower(): value for key, value in row.items()}
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


def _names(value: object, where: str) -> list[Json]:
    """Names of tests: a list, or the text of one."""
    try:
        return listed(value, "it", str)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{where}: {value!r} is not a list of tests.") from error


def _asked(problem: str) -> str:
    return (
        f"This repository has a problem:\n\n{problem.strip()}\n\nChange its code so that the "
        "problem is solved; leave its tests as they are. They will be run, and others."
    )


def passes(
    world: Mapping[str, Json], patch: str, start: Callable[[], Container], believe: bool = False
) -> bool:
    """True if a patch applies to a fresh container and all named tests then pass.

    Raises:
        EnvError: the engine was lost, the image does not run the row's own tests, or (unless they
            are to be believed) these prove nothing.
    """
    tests = str(world["test_patch"])
    named = _FILE.findall(tests)
    touched = [path for path in named if path.endswith(".py")]
    lists = cast("list[list[str]]", [world["fail_to_pass"], world["pass_to_pass"]])
    wanted = {name for names in lists for name in names}
    place = start()
    try:
        _expect(place.run([*APPLY, "-"], tests, APPLY_SECONDS), "its tests do not apply")
        read = {path: place.run(["cat", path], "", APPLY_SECONDS, whole=True) for path in touched}
        withheld = withhold(
            {path: _expect(done, f"{path} cannot be read") for path, done in read.items()}
        )
        if not believe and not withheld.proves(lists[0]):
            raise EnvError(
                f"{world['image']}: a patch could claim that {', '.join(lists[0])} passed, because "
                "none compares with a literal. Leave this row out, or take the tests' word as the "
                "released code does: env.options.believe = true."
            )
        excluded = [f"--exclude={name}" for name in (*named, *DECIDING)]
        if not _there(place.run([*APPLY, *excluded, "-"], patch, APPLY_SECONDS)).ok:
            return False
        for path, text in withheld.texts.items():
            if not _there(place.run(["sh", "-c", WRITE, path], text, APPLY_SECONDS)).ok:
                return False  # the patch made something else of this path
        report = _report(place, touched)
    finally:
        place.close()
    return bool(wanted) and report is not None and wanted <= passed(report, withheld)


def _report(place: Container, touched: Sequence[str]) -> Mapping[str, Any] | None:
    mark = secrets.token_hex(16)
    program = files("rods.envs.repo").joinpath("witness.py").read_text(encoding="utf-8")
    asked = json.dumps({"mark": mark, "files": list(touched)})
    # -I: nothing of the repository is loaded in place of what runs the tests
    done = place.run(["python", "-I", "-c", program], asked, TEST_SECONDS, whole=True)
    if f"{mark}began" not in done.output:
        raise EnvError(f"the image runs no tests: {done.output.strip()[-500:] or done.code}")
    return read_report(done.output, mark)


def _there(done: ShellResult) -> ShellResult:
    """Raises `EnvError` where the container was lost before any code of the agent ran in it."""
    if done.limit == LOST:
        raise EnvError(f"a patch could not be judged: {done.output}")
    return done


def _expect(done: ShellResult, otherwise: str) -> str:
    if not done.ok:
        raise EnvError(f"a row of SWE-Gym and its image do not agree: {otherwise}: {done.output}")
    return done.output
