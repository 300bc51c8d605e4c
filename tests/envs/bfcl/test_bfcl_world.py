"""Worlds share nothing, refuse what is not offered, and every fault of the official pair is absent.

Each test of a fault of the benchmark's executor and checker names that fault.
"""

import asyncio
import datetime
import gc
import os
import threading

import mpmath
import pytest

from bfcl_judges import judge_calls
from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment, BfclWorld
from rods.errors import EnvError, TaskError
from rods.task import Task, Turn
from rods.types import ToolCall, ToolResult, Value

ENVIRONMENT = BfclEnvironment()
TWITTER = {"TwitterAPI": {"authenticated": True, "username": "ann", "password": "x"}}


def named(origin: str) -> Task:
    return next(t for t in load_tasks() if t.provenance.origin == origin)


def made(*turns: Turn, classes: tuple[str, ...] = ("MathAPI",), **world: object) -> Task:
    config = {"initial_config": {}, "long_context": False, **world}
    return Task("bfcl", "base", turns, {"classes": list(classes), **config})


def opened(task: Task) -> BfclWorld:
    world = ENVIRONMENT.open(task)
    world.begin_turn(0)
    return world


def ask(world: BfclWorld, function: str, /, **arguments: Value) -> ToolResult:
    return world.call(ToolCall(function, arguments))


def objects_of(root: object) -> dict[int, object]:
    """All lists, dictionaries, sets and instances reachable from a value, by id, kept alive."""
    todo, found = [root], dict[int, object]()
    while todo:
        item = todo.pop()
        mutable = isinstance(item, list | dict | set) or type(item).__module__.startswith("bfcl")
        if id(item) not in found and (mutable or isinstance(item, tuple)):
            if mutable:
                found[id(item)] = item
            todo.extend(gc.get_referents(item))
    return found


@pytest.mark.slow
def test_every_ground_truth_passes_both_judges():
    for task in load_tasks():
        for verdict in judge_calls(task, [t.ground_truth for t in task.turns], ENVIRONMENT):
            assert verdict.solved, task.provenance.origin
            assert verdict.official, task.provenance.origin
        turns = ENVIRONMENT.prepare(task).replay
        assert not any(result.failed for turn in turns for result in turn.results)


def test_doing_nothing_solves_only_the_turns_of_abstention():
    for task in load_tasks()[::7]:
        for turn, verdict in zip(
            task.turns, judge_calls(task, [()] * len(task.turns), ENVIRONMENT), strict=True
        ):
            assert verdict.solved is verdict.official is (not turn.ground_truth)


# Fault: calls are strings given to `eval` behind a first-name blocklist.


ATTACKS = [
    "__import__('os').popen('id').read()",
    "__import__",
    "__class__",
    "__init__",
    "_load_scenario",
    "_navigate_to_directory",
    "eval",
    "exec",
    "print",
    "str",
    "globals",
    "setattr",
    "root",
    "cd.__globals__",
    "GorillaFileSystem.cd",
    "",
]


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_strings_do_nothing(name: str):
    world = opened(named("multi_turn_base_0"))
    before = world.snapshot()
    for call in (
        ToolCall(name, {}),
        ToolCall(name, {"x": "__import__('os').system('exit')"}),
        ToolCall("cd", {"folder": ToolCall(name, {})}),
        ToolCall("cd", {"folder": [{"x": ToolCall(name, {})}]}),
    ):
        result = world.call(call)
        assert result.failed
        assert "no function" in result.content
    assert world.snapshot() == before
    verdict = world.end_turn()
    assert (verdict.calls, verdict.solved, verdict.official) == (4, False, False)


def test_text_in_arguments_is_only_text(tmp_path: os.PathLike[str]):
    world = opened(named("multi_turn_base_0"))
    target = os.path.join(tmp_path, "x")
    text = f"__import__('os').system('touch {target}')"
    assert ask(world, "mkdir", dir_name="d").content == "None"
    ask(world, "touch", file_name="a")
    ask(world, "echo", content=text, file_name="a")
    assert text in str(world.public_state())
    assert not os.path.exists(target)


