"""Settings: recipes, profiles, overrides, and what a wrong one says."""

from __future__ import annotations

import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from rods.config import (
    EngineSettings,
    EnvSettings,
    RolloutSettings,
    RunConfig,
    StageSettings,
    TrainSettings,
    keys,
    load_config,
    parse_config,
    with_overrides,
)
from rods.config.checks import NEEDS, lacking
from rods.config.engine import ENGINES, traits_of
from rods.engines import ENGINES as ENGINES_MADE
from rods.errors import ConfigError
from rods.infra.dotted import SYNONYMS, flat, nearest
from rods.integrations.verl.checks import HOST as VERL
from rods.registry import (
    RECIPES,
    declared,
    plugins,
    read_recipe,
    recipe_file,
    recipe_names,
)

SECTIONS = dict(RunConfig.walk()) | {"stages.0.": StageSettings}
"""All sections, those of all plug-ins too, by the start of their keys."""


def test_every_setting_says_what_it_means() -> None:
    """A number also has a range, or a unit, in its words or its bounds."""
    assert {"env.search.", "env.questions.", "evaluation.suite.user.", "track."} <= SECTIONS.keys()
    for prefix, section in SECTIONS.items():
        assert section.__doc__, f"{prefix}: its section has no description"
        for name in section.model_fields.keys() - section.sections():
            said = section.model_fields[name].description or ""
            assert len(said) > 10, f"{prefix}{name} has no description"


@pytest.mark.parametrize("key", ["lr", "clip_low", "clip_high"])
def test_a_rate_says_its_range(key: str) -> None:
    said = TrainSettings.model_fields[key].description or ""
    assert re.search(r"above 0|0 or\s+more", said)


def test_a_configuration_in_python_is_that_of_the_command() -> None:
    assert load_config("rods") == load_config() == load_config("rods", "small")
    assert load_config("torl") == load_config("torl", "small") != load_config("torl", "full")
    assert load_config("rods", "full") == load_config("rods", "")


def test_full_recipe_is_the_paper() -> None:
    config = load_config("rods", "full")
    assert (config.rollout.k, config.train.lr, config.train.kl) == (16, 1e-6, 0.01)
    assert config.rollout.k * config.rollout.tasks_per_step == 512
    assert [s.name for s in config.stages] == ["format", "base", "all"]
    assert all(s.epochs == 5 for s in config.stages)
    assert (config.replay.cap, config.replay.inject) == (400, 0.20)
    assert (config.boundary.low, config.boundary.high) == (0.20, 0.85)


def test_quick_profile_changes_what_it_names_only() -> None:
    small, full = load_config("rods", "small"), load_config("rods", "full")
    assert small.rollout.k == 8
    assert small.replay == full.replay.model_copy(update={"inject": 0.33})
    assert small.train.clip_high == full.train.clip_high


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_and_profile_loads(name: str) -> None:
    load_config(name, "full")
    for profile in read_recipe(recipe_file(name)).get("profile", {}):
        load_config(name, profile)


def test_overrides_apply_in_order_and_keep_their_neighbors() -> None:
    config = load_config(
        "rods", "small", ["train.lr=1e-3", "train.lr=2e-3", "env.bfcl.split=paper"]
    )
    assert (config.train.lr, config.env.bfcl.split) == (2e-3, "paper")
    assert (
        config.train.local.checkpoint_steps
        == load_config("rods", "small").train.local.checkpoint_steps
    )


def test_one_field_of_one_stage_can_be_overridden() -> None:
    config = load_config("rods", "small", ["stages.2.reward=accuracy"])
    plain = load_config("rods", "small")
    assert config.stages[2].reward == "accuracy"
    assert config.stages[:2] == plain.stages[:2]
    assert config.stages[2].epochs == plain.stages[2].epochs


