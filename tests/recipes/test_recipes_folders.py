"""One folder for each published system: registries and docs follow from the folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rods.recipes
from page_blocks import blocks_of
from places import ROOT, SOURCE
from rods import registry
from rods.config import EnvSettings, load_config
from rods.config.bundled import BUNDLED
from rods.dialects import DIALECTS, get_dialect
from rods.envs.originals import original_tasks
from rods.envs.search.environment import SearchEnvironment
from rods.errors import ConfigError, TaskError
from rods.registry import provides, read_recipe, recipe_file, recipe_names
from rods.rewards import REWARDS, get_reward
from rods.rewards.filters import FILTERS
from rods.store import RunDirectory
from sweeps import slow
from tir_cases import CALL, RIGHT, WRONG, play, question
from verbs import rods as program

NAMES = recipe_names()
SECTIONS = ["Claim", "Command", "Curve", "Differences"]
"""What the page of every system says, in this order; `What fools it` may follow."""
FILES = (
    r"recipe\.toml|README\.md|(?:reward|scorer|dialect|filter|repetition)\.py|prompt\.md|\w+\.svg"
)
REGISTRIES = {"rewards": REWARDS, "dialects": DIALECTS, "filters": FILTERS}


def added(name: str, kind: str) -> set[str]:
    return {*provides()[name].get(kind, {})}


def profiles(name: str) -> list[str]:
    return ["full", *read_recipe(recipe_file(name)).get("profile", {})]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders' settings, which the registries read."""
    copy = tmp_path / "recipes"
    for name in NAMES:
        (copy / name).mkdir(parents=True)
        shutil.copy(recipe_file(name), copy / name)
    monkeypatch.setattr(registry, "RECIPES", copy)
    return copy


@pytest.mark.parametrize("gone", [*NAMES[:2], *slow(*NAMES[2:])])
def test_a_deleted_folder_takes_its_names_along_and_no_others(gone: str, folders: Path) -> None:
    own = {kind: added(gone, kind) for kind in REGISTRIES}
    before = {kind: {*names} for kind, names in REGISTRIES.items()}
    shutil.rmtree(folders / gone)
    registry._provides.cache_clear()
    assert recipe_names() == [name for name in NAMES if name != gone]
    for kind, names in REGISTRIES.items():
        assert {*names} == before[kind] - own[kind]
    for name in own["rewards"]:
        with pytest.raises(ConfigError, match=f"there is no reward '{name}'"):
            get_reward(name)
    with pytest.raises(ConfigError, match=f"there is no recipe '{gone}'"):
        load_config(gone)
    for name in recipe_names():
        for profile in profiles(name):
            config = load_config(name, profile)
            assert config.model.dialect in DIALECTS, "what two recipes use belongs to none"
            assert all(stage.reward in REWARDS for stage in config.stages)


def test_only_tests_of_recipes_import_a_recipe() -> None:
    """A test elsewhere would fail with the folder of the recipe; `registered` asks the registry."""
    files = [p for p in (ROOT / "tests").rglob("*.py") if p.name != "registered.py"]
    shared = [p for p in files if p.relative_to(ROOT / "tests").parts[0] != "recipes"]
    named = re.compile(r"rods\.recipes\.\w")
    found = [p for p in shared if named.search(p.read_text(encoding="utf-8"))]
    assert len(shared) > 100 and found == []


