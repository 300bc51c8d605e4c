"""tau2-bench's retail tools and verdicts beside the checkout's own: what `suites_verdicts.py` asks.

Calls are random and adversarial, made of the checkout's database: each sequence in a fresh world,
every result's text and the whole database at the end. Verdicts are on the tasks' own calls, whole
and altered, under the tasks' own bases and random ones; both sides get the same judge.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rods.config import load_config
from rods.envs import make_suite
from rods.envs.suites.tau2.database import Shop, Store
from rods.envs.suites.tau2.specs import SPECS
from rods.envs.suites.tau2.tools import RetailTools
from rods.types import FinishReason, ParseVerdict, StopReason, ToolCall

CALLS = 8
BASES = ("DB", "ACTION", "COMMUNICATE", "NL_ASSERTION")
JUNK = (
    None,
    True,
    0,
    -1.5,
    "",
    "x",
    "#W0000000",
    [],
    ["x"],
    [1],
    {},
    {"a": 1},
    "\u00e9\u4eca",
    [[]],
)
THEIRS = """
import copy, json, sys, zlib
from loguru import logger
logger.remove()
from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
from tau2.data_model.simulation import NLAssertionCheck, SimulationRun
from tau2.data_model.tasks import Task
from tau2.domains.retail.data_model import RetailDB
from tau2.domains.retail.environment import get_environment, get_tasks
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.evaluator.evaluator_nl_assertions import NLAssertionsEvaluator
from tau2.user.user_simulator import UserSimulator
import tau2.domains.retail.environment as home
database = home.RetailDB.load(home.RETAIL_DB_PATH)
class Loaded:
    @staticmethod
    def load(path):
        users = {key: copy.deepcopy(database.users[key]) for key in part["users"]}
        orders = {key: copy.deepcopy(database.orders[key]) for key in part["orders"]}
        return RetailDB.model_construct(products=database.products, users=users, orders=orders)
home.RetailDB = Loaded
asked = json.load(sys.stdin)
results, states = [], []
for part, calls in asked["sequences"]:
    world, found = get_environment(), []
    for name, arguments in calls:
        answer = world.get_response(ToolCall(id="1", name=name, arguments=arguments))
        found.append([answer.content, answer.error])
    results.append(found)
    states.append(world.get_db_hash())
def judged(trajectory, assertions):
    met = [bool(zlib.crc32((one + case["judge"]).encode()) % 4) for one in assertions]
    return [NLAssertionCheck(nl_assertion="", met=one, justification="") for one in met]
NLAssertionsEvaluator.evaluate_nl_assertions = judged
rewards, rows = [], {task.id: task for task in get_tasks("base")}
for case in asked["cases"]:
    part = case["part"]
    world = get_environment()
    said = [AssistantMessage(role="assistant", content="Hi! How can I help you today?")]
    for number, step in enumerate(case["steps"]):
        if isinstance(step, str):
            said.append(AssistantMessage(role="assistant", content=step))
            said.append(UserMessage(role="user", content="ok"))
            continue
        call = ToolCall(id=str(number), name=step[0], arguments=step[1])
        said += [AssistantMessage(role="assistant", tool_calls=[call]), world.get_response(call)]
    run = SimulationRun(id="1", task_id=case["task"], start_time="", end_time="", duration=0.0,
                        termination_reason=case["ended"], messages=said)
    task = rows[case["task"]].model_copy(deep=True)
    if case["basis"]:
        task = Task.model_validate({**task.model_dump(), "evaluation_criteria": {
            **task.evaluation_criteria.model_dump(), "reward_basis": case["basis"]}})
    rewards.append(evaluate_simulation(run, task, EvaluationType.ALL, False, "retail").reward)
prompts = {key: UserSimulator(llm="none", instructions=str(task.user_scenario)).system_prompt
           for key, task in rows.items()}
json.dump(
    {"results": results, "states": states, "rewards": rewards, "prompts": prompts}, sys.stdout)