def test_a_field_of_the_stage_of_a_recipe_without_stages_can_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[train]\nlr = 1e-3\n")
    config = load_config(tmp_path / "own.toml", "", ["stages.0.epochs=3"])
    [stage] = config.stages
    assert stage == RunConfig().stages[0].model_copy(update={"epochs": 3})
    with pytest.raises(ConfigError, match=r"this run has one stage, stages\.0"):
        load_config(tmp_path / "own.toml", "", ["stages.1.epochs=3"])


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("trian.lr=1", ["no setting 'trian", "Did you mean"]),
        ("train.learning_rate=1", ["train.learning_rate", "Did you mean 'train.lr'"]),
        ("rollout.kk=3", ["rollout.kk", "Did you mean 'rollout.k'"]),
        ("rollout.k=0", ["rollout.k", "greater than or equal to 1", "got 0"]),
        ("rollout.k=1", ["rollout.k = 1", '"grpo" no group', "gae, reinforce++"]),
        ("rollout.k=many", ["rollout.k", "many"]),
        ("stages.7.reward=x", ["stages.7", "3 stages"]),
        ("stages.².reward=x", ["stages.²", "3 stages"]),
        ("train", ["section.key=value"]),
    ],
)
def test_wrong_overrides_say_what_and_where(override: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load_config("rods", "small", [override])
    for part in parts:
        assert part in str(error.value)


def test_a_date_is_a_name() -> None:
    config = load_config("rods", "small", ["env.tasks=2026-11-30", "model.name=12:30:00"])
    assert (config.env.tasks, config.model.name) == (("2026-11-30",), "12:30:00")


OTHERS = ("fixed", "bf16", "fp32", "output_dir", "num")
NAMES = [pair for pair in SYNONYMS.items() if pair[0] not in OTHERS]
"""Without values, and options of verbs."""


@pytest.mark.parametrize(
    ("word", "meant"),
    [("train.max_steps", "updates"), ("learning-rate", "train.lr"), *NAMES],
)
def test_words_of_other_trainers_lead_to_the_setting(word: str, meant: str) -> None:
    assert nearest(word, keys()) == f" Did you mean {meant!r}?"


def test_a_fixed_pool_is_called_static() -> None:
    with pytest.raises(ConfigError, match=r"got 'fixed'\. Did you mean 'static'\?"):
        load_config("rods", "small", ["curriculum=fixed"])


def test_unknown_recipe_and_profile_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'rods'"):
        load_config("rod")
    with pytest.raises(ConfigError, match="Did you mean 'small'"):
        load_config("rods", "smal")


def test_the_hint_at_a_profile_is_one_that_the_recipe_has(tmp_path: Path) -> None:
    (file := tmp_path / "recipe.toml").write_text("[profile.smollm2]\nupdates = 3\n")
    with pytest.raises(ConfigError, match="no profile 'smal'") as error:
        load_config(file, "smal")
    assert "'small'" not in str(error.value) and "Known: smollm2, full." in str(error.value)


@pytest.mark.parametrize("name", recipe_names())
def test_an_unknown_profile_lists_all_that_are_valid_and_no_path(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(name, "huge")
    words = str(error.value)
    assert words.startswith(f"recipe {name}: there is no profile 'huge'. Known: ")
    assert str(RECIPES) not in words
    first, *others = read_recipe(recipe_file(name))["profile"]
    known = [first, *others, "full"]
    assert words.endswith(f"Known: {', '.join(known)}.")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.lr=abc", "train.lr must be a number, such as 1e-06; got 'abc'."),
        ("rollout.k=x", "rollout.k must be a whole number, such as 16; got 'x'."),
        ("rollout.k=1.5", "rollout.k must be a whole number, such as 16; got 1.5."),
        ("train.lr=nan", "train.lr must be a finite number; got nan."),
        ("train.kl=-1", "train.kl must be greater than or equal to 0; got -1."),
        ("env.held_out=7", "env.held_out must be less than 1; got 7."),
        (
            "train.mask_env_tokens=maybe",
            "train.mask_env_tokens must be a truth value (true or false), such as true;",
        ),
        ("curriculum=foo", "curriculum must be 'rods', 'static' or 'envtuning'; got 'foo'."),
        ("replay.retire=3", "replay.retire: expected two numbers, such as [0.2, 0.95]"),
        ("model.name=3", 'model.name must be a text, such as "tiny"; got 3.'),
        ("env.options=x", "env.options must be a table; got 'x'."),
        (
            "rewards.toolrl.grain=[1]",
            "grain must be a number or a text or a truth value (true or false); got [1].",
        ),
    ],
)
def test_a_wrong_value_is_explained_in_words(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config("rods", "small", [override])
    assert words in str(error.value)
    assert "nput should be" not in str(error.value) and "constrained" not in str(error.value)


def test_contradictions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"boundary\.low must be below"):
        parse_config({"boundary": {"low": 0.9}}, "here")
    with pytest.raises(ConfigError, match=r"stages\.1\.name: names must differ"):
        parse_config({"stages": [{"name": "a"}, {"name": "a"}]}, "here")
    broken = tmp_path / "x.toml"
    broken.write_text("a = = 1")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(str(broken))