def package_without_folders(place: Path) -> None:
    """A copy of the package in a folder, with links to its files and no recipe but `rods`."""
    package = place / "rods"
    (package / "recipes").mkdir(parents=True)
    for path in SOURCE.iterdir():
        if path.name not in ("recipes", "__pycache__"):
            (package / path.name).symlink_to(path)
    (package / "recipes" / "rods").symlink_to(SOURCE / "recipes" / "rods")


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["dialects", "rewards"])
def test_without_any_folder_the_shared_tests_pass(shared: str, tmp_path: Path) -> None:
    """What passes without all recipes passes without one: rows of recipes come by the registry."""
    package_without_folders(tmp_path)
    command = "-m pytest -n 0 -p no:cacheprovider -o addopts= -o testpaths= --strict-markers -q"
    done = subprocess.run(
        [sys.executable, *command.split(), "-m", "not slow", str(ROOT / "tests" / shared)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "RODS_CI": ""},  # there, skips are failures
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr
    assert re.search(r"\b\d{2,} passed", done.stdout)


@pytest.mark.slow
def test_without_any_folder_the_rest_is_imported_and_runs(tmp_path: Path) -> None:
    """The files are gone here, too; `rods` alone stays, as `rods train` takes it."""
    package_without_folders(tmp_path)
    code = (
        "import importlib, pkgutil, rods\n"
        "from rods.assemble import train\n"
        "from rods.dialects import DIALECTS\n"
        "from rods.registry import recipe_names\n"
        "from rods.rewards import REWARDS\n"
        "assert recipe_names() == ['rods'], recipe_names()\n"
        "assert all(registry.find(name) for registry in (REWARDS, DIALECTS) for name in registry)\n"
        "for part in ('cli', 'dialects', 'rewards', 'rollout', 'trainers', 'policies'):\n"
        "    room = importlib.import_module(f'rods.{part}')\n"
        "    for module in pkgutil.iter_modules(room.__path__, f'rods.{part}.'):\n"
        "        module.ispkg or importlib.import_module(module.name)\n"
        "from rods.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--dry-run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_what_a_folder_provides_is_its_own_and_is_explained(name: str) -> None:
    files = [path for path in recipe_file(name).parent.iterdir() if path.is_file()]
    texts = "".join(path.read_text(encoding="utf-8") for path in files)
    for other in NAMES:
        for kind in REGISTRIES:
            assert other == name or not added(name, kind) & added(other, kind)
    assert {*provides()[name]} <= {*REGISTRIES, "data", "time"}
    for kind, registered in REGISTRIES.items():
        for short, address in provides()[name].get(kind, {}).items():
            found = registered.find(short)
            assert found.__module__ == f"rods.recipes.{name}.{address.partition(':')[0]}"
            assert len(re.findall(rf"\b{short}\b", texts)) > 1, "nothing says what it is"
    assert all(get_dialect(short) for short in added(name, "dialects"))
    assert all(get_reward(short) for short in added(name, "rewards"))


def test_no_folder_hides_a_shared_name() -> None:
    for kind, names in REGISTRIES.items():
        own = {short for name in NAMES for short in added(name, kind)}
        assert not own & names._shared.keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_system_has_its_parts(name: str) -> None:
    folder = recipe_file(name).parent
    page = (folder / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", page, re.M)
    assert page.startswith("# ")
    data = provides()[name].get("data", {})
    assert ("Data" in sections) == bool(data)
    shown = [one for one in sections if one != "Data"]
    assert shown in (SECTIONS, [*SECTIONS, "What fools it"])
    words = " ".join(page.partition("## Data\n")[2].partition("\n## ")[0].split())
    assert all(f"* `{file}`: {what}" in words for file, what in data.items())
    claim = page.partition("## Claim\n")[2].partition("\n## ")[0]
    assert re.search(r"arXiv \d{4}\.\d{5}|author's report|project's blog", claim)
    command = page.partition("## Command\n")[2].partition("\n## ")[0]
    wanted = "rods train" if name == "rods" else f"rods train --recipe {name}"
    assert re.search(rf"^    {wanted}\b", command, re.M)
    pictures = re.findall(r"!\[.+\]\((.+)\)", page)
    assert all((folder / picture).is_file() for picture in pictures)
    assert {*pictures} == {path.name for path in folder.glob("*.svg")}
    assert pictures or name == "rods", "whose picture is README's"


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_states_how_long_its_small_runs_take(name: str) -> None:
    small = {one for one in profiles(name) if load_config(name, one).model.name in BUNDLED}
    assert {*provides()[name]["time"]} >= small


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_of_a_recipe_is_explained(name: str) -> None:
    config = load_config(name, "full")
    corpus = [one] if (one := config.env.arguments.get("corpus")) else []
    files = [*config.env.tasks, *config.evaluation.files, *corpus]
    assert {*files} == {*provides()[name].get("data", {})}
    for file in files:
        what = provides()[name]["data"][file]
        assert re.search(r"https://|; the paper names no file$", what)
        settings = EnvSettings(name="python_tool", tasks=[file])
        with pytest.raises(TaskError) as error:
            original_tasks(settings)
        assert f"{file} does not exist, and RODS does not ship it: {what}. " in str(error.value)
        assert "--env.tasks FILE" in str(error.value)
    for file in corpus:
        with pytest.raises(ConfigError, match=f"{file} .RODS does not ship it: .+https://.+not a"):
            SearchEnvironment(corpus=file)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_nothing_else(name: str) -> None:
    files = [path.name for path in recipe_file(name).parent.iterdir() if path.is_file()]
    assert not [file for file in files if not re.fullmatch(FILES, file)]


@pytest.mark.parametrize("name", NAMES)
def test_pages_name_settings_that_are_there(name: str) -> None:
    """Commands of a page can be read: recipe, profile and settings exist."""
    page = recipe_file(name).with_name("README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^    rods train (.*?)(?:\s{2,}#.*)?$", page, re.M):
        words = dict(re.findall(r"--([\w.]+) (\S+)", line))
        recipe, profile = words.pop("recipe", "rods"), words.pop("profile", "small")
        load_config(recipe, profile, [f"{key}={value}" for key, value in words.items()])


def test_the_index_lists_the_folders() -> None:
    page = (ROOT / "docs" / "recipes" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[`(\w+)`\]\(\.\./\.\./src/rods/recipes/(\w+)/README\.md\) \|", page, re.M
    )
    assert sorted(rows) == [(name, name) for name in NAMES]


def test_a_copy_of_a_recipe_is_read_and_a_changed_provides_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    text = recipe_file("toolrl").read_text(encoding="utf-8")
    own.write_text(text)
    assert load_config(str(own), "small") == load_config("toolrl", "small")
    own.write_text(text.replace('toolrl = "reward:ToolRlReward"', 'mine = "reward:Mine"'))
    with pytest.raises(ConfigError, match=r"own\.toml: only bundled recipes may have \[provides\]"):
        load_config(str(own), "small")


GUIDE = ROOT / "docs" / "developers" / "recipes.md"
STEPS = "test_the_steps_of_the_page_on_recipes_add_one"


@pytest.mark.slow
def test_the_steps_of_the_page_on_recipes_add_one(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward, settings, command = (b.text for b in blocks_of(GUIDE) if b.mark == f"test {STEPS}")
    folder = folders / "thrifty_math"
    folder.mkdir()
    (folder / "reward.py").write_text(f'"""A reward."""\n\n{reward}', encoding="utf-8")
    (folder / "recipe.toml").write_text(settings, encoding="utf-8")
    registry._provides.cache_clear()
    monkeypatch.setattr(rods.recipes, "__path__", [*rods.recipes.__path__, str(folders)])
    monkeypatch.chdir(tmp_path)
    assert "thrifty_math" in recipe_names() and profiles("thrifty_math") == ["full", "small"]
    full = load_config("thrifty_math", "full")
    assert (full.rollout.calls, full.stages[0].reward) == (4, "thrifty_math")
    paid = get_reward("thrifty_math")
    steps = ([CALL, RIGHT], [CALL, CALL, CALL, RIGHT], [CALL, WRONG])
    assert [paid(question(), play(*s)).value for s in steps] == [1.0, pytest.approx(0.8), 0.0]
    short = "--evaluation.tasks 2 --evaluation.samples 0 --model.threads 1 --rollout.k 2"
    assert program(*f"{command} {short}".split()[1:], monkeypatch=monkeypatch) == 0
    kinds = [row["kind"] for row in RunDirectory.open(tmp_path / "runs" / "try").metrics()]
    assert kinds.count("step") == 1


def test_the_page_on_recipes_names_the_parts_of_a_folder_and_is_short() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert re.findall(r"\*([A-Z][\w ]+)\*", text) == [*SECTIONS, "What fools it"]
    named = re.findall(r"`(\w+\.(?:py|toml|md))`", text)
    assert {"reward.py", "dialect.py", "filter.py", "recipe.toml", "README.md"} <= {*named}
    assert [*re.findall(r"^## (\d)\. ", text, re.M)] == ["1", "2", "3"]


def test_a_broken_recipe_is_named(folders: Path) -> None:
    (folders / "toolrl" / "recipe.toml").write_text("seed = \n")
    registry._provides.cache_clear()
    with pytest.raises(ConfigError, match=r"toolrl/recipe\.toml: not valid TOML"):
        get_reward("torl")
