"""An environment and tasks as objects of a Python program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from examples.library_loans.service import Library, library

import forked
import rods
from places import ROOT
from rods.assemble.tasks import with_objects
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError
from rods.task import read_tasks, write_tasks

TASKS = list(read_tasks(ROOT / "examples" / "library_loans" / "tasks.jsonl"))
SCRIPT = """
import sys

sys.path.insert(0, {root!r})
import rods
from examples.library_loans.service import Library
from rods.envs.tool_classes import ToolClasses
from rods.task import read_tasks

desk = ToolClasses("library", [Library])

def main():
    config = rods.load_config("rods", "small", ["synthesis.writer=graph"])
    tasks = list(read_tasks({tasks!r}))
    made = rods.synthesize(config, 3, seed=5, environment=desk, tasks=tasks)
    print(len(made), {{task.env for task in made}})
{guard}main()
"""


def test_an_object_becomes_the_name_of_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = rods.load_config()
    assert with_objects(config, None, None) is config
    named = with_objects(config, library, TASKS)
    assert named.env.name == "examples.library_loans.service:library"
    (file,) = named.env.tasks
    assert list(read_tasks(file)) == TASKS and Path(file).parent == Path("runs")
    assert with_objects(config, None, TASKS).env.tasks == (file,)
    assert with_objects(config, None, TASKS[:5]).env.tasks != (file,)
    assert with_objects(config, None, TASKS).env.name == config.env.name


def test_a_module_beside_the_program_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process starts elsewhere and has another search path."""
    file = tmp_path / "desk_of_objects.py"
    file.write_text(
        "from examples.library_loans.service import Library\n"
        "from rods.envs.tool_classes import ToolClasses\n"
        'desk = ToolClasses("library", [Library])\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    import desk_of_objects  # pyright: ignore[reportMissingImports]

    assert with_objects(rods.load_config(), desk_of_objects.desk, None).env.name == f"{file}:desk"


def test_what_no_module_holds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"not at the top of a module.*Assign it"):
        with_objects(rods.load_config(), ToolClasses("library", [Library]), None)


@pytest.mark.slow
def test_a_script_synthesizes_with_its_own_environment(tmp_path: Path) -> None:
    tasks = str(tmp_path / "tasks.jsonl")
    write_tasks(tasks, TASKS)

    def run(guard: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(root=str(ROOT), tasks=tasks, guard=guard))
        return forked.run([str(script)], tmp_path)

    done = run('if __name__ == "__main__":\n    ')
    assert done.stdout == "3 {'library'}\n", done.stderr
    refused = run("")
    assert refused.returncode and 'Put the call under: if __name__ == "__main__":' in refused.stderr