VAIN = {
    "rollout.pipeline.staleness=2": 'rollout.schedule = "pipelined"',
    "train.filtering.redraw=3": "without a filter no group is dropped",
    "train.filtering.window=[0.1,0.9]": 'train.filter = "zerotir"',
    "train.gae.lam=0.9": 'train.advantage = "gae"',
    "engine.vllm.memory=0.3 engine.name=hf": 'engine.name = "vllm"',
    "engine.timeout=5 engine.name=hf": "which use a server",
    "engine.vllm.options.seed='3' engine.name=hf": 'engine.name = "vllm"',
    "engine.folder=/w engine.name=vllm": 'engine.name = "openai"',
    'train.kl_in="reward" train.kl=0.0': "train.kl above 0",
    "rollout.worlds.running=4 rollout.schedule=synchronous": "asynchronous",
    "engine.vllm.sleep=true engine.name=vllm rollout.schedule=pipelined": "never sleeps",
}


@pytest.mark.parametrize("asked", VAIN)
def test_what_nothing_reads_is_refused(asked: str) -> None:
    texts = asked.split()
    key = texts[0].partition("=")[0]
    with pytest.raises(ConfigError) as error:
        load_config("rods", "small", texts)
    for part in ("command line: ", f"{key} = ", "has no effect", VAIN[asked], f"leave {key} out"):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match="has no effect"):
        with_overrides(load_config("rods", "small"), texts)


def test_what_is_read_or_was_a_recipe_s_is_not_refused(tmp_path: Path) -> None:
    for asked in (
        ["rollout.pipeline.staleness=2", "rollout.schedule=pipelined"],
        ["rollout.pipeline.staleness=1"],  # as it is anyway
        ["engine.vllm.memory=0.3"],  # auto may take vLLM
        ["train.filtering.redraw=3", "train.filter=dapo"],
    ):
        load_config("rods", "small", asked)
    taken_back = load_config("zerotir", "", ["train.filter=none"])
    assert taken_back.train.filtering.redraw == 8, "the recipe's, for the filter that it had"
    assert with_overrides(taken_back, ["train.lr=1e-4"]).train.lr == 1e-4
    own = tmp_path / "own.toml"
    own.write_text("[rollout.pipeline]\nstaleness = 3\n[profile.a.rollout]\nk = 4\n")
    for profile, more in (("", []), ("a", []), ("", ["seed=1"])):
        with pytest.raises(ConfigError, match=r"own\.toml: rollout\.pipeline\.staleness = 3"):
            load_config(str(own), profile, more)
    load_config(str(own), "", ["rollout.schedule=pipelined"])
    load_config(str(own), "", ["rollout.schedule=synchronous"])