def test_arguments_cannot_reach_private_parts():
    world = opened(named("multi_turn_base_0"))
    for call in (
        ToolCall("cd", {"folder": "x", "self": "y"}),
        ToolCall("cd", {"__class__": "x"}),
        ToolCall("cd", {}),
        ToolCall("cd", {"folder": None}),
        ToolCall("cd", {"folder": {"a": [1]}}),
    ):
        result = world.call(call)
        assert result.failed
        assert result.content.startswith("Error during execution: ")
    assert "missing 1 required positional argument: 'folder'" in ask(world, "cd").content


# Fault: instances cached in `globals()` by model name and entry id. Invariant 2.


def test_invariant_2_sixteen_concurrent_rollouts_of_one_task_are_independent():
    task = named("multi_turn_base_0")
    truth = [turn.ground_truth for turn in task.turns]

    async def rollout(number: int) -> tuple[bool, object]:
        world = ENVIRONMENT.open(task)
        solved = True
        for index, calls in enumerate(truth):
            world.begin_turn(index)
            for call in calls:
                await asyncio.sleep(0)
                world.call(call)
            if index == 0 and number % 2:
                ask(world, "mkdir", dir_name=f"own{number}")
            await asyncio.sleep(0)
            solved &= world.end_turn().solved
        state = world.snapshot()
        world.close()
        return solved, state

    async def all_of_them() -> list[tuple[bool, object]]:
        return await asyncio.gather(*(rollout(number) for number in range(16)))

    results = asyncio.run(all_of_them())
    assert [solved for solved, _ in results] == [number % 2 == 0 for number in range(16)]
    distinct: list[object] = []
    for _, state in results:
        if state not in distinct:
            distinct.append(state)
    assert len(distinct) == 9


@pytest.mark.slow
@pytest.mark.parametrize("category", assets.CATEGORIES)
def test_two_worlds_never_share_an_object(category: str):
    tasks = [t for t in load_tasks() if t.category == category][::9]
    for task in tasks:
        worlds = [ENVIRONMENT.open(task) for _ in range(2)]
        for index, turn in enumerate(task.turns):
            for world in worlds:
                world.begin_turn(index)
                for call in turn.ground_truth:
                    world.call(call)
                world.end_turn()
        one, other = (objects_of(world._apis._live) for world in worlds)
        kept = objects_of([t.snapshot for t in ENVIRONMENT.prepare(task).replay])
        kept |= objects_of(ENVIRONMENT.prepare(task).prototype.initial)
        kept |= objects_of([turn.ground_truth for turn in task.turns])
        assert len(one) > 3
        assert not one.keys() & other.keys()
        assert not one.keys() & kept.keys()


def test_arguments_are_copied_into_the_world():
    task = made(Turn("x"), classes=("TwitterAPI",), initial_config=TWITTER)
    tags: list[Value] = ["#a"]
    call = ToolCall("post_tweet", {"content": "x", "mentions": tags})
    one, other = opened(task), opened(task)
    one.call(call)
    ask(one, "mention", tweet_id=0, mentioned_usernames=["@b"])
    assert tags == ["#a"]
    assert '"mentions": ["#a"]' in other.call(call).content


# Fault: `TwitterAPI.post_tweet` has mutable list defaults that `mention` extends.


def test_mutable_defaults_belong_to_one_world():
    task = made(Turn("x"), classes=("TwitterAPI",), initial_config=TWITTER)
    for _ in range(3):
        world = opened(task)
        assert '"mentions": []' in ask(world, "post_tweet", content="x").content
        ask(world, "mention", tweet_id=0, mentioned_usernames=["@b"])
        assert '"mentions": ["@b"]' in ask(world, "get_tweet", tweet_id=0).content
    post_tweet = assets.api_class("TwitterAPI").post_tweet
    assert post_tweet.__defaults__ == ([], [])


def test_cards_of_the_long_context_belong_to_one_world():
    module = assets.module(assets.api_class("TravelAPI").__module__)
    card = next(iter(module.CREDIT_CARD_EXTENSION))
    balance = module.CREDIT_CARD_EXTENSION[card]["balance"]
    classes, config = ("TravelAPI",), {"TravelAPI": {"access_token": "t"}}
    world = opened(made(Turn("x"), classes=classes, initial_config=config, long_context=True))
    world._apis.run(ToolCall("get_all_credit_cards", {}))
    world._apis._live["TravelAPI"].credit_card_list[card]["balance"] -= 100
    assert module.CREDIT_CARD_EXTENSION[card]["balance"] == balance


# Fault: a shared `mpmath.mp.dps`, a mutated module global for long context.