"""


def tau2(folder: Path, python: str, sequences: int = 250) -> None:
    """Print how many results, states, verdicts and instructions differ.

    Args:
        folder: `data/tau2/domains/retail` of a checkout.
        python: an interpreter that has what the checkout's package needs.
        sequences: of calls, in a fresh world each.
    """
    named = f"evaluation.suite.folder={json.dumps(str(folder))}"
    rules: Any = make_suite("tau2-retail", load_config(overrides=[named]))
    shop: Shop = rules.environment.shop
    made = [sequence(shop, random.Random(f"tau2-{n}")) for n in range(sequences)]
    whole = shop
    cases = [case for task in rules.tasks() for case in cases_of(task, shop)]
    asked = {"sequences": made, "cases": cases}
    theirs = official(folder, python, asked)
    results: list[Any] = []
    states: list[str] = []
    before: list[str] = []
    for names, calls in made:
        shop = part_of(whole, names)
        before.append(digest(Store(shop).tables()))
        store = Store(shop)
        tools = RetailTools(store)
        answers = [tools.call(name, arguments) for name, arguments in calls]
        results.append([[one.content, one.failed] for one in answers])
        states.append(digest(store.tables()))
    flat = [
        (a, b)
        for x, y in zip(results, theirs["results"], strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    told = [pair for pair in flat if pair[0] != pair[1]]
    failed = sum(one[1] for one, _ in flat)
    print(f"tau2-retail: {len(flat)} calls, {failed} fail, {len(told)} results differ")
    for ours, other in told[:5]:
        print(f"    {ours} | {other}")
    same = sum(a != b for a, b in zip(states, theirs["states"], strict=True))
    changed = sum(a != b for a, b in zip(states, before, strict=True))
    print(f"tau2-retail: {len(states)} databases, {changed} changed, {same} differ")
    tasks = {task.world["entry"]: task for task in rules.tasks()}
    ours: list[float] = []
    for case in cases:
        rules.environment.shop = part_of(whole, case["part"])
        ours.append(float(rules_score(rules, tasks[case["task"]], case)))
    differ = [c for c, a, b in zip(cases, ours, theirs["rewards"], strict=True) if a != b]
    right = sum(map(int, ours))
    print(f"tau2-retail: {len(cases)} cases, {right} right by us, {len(differ)} verdicts differ")
    wrong = sum(theirs["prompts"][key] != task.world["customer"] for key, task in tasks.items())
    print(f"tau2-retail: {len(tasks)} customers' instructions, {wrong} differ")


def digest(tables: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tables, sort_keys=True, default=str).encode()).hexdigest()


def official(folder: Path, python: str, asked: Mapping[str, Any]) -> Any:
    root = folder.absolute().parents[3]
    done = subprocess.run(
        [python, "-c", THEIRS],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "TAU2_DATA_DIR": str(root / "data")},
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def part_of(shop: Shop, names: Mapping[str, Sequence[str]]) -> Shop:
    """Some customers and orders of a shop: what nobody asks for takes the time alone."""
    users = {key: shop.users[key] for key in names["users"]}
    return Shop(shop.products, users, {key: shop.orders[key] for key in names["orders"]})


def named(orders: Sequence[Any], users: Sequence[str] = ()) -> dict[str, list[str]]:
    owners = [one["user_id"] for one in orders]
    ids = [one["order_id"] for one in orders]
    return {"users": [*dict.fromkeys([*users, *owners])], "orders": [*dict.fromkeys(ids)]}


def sequence(shop: Shop, rng: random.Random) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """Calls about two orders, of which many change something and many fail."""
    orders = rng.sample(list(shop.orders.values()), 2)
    calls = [call(shop, rng, rng.choice(orders)) for _ in range(CALLS)]
    made = [altered(rng, *one) if rng.random() < 0.2 else one for one in calls]
    return named(orders, rng.sample(list(shop.users), 3)), made


def call(shop: Shop, rng: random.Random, order: Any) -> tuple[str, dict[str, Any]]:
    spec = rng.choice(SPECS)
    return spec.name, {key: value(shop, rng, order, key) for key in spec.properties}


def value(shop: Shop, rng: random.Random, order: Any, key: str) -> Any:
    """What an argument could be: mostly what fits the order."""
    user = shop.users[order["user_id"]]
    state = rng.getstate()
    items = rng.sample(order["items"], rng.randint(1, len(order["items"])))
    wanted = [item["item_id"] for item in items] + (
        [items[0]["item_id"]] if rng.random() < 0.1 else []
    )
    if key == "new_item_ids":
        rng.setstate(state)  # of the same items as item_ids, mostly
        items = rng.sample(order["items"], rng.randint(1, len(order["items"])))
        some = shop.products
        return [rng.choice(list(some[item["product_id"]]["variants"])) for item in items]
    if key == "item_ids":
        rng.setstate(state)
        return wanted
    choices: dict[str, Sequence[Any]] = {
        "order_id": [order["order_id"]] * 9 + ["#W0"],
        "payment_method_id": [*user["payment_methods"]] * 3 + ["gift_card_0000000"],
        "reason": ["no longer needed", "ordered by mistake", "other"],
        "user_id": [order["user_id"]] * 5 + ["nobody"],
        "product_id": [order["items"][0]["product_id"], "1"],
        "item_id": [order["items"][0]["item_id"], "1"],
        "email": [user["email"], user["email"].upper(), "x@y"],
        "first_name": [user["name"]["first_name"], user["name"]["first_name"].upper()],
        "last_name": [user["name"]["last_name"]] * 3 + ["Nobody"],
        "zip": [user["address"]["zip"], "00000"],
        "expression": [expression(rng)],
    }
    return rng.choice(choices.get(key, ["1 Main St", "", "\u00c5s"]))


def expression(rng: random.Random) -> str:
    if rng.random() < 0.5:
        text = "".join(rng.choice("0123456789+-*/(). ") for _ in range(rng.randint(0, 9)))
        return text.replace("**", "*")  # theirs reckons 9**9**9 until its memory ends
    if rng.random() < 0.1:
        return f"{rng.randint(-9, 99)}**{rng.randint(-99, 99)}"
    parts = [
        f"{rng.choice('  (')}{rng.randint(0, 999)}{rng.choice(['', '.5', '.25'])}"
        for _ in range(rng.randint(1, 4))
    ]
    text = rng.choice([" + ", " - ", "*", "/", "//"]).join(parts)
    return text + ")" * text.count("(")


def altered(rng: random.Random, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call with one thing that no tool expects."""
    kind = (
        rng.choice(["junk", "less", "more", "name"]) if arguments else rng.choice(["more", "name"])
    )
    if kind == "name":
        return rng.choice(
            ["", "cancel", "_pending", "call", "__init__", "tools", "GET_USER_DETAILS"]
        ), arguments
    if kind == "more":
        return name, {**arguments, rng.choice(["x", "order", "note"]): rng.choice(JUNK)}
    key = rng.choice(list(arguments))
    left = {k: v for k, v in arguments.items() if k != key}
    return (name, left) if kind == "less" else (name, {**arguments, key: rng.choice(JUNK)})