WINDOWS: list[Any] = [
    [0.5, 0.5], [0.8, 0.1], [0.1], [0.1, 0.2, 0.3], [0, True], [1, 2], [-1, 0], ["a", "b"],
    0.5, "abc", None,
]  # fmt: skip
CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    *(({"replay": {"retire": w}}, f"or [] to retire none. Got {w!r}") for w in (*WINDOWS, [0, 2])),
    ({"static": {"variants": "a.jsonl"}}, 'curriculum is "rods". Set curriculum = "static"'),
    ({"stages": []}, "at least one stage is needed, got none"),
    ({"envtuning": {"hints": "b"}}, "no stage is called 'b'. Name some of ['all']"),
    *(({"train": {"filtering": {"window": w}}}, f"lies between them. Got {w!r}") for w in WINDOWS),
    ({"train": {"credit": "turn", "advantage": "gae"}}, 'got "gae"'),
    ({"train": {"credit": "turn", "kl_in": "reward"}}, 'Set train.kl_in = "loss"'),
    ({"train": {"advantage": "gae", "mask_env_tokens": False}}, "Set it to true"),
    ({"train": {"dual_clip": 0.5}}, "expected 0 (off) or a number above 1"),
    ({"engine": {"name": "openai"}}, "Set engine.url, such as"),
    ({"engine": {"name": "hf", "url": "http://x"}}, 'Set engine.name = "openai"'),
    ({"engine": {"name": "vllm", "model": "m"}}, 'Set engine.name = "openai"'),
    ({"engine": {"name": "processes", "weights": "lora"}}, "samples from the trainer's weights"),
    ({"engine": {"name": "vllm", "weights": "folder"}}, "takes fixed or lora. Leave"),
    (
        {"engine": {"name": "openai", "url": "http://x", "weights": "lora"}},
        "Set engine.folder to one that the server can read",
    ),
]


@pytest.mark.parametrize(("settings", "message"), CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_refused_with_what_to_do(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(settings, "here")
    assert str(error.value).startswith("here: ") and message in str(error.value)
    assert "Value error" not in str(error.value)


def test_all_contradictions_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({"boundary": {"low": 0.9}, "train": {"dual_clip": 1}}, "here")
    assert "boundary.low must be" in str(error.value) and "dual_clip" in str(error.value)


def test_a_host_s_gaps_are_checks_of_settings() -> None:
    assert VERL.lacks <= NEEDS.keys() and lacking(RunConfig(), VERL) == []
    config = RunConfig(engine=EngineSettings(name="hf"), trajectories=9)
    assert lacking(config, VERL) == ['engine.name = "hf"', "trajectories = 9"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("none", []),
        ("dapo", ["train.filtering.redraw = 8"]),
        ("zerotir", ["train.filtering.max_perplexity = 5.0", "train.filtering.redraw = 8"]),
    ],
)
def test_a_host_is_asked_for_nothing_that_the_filter_does_not_read(
    name: str, asked: list[str]
) -> None:
    config = load_config("zerotir", "full", [f"train.filter={name}"])
    assert lacking(config, VERL) == asked


def test_engines_are_those_whose_kind_is_known() -> None:
    assert {"auto", *ENGINES_MADE} == ENGINES.keys()
    assert traits_of("mine:make").foreign and not traits_of("hf").foreign


def test_digest_follows_the_settings() -> None:
    one, other = RunConfig(), RunConfig(seed=1)
    assert one.digest() == RunConfig().digest() != other.digest()
    assert one.changed(other) == ["seed: 0 -> 1"]


SETTINGS, CORE = 157, 119
"""Limits of the number of settings: of all, and of those that `src/rods/config/` declares."""
OWN = (
    "env.remote", "env.bfcl", "env.search", "env.python_tool", "env.questions", "env.options",
    "synthesis.resample", "synthesis.llm",
    "train.gae", "train.filtering", "train.local", "train.correction",
    "static", "track", "envtuning", "ray",
    "engine", "rollout.pipeline", "rollout.worlds",
    "env.function_call",
    "env.repo", "env.mcp", "evaluation.suite",
)  # fmt: skip
"""Sections of one environment, writer, reward, way of choosing seeds or way of training, and of the
worker."""


def test_settings_are_few() -> None:
    """All that `rods train --KEY VALUE` knows, and those of the core. The limits only fall."""
    own = {at for at, section in SECTIONS.items() if section.__module__.startswith("rods.config.")}
    core = [key for key in keys() if f"{key.rpartition('.')[0]}.".removeprefix(".") in own]
    sys.stdout.write(f"{len(keys())} settings, {len(core)} of them declared by the core\n")
    assert "seed" in core and "env.name" in core and "env.bfcl.wheel" in keys()
    assert (len(keys()), len(core)) <= (SETTINGS, CORE) and len(core) <= CORE <= 120


NAMES = sorted(plugins("env"))
OWNERS = [(name, section) for name in NAMES for section in declared("env", name)]


@pytest.mark.parametrize(("name", "section"), OWNERS)
def test_only_the_chosen_environment_s_section_is_known(
    name: str, section: str, tmp_path: Path
) -> None:
    kind = declared("env", name)[section]
    field = next(iter(kind.model_fields))
    values = {"questions": ["add"], "repo": 7}
    value = values.get(section, "python_tool" if section == "function_call" else "grouped")
    value = "paper" if field == "split" else value
    asked = f"env.{section}.{field}={json.dumps(value)}"
    chosen = load_config("rods", "full", [f"env.name={name}", asked])
    assert keys_of(chosen) >= {f"env.{section}.{field}"}
    other = "mcp" if name != "mcp" else "remote"
    with pytest.raises(ConfigError) as error:
        load_config("rods", "full", [f"env.name={other}", asked])
    for part in ("command line: ", f"env.{section}.{field}: no effect", "env.name = ", f'"{name}"'):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match="no effect"):
        parse_config({"env": {"name": other, section: {field: value}}}, "here")
    with pytest.raises(ConfigError, match=rf"Did you mean 'env\.{section}\.{field}'"):
        load_config("rods", "full", [f"env.name={name}", f"env.{section}.{field}s=1"])
    own = tmp_path / "own.toml"
    text = f'[env]\nname = "{name}"\n[env.{section}]\n{field} = {json.dumps(value)}\n'
    own.write_text(f'{text}[profile.b.env]\nname = "{other}"\n')
    assert keys_of(load_config(str(own), "full")) >= {f"env.{section}.{field}"}
    assert not keys_of(load_config(str(own), "b")) & {f"env.{section}.{field}"}, "replaced"
    own.write_text(text.replace(f'name = "{name}"', f'name = "{other}"'))
    with pytest.raises(ConfigError, match=r"own\.toml: .* no effect"):
        load_config(str(own), "full")