def test_precision_of_the_process_is_left_alone():
    world = opened(made(Turn("x")))
    before = mpmath.mp.dps
    long = ask(world, "logarithm", value=2, base=10, precision=50).content
    short = ask(world, "logarithm", value=2, base=10, precision=3).content
    assert len(long) > 60 > len(short)
    assert mpmath.mp.dps == before
    assert ask(world, "logarithm", value=2, base=10, precision=50).content == long


def test_threads_with_worlds_of_their_own_do_not_disturb_each_other():
    tasks = [t for t in load_tasks() if "MathAPI" in t.world["classes"]][:12]
    wrong: list[str] = []

    def work() -> None:
        for task in tasks:
            truth = [turn.ground_truth for turn in task.turns]
            if not all(v.solved for v in judge_calls(task, truth, ENVIRONMENT)):
                wrong.append(task.provenance.origin)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_weather_of_the_long_context_is_not_shared():
    classes = ("VehicleControlAPI",)
    task = made(Turn("x"), classes=classes, long_context=True)
    one, other = opened(task), opened(task)
    name = "get_outside_temperature_from_google"
    first = ask(one, name).content
    ask(one, name)
    assert ask(other, name).content == first


# Fault: a regex rewrites call names, inside string literals too.


def test_function_names_inside_text_stay_as_they_are():
    world = opened(named("multi_turn_base_0"))
    ask(world, "touch", file_name="a")
    ask(world, "echo", content="call sort (x) and cd(y)", file_name="a")
    assert ask(world, "cat", file_name="a").content == (
        '{"file_content": "call sort (x) and cd(y)"}'
    )
    assert "instance" not in ask(world, "cd", wrong=1).content


# Fault: withheld functions stay callable before they are revealed.


def test_withheld_functions_cannot_be_called_until_they_are_given_back():
    task = named("multi_turn_miss_func_0")
    world = ENVIRONMENT.open(task)
    for index, turn in enumerate(task.turns):
        world.begin_turn(index)
        names = {spec.name for spec in world.offered()}
        assert ("sort" in names) is (index >= 3)
        result = ask(world, "sort", file_name="final_report.pdf")
        assert ("no function 'sort'" in result.content) is (index < 3)
        for call in turn.ground_truth:
            world.call(call)
        world.end_turn()


def test_parity_follows_the_official_executor_that_runs_withheld_functions():
    task = named("multi_turn_miss_func_0")
    calls = [list(turn.ground_truth) for turn in task.turns]
    calls[2], calls[3] = calls[3], [ToolCall("ls", {})]
    verdicts = judge_calls(task, calls, ENVIRONMENT)
    assert [v.official for v in verdicts] == [True] * 5
    assert [v.solved for v in verdicts] == [True, True, False, False, True]


# Fault: `multi_turn_irrelevance_checker` is never called.


@pytest.mark.parametrize("category", ["miss_func", "miss_param"])
def test_acting_where_nothing_should_be_called_is_judged(category: str):
    for task in [t for t in load_tasks() if t.category == category][::10]:
        bogus = [ToolCall("bogus", {})] * 5
        calls = [turn.ground_truth or bogus for turn in task.turns]
        for turn, verdict in zip(task.turns, judge_calls(task, calls, ENVIRONMENT), strict=True):
            assert verdict.official
            assert verdict.solved is bool(turn.ground_truth)
            assert verdict.expects_calls is bool(turn.ground_truth)


# Fault: a turn's state check compares public attributes only. Documented; the same here.


def test_the_current_folder_is_not_compared():
    task = named("multi_turn_base_0")
    calls = [list(turn.ground_truth) for turn in task.turns]
    calls[-1].append(ToolCall("cd", {"folder": ".."}))
    assert judge_calls(task, calls, ENVIRONMENT)[-1].solved


# Fault: `verify_traveler_information` reads today's date; a few results print a Python set.