def cases_of(task: Any, shop: Shop) -> list[dict[str, Any]]:
    """Conversations with the task's calls, whole and altered, and words that say what is wanted."""
    rng = random.Random(f"tau2-case-{task.world['entry']}")
    gold = [[one["name"], one["arguments"]] for one in task.world["actions"]]
    made: list[dict[str, Any]] = []
    for number in range(4):
        place = rng.randrange(len(gold)) if gold else 0
        ways = [gold, gold, gold[:place] + gold[place + 1 :], gold[: place + 1] + gold[place:]]
        other = rng.choice(list(shop.orders.values()))
        ways += [rng.sample(gold, len(gold)), [*gold, list(call(shop, rng, other))]]
        steps: list[Any] = list(rng.choice(ways))
        words = [*task.world["communicate"], "1,234.5 is the TOTAL", "Done"]
        for word in rng.sample(words, rng.randint(0, len(words))):
            steps.insert(rng.randint(0, len(steps)), f"It is {word.upper()}, you see.")
        basis = rng.sample(BASES, rng.randint(1, 4)) if number % 2 else []
        ended = rng.choice(["user_stop"] * 7 + ["max_steps", "too_many_errors"])
        ids = sorted({one for _, given in gold for one in given.values() if isinstance(one, str)})
        about = [*(shop.orders[one] for one in ids if one in shop.orders), other]
        case = {"task": task.world["entry"], "steps": [*steps, "Bye."], "basis": basis}
        part = named(about, [one for one in ids if one in shop.users])
        made.append({**case, "ended": ended, "judge": str(rng.random()), "part": part})
    return made


def rules_score(rules: Any, task: Any, case: Mapping[str, Any]) -> bool:
    """Our verdict on a case, by the same judge."""
    if case["basis"]:
        task = dataclasses.replace(task, world={**task.world, "basis": case["basis"]})
    tools = RetailTools(Store(rules.environment.shop))
    steps: list[Any] = []
    for one in case["steps"]:
        words = isinstance(one, str)
        calls = () if words else (ToolCall(one[0], one[1]),)
        results = tuple(tools.call(c.name, c.arguments) for c in calls)
        verdict = ParseVerdict.ANSWER if words else ParseVerdict.CALLS
        finish = FinishReason.STOP
        steps.append(
            SimpleNamespace(
                text=one if words else "",
                calls=calls,
                results=results,
                verdict=verdict,
                finish=finish,
            )
        )

    def says(messages: Sequence[Mapping[str, str]], schema: Any = None) -> str:
        asserted = task.world["assertions"]
        met = [bool(zlib.crc32((text + case["judge"]).encode()) % 4) for text in asserted]
        return json.dumps({"results": [{"metExpectation": one} for one in met]})

    rules._judge = SimpleNamespace(says=says)
    stop = StopReason.DONE if case["ended"] == "user_stop" else StopReason.STEPS
    return rules.score(task, SimpleNamespace(steps=steps, messages=(), stop=stop)).right