def keys_of(config: RunConfig) -> set[str]:
    return set(flat(config.model_dump(mode="json")))


def test_single_steps_read_the_settings_of_the_environment_that_is_split() -> None:
    asked = ["env.function_call.environment=python_tool", "env.questions.count=7"]
    env = load_config("toolrl", "full", asked).env
    assert (
        env.arguments["arguments"]
        == EnvSettings.model_validate({"name": "python_tool", "questions": {"count": 7}}).arguments
    )
    with pytest.raises(ConfigError, match=r'only env\.name = "bfcl" reads env\.bfcl'):
        load_config("toolrl", "full", [*asked, "env.bfcl.split=paper"])


@pytest.mark.parametrize("value", ["5", "[]", "'text'"])
@pytest.mark.parametrize("section", ["bfcl", "function_call", "search"])
def test_a_section_of_an_environment_is_a_table(section: str, value: str) -> None:
    for name in ("function_call", "bfcl"):
        with pytest.raises(ConfigError, match=rf"env\.{section}"):
            load_config("rods", "full", [f"env.name={name}", f"env.{section}={value}"])


def test_a_configuration_survives_json_and_pickle() -> None:
    config = load_config("torl")
    assert pickle.loads(pickle.dumps(config)) == config
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_the_shared_surface_stays_small() -> None:
    shared = [key for key in keys() if not f"{key}.".startswith(tuple(f"{own}." for own in OWN))]
    assert len(shared) <= 80, "give what one environment, writer or engine needs its own section"
    assert {"train.lr", "rollout.k", "stages.0.reward", "env.name"} <= set(shared)
    assert not {"env.bfcl.wheel", "synthesis.llm.url", "train.gae.lam", "evaluation.suite.user"} & {
        *shared
    }


@pytest.mark.parametrize(("name", "trajectories"), [("otc_ppo", 512), ("retool", 1024)])
def test_full_ppo_rolls_out_each_task_once(name: str, trajectories: int) -> None:
    rollout = load_config(name, "full").rollout
    assert (rollout.k, rollout.tasks_per_step) == (1, trajectories)


def test_one_rollout_of_a_task_is_allowed_where_nothing_compares_groups() -> None:
    for kind in ("gae", "reinforce++"):
        assert load_config("torl", "", ["rollout.k=1", f"train.advantage={kind}"]).rollout.k == 1