def test_ground_truth_and_rollout_see_the_same_calendar(monkeypatch: pytest.MonkeyPatch):
    call = ToolCall(
        "verify_traveler_information",
        {
            "first_name": "A",
            "last_name": "B",
            "date_of_birth": "2000-01-01",
            "passport_number": "US123456",
        },
    )
    config = {"TravelAPI": {"user_first_name": "A", "user_last_name": "B"}}
    task = made(Turn("x", (call,)), classes=("TravelAPI",), initial_config=config)
    module = assets.module(assets.api_class("TravelAPI").__module__)
    contents: list[str] = []
    for year in (2010, 2030):

        class Clock(datetime.datetime):
            today = classmethod(lambda cls, year=year: datetime.datetime(year, 1, 2))

        monkeypatch.setattr(module, "datetime", Clock)
        environment = BfclEnvironment()
        assert judge_calls(task, [[call]], environment)[0].solved
        contents.append(environment.prepare(task).replay[0].results[0].content)
    assert contents[0] != contents[1]


def test_sets_in_the_state_are_compared_as_sets():
    task = made(Turn("x"), classes=("MessageAPI",))
    one, other = opened(task), opened(task)
    for world, order in ((one, (1, 2**40, 7)), (other, (7, 2**40, 1))):
        ask(world, "list_users")
        world._apis._live["MessageAPI"].generated_ids |= dict.fromkeys(order).keys()
    assert one.snapshot() == other.snapshot()


# Fault: results that are dictionaries with an `error` key count as successful calls.


def test_reported_errors_are_failed_calls():
    world = opened(named("multi_turn_base_0"))
    result = ask(world, "cd", folder="nowhere")
    assert result.failed
    assert result.content.startswith('{"error": ')
    world = opened(made(Turn("x"), classes=("TradingBot",)))
    assert ask(world, "get_watchlist").failed
    assert ask(world, "get_order_history").failed
    assert not ask(world, "get_current_time").failed


# Beyond the table.


def test_calls_that_would_never_end_fail_at_once():
    world = opened(made(Turn("x")))
    assert "4300 digits" in ask(world, "power", base=9, exponent=9**9).content
    assert ask(world, "power", base=2, exponent=10).content == '{"result": 1024}'
    for name, arguments in (
        ("logarithm", {"value": 2, "base": 10, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ):
        assert world.call(ToolCall(name, arguments)).failed


def test_a_folder_copied_into_itself_is_wrong_but_no_crash():
    task = named("multi_turn_base_0")
    world = opened(task)
    for call in task.turns[0].ground_truth:
        world.call(call)
    ask(world, "cd", folder="..")
    ask(world, "cp", source="document", destination="document")
    verdict = world.end_turn()
    assert (verdict.state, verdict.solved, verdict.official) == (False, False, False)
    assert world.public_state()
    assert world.snapshot()


def test_nested_calls_are_executed_and_checked():
    world = opened(made(Turn("x")))
    nested = ToolCall("mean", {"numbers": [1, 2]})
    result = ask(world, "add", a=nested, b=1)
    assert "Both inputs must be numbers" in result.content


def test_refusals_suggest_only_offered_functions():
    task = named("multi_turn_miss_func_0")
    world = opened(task)
    assert "sort" not in ask(world, "sorts").content.removeprefix("Error: there is no function 's")
    assert "Did you mean mkdir" in ask(world, "mkdri").content


def test_a_world_is_used_in_order_and_once():
    world = ENVIRONMENT.open(named("multi_turn_base_0"))
    with pytest.raises(EnvError, match="outside of a turn"):
        ask(world, "ls")
    with pytest.raises(EnvError, match="turn 1 cannot begin"):
        world.begin_turn(1)
    world.begin_turn(0)
    with pytest.raises(EnvError, match="still open"):
        world.begin_turn(1)
    world.end_turn()
    with pytest.raises(EnvError, match="outside of a turn"):
        world.end_turn()
    world.close()
    world.close()
    with pytest.raises(EnvError, match="closed"):
        world.snapshot()


def test_a_task_of_another_environment_is_refused():
    with pytest.raises(TaskError, match="env is 'other'"):
        ENVIRONMENT.open(Task("other", "base", (Turn("x"),), {}))


def test_snapshots_are_values_of_their_own():
    world = opened(named("multi_turn_base_0"))
    before, again = world.snapshot(), world.snapshot()
    assert before == again
    ask(world, "mkdir", dir_name="new")
    assert world.snapshot() != before == again


def test_the_cache_of_replays_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rods.envs.judge.MOST", 3)
    environment = BfclEnvironment()
    tasks = load_tasks()[:5]
    kept = [environment.prepare(task) for task in tasks]
    assert environment.prepare(tasks[4]) is kept[4]
    assert environment.prepare(tasks[0]) is not kept[0]