def test_a_run_s_settings_can_be_changed_for_an_evaluation() -> None:
    config = load_config("rods", "small")
    changed = with_overrides(config, ["evaluation.variants=7"])
    assert changed.evaluation.variants == 7
    assert changed.changed(config) == [f"evaluation.variants: 7 -> {config.evaluation.variants}"]
    with pytest.raises(ConfigError, match="evaluation"):
        with_overrides(config, ["evaluation.variant=7"])


def test_small_is_the_first_profile_of_a_recipe(tmp_path: Path) -> None:
    assert load_config("rods", "small") == load_config("rods", "small")
    bare = tmp_path / "bare.toml"
    bare.write_text("seed = 7\n")
    assert load_config(str(bare), "small").seed == 7  # no profile: its top level


@pytest.mark.parametrize("name", recipe_names())
def test_every_line_of_a_recipe_s_full_setting_has_its_source(name: str) -> None:
    full = recipe_file(name).read_text().partition("\n[profile")[0]
    lines = [line for line in full.splitlines() if re.match(r"\w+ = ", line)]
    bare = [line for line in lines if not re.search(r"#\s*[PCSD]\b", line)]
    assert lines and not bare, "P paper, C released code, S the inherited system, D ours"


EXAMS = {"torl": 1, "retool": 2, "zerotir": 3, "otc_ppo": 1, "otc_grpo": 1}
"""Files of questions that the papers evaluate on."""


@pytest.mark.parametrize("recipe", EXAMS)
def test_full_settings_train_on_all_and_evaluate_on_the_papers_own_questions(recipe: str) -> None:
    full, small = load_config(recipe, "full"), load_config(recipe, "small")
    assert full.env.held_out == 0 and len(full.evaluation.files) == EXAMS[recipe]
    assert not set(full.evaluation.files) & set(full.env.tasks)
    assert small.env.held_out == 0.25 and not (small.evaluation.files or small.env.tasks)


def test_full_settings_are_what_was_looked_up() -> None:
    zerotir, torl, retool = (load_config(name, "full") for name in ("zerotir", "torl", "retool"))
    assert zerotir.env.tasks == ("data/orz_math_57k.json", "data/deepmath_103k.parquet")
    seconds = [c.env.python_tool.seconds for c in (zerotir, torl, retool)]
    assert seconds == [20.0, 20.0, 30.0] and retool.env.python_tool.memory_mb == 1024
    assert (torl.evaluation.samples, retool.evaluation.samples) == (0, 32)
    clips = [(c.train.dual_clip, c.train.minibatch) for c in (zerotir, torl, retool)]
    assert clips == [(3.0, 0), (0.0, 0), (10.0, 512)], "ToRL's framework had no dual clip yet"
    for name, kind in (("otc_ppo", "reward"), ("otc_grpo", "loss")):
        train = load_config(name, "full").train
        assert (train.kl, train.kl_in, train.entropy, train.clip_high) == (1e-3, kind, 1e-3, 0.2)
        assert (train.dual_clip, train.minibatch) == (0.0, 256)


def test_zerotir_s_full_setting_is_its_code_s() -> None:
    full = load_config("zerotir", "full")
    assert full.rollout.stop == ("</answer>",)
    filtering = full.train.filtering
    assert (filtering.window, filtering.max_perplexity) == ((0.05, 0.8), 5.0)
    assert filtering.redraw and load_config("otc_ppo", "full").train.kl_in == "reward"


def test_a_pipeline_has_more_in_flight() -> None:
    sizes = {"k": 4, "tasks_per_step": 8, "concurrency": 100}
    found = [
        RolloutSettings.model_validate({**sizes, "schedule": name, "pipeline": {"staleness": s}})
        for name, s in (("asynchronous", 2), ("pipelined", 0), ("pipelined", 1), ("pipelined", 9))
    ]
    assert [settings.in_flight for settings in found] == [32, 32, 64, 100]


@pytest.mark.parametrize(
    ("profile", "known"), [("smollm2", "one stage, stages.0"), ("small", "3 stages, stages.0 to")]
)
def test_a_stage_that_a_profile_does_not_have_is_named_with_those_that_it_has(
    profile: str, known: str
) -> None:
    with pytest.raises(ConfigError, match=f"stages.7.*: this run has {known}"):
        load_config("rods", profile, ["stages.7.reward=accuracy"])
