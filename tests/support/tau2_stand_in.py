"""A small package with tau2-bench's interface, copied into a folder as its `src/tau2`.

Written by ourselves for tests: a shop of orders, a user and a judge that ask a chat server. All of
its modules are this one.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import openai
from pydantic import BaseModel

for _name in (
    *("registry", "config", "agent", "agent.llm_agent", "orchestrator"),
    *("orchestrator.orchestrator", "user", "user.user_simulator", "utils", "utils.llm_utils"),
    *("data_model", "data_model.message", "data_model.tasks", "data_model.simulation"),
    *("evaluator", "evaluator.evaluator", "evaluator.evaluator_nl_assertions"),
):
    sys.modules[f"tau2.{_name}"] = sys.modules[__name__]

DEFAULT_MAX_ERRORS, DEFAULT_MAX_STEPS = 10, 200
DEFAULT_LLM_ARGS_USER = DEFAULT_LLM_NL_ASSERTIONS_ARGS = {"temperature": 0.0}
DEFAULT_LLM_NL_ASSERTIONS = "nobody"


class ToolCall(BaseModel):
    id: str
    name: str
    arguments: dict[str, Any]


class Message(BaseModel):
    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None

    def validate(self) -> None:  # type: ignore[override]
        if not (self.content or "").strip() and not self.tool_calls:
            raise ValueError("an empty message")


class ToolMessage(Message):
    id: str
    error: bool = False


AssistantMessage = UserMessage = Message
DEFAULT_FIRST_AGENT_MESSAGE = Message(role="assistant", content="Hi!")


class Start(BaseModel):
    initialization_data: dict[str, Any] | None = None
    initialization_actions: list[Any] | None = None
    message_history: list[Message] | None = None


class RewardType(enum.Enum):
    DB = "DB"
    ACTION = "ACTION"
    COMMUNICATE = "COMMUNICATE"
    NL_ASSERTION = "NL_ASSERTION"


class Criteria(BaseModel):
    actions: list[ToolCall] | None = None
    communicate_info: list[str] = []
    nl_assertions: list[str] | None = None
    reward_basis: list[RewardType]


class Task(BaseModel):
    id: str
    user_scenario: str
    initial_state: Start | None = None
    evaluation_criteria: Criteria | None = None


class Tool(BaseModel):
    name: str
    parameters: list[str]

    @property
    def openai_schema(self) -> dict[str, Any]:
        each = {name: {"type": "string"} for name in self.parameters}
        schema = {"type": "object", "properties": each, "required": self.parameters}
        function = {"name": self.name, "description": f"{self.name}.", "parameters": schema}
        return {"type": "function", "function": function}


class Shop:
    def __init__(self) -> None:
        self.orders = {"#G": "pending", "#D": "delivered"}

    def get_tools(self) -> list[Tool]:
        return [
            Tool(name="cancel_order", parameters=["order_id"]),
            Tool(name="get_order", parameters=["order_id"]),
            Tool(name="calculate", parameters=["expression"]),
        ]

    def get_policy(self) -> str:
        return "Be fair."

    def get_response(self, call: ToolCall) -> ToolMessage:
        try:
            if call.name == "calculate":
                text = f"reckoned {call.arguments['expression']}"
            elif call.name == "exit":
                os._exit(3)
            elif call.name == "cancel_order":
                if self.orders[call.arguments["order_id"]] != "pending":
                    raise ValueError("Non-pending order cannot be cancelled")
                self.orders[call.arguments["order_id"]] = text = "cancelled"
            else:
                text = self.orders[call.arguments["order_id"]]
        except (ValueError, LookupError) as error:
            return ToolMessage(id=call.id, role="tool", content=f"Error: {error}", error=True)
        return ToolMessage(id=call.id, role="tool", content=text)

    def set_state(self, data: Any, actions: Any, history: list[Any]) -> None:
        self.orders.update(data or {})
        for message in history:
            for call in message.tool_calls or []:
                self.get_response(call)

    def get_db_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.orders).encode()).hexdigest()

    def get_user_db_hash(self) -> None:
        return None


class LLMAgent:
    def __init__(self, tools: list[Tool], domain_policy: str, llm: str) -> None:
        self.system_prompt = f"Serve. {domain_policy}"


def generate(model: str, messages: list[Message], api_base: str, api_key: str, **more: Any) -> Any:
    client = openai.OpenAI(base_url=api_base, api_key=api_key, max_retries=0)
    asked: Any = [{"role": one.role, "content": one.content} for one in messages]
    name = model.removeprefix("openai/")
    made = client.chat.completions.create(model=name, messages=asked, **more)
    return Message(role="assistant", content=made.choices[0].message.content)


class UserSimulator:
    def __init__(self, instructions: str, llm: str, llm_args: dict[str, Any]) -> None:
        self.instructions, self.llm, self.llm_args = instructions, llm, llm_args

    def get_init_state(self) -> list[Message]:
        return [Message(role="system", content=f"Play. {self.instructions}")]

    def generate_next_message(self, message: Message, state: list[Message]) -> Any:
        state.append(Message(role="user", content=message.content))
        said = generate(self.llm, state, **self.llm_args).content
        state.append(Message(role="assistant", content=said))
        return Message(role="user", content=said), state

    def is_stop(self, message: Message) -> bool:
        return "###STOP###" in (message.content or "")


class SimulationRun(BaseModel):
    id: str
    task_id: str
    start_time: str
    end_time: str
    duration: float
    termination_reason: str
    messages: list[Any]


class Check(BaseModel):
    db_match: bool = True
    met: bool = True


class Reward(BaseModel):
    reward: float
    db_check: Check | None = None
    nl_assertions: list[Check] | None = None
    reward_breakdown: dict[RewardType, float] = {}


class EvaluationType(enum.Enum):
    ENV = "env"
    ALL = "all"


class NLAssertionsEvaluator:
    @classmethod
    def evaluate_nl_assertions(cls, messages: list[Any], asserted: list[str]) -> list[Check]:
        text = "\n".join(f"{one.role}: {one.content}" for one in messages)
        asked = [Message(role="system", content="Judge."), Message(role="user", content=text)]
        module = sys.modules[__name__]
        options: dict[str, Any] = module.DEFAULT_LLM_NL_ASSERTIONS_ARGS  # type: ignore[attr-defined]
        said = generate(module.DEFAULT_LLM_NL_ASSERTIONS, asked, **options)  # type: ignore[attr-defined]
        return [Check(met=one) for one in json.loads(said.content)]


def evaluate_simulation(
    run: SimulationRun, task: Task, kind: EvaluationType, solo: bool, domain: str
) -> Reward:
    wanted = task.evaluation_criteria
    if wanted is None:
        return Reward(reward=1.0)
    mine, gold = Shop(), Shop()
    start = task.initial_state or Start()
    mine.set_state(start.initialization_data, None, run.messages)
    gold.set_state(start.initialization_data, None, [])
    for action in wanted.actions or []:
        gold.get_response(action)
    calls = [call for one in run.messages for call in one.tool_calls or []]
    made = [(call.name, call.arguments) for call in calls]
    said = "\n".join(one.content or "" for one in run.messages if one.role == "assistant")
    right = mine.get_db_hash() == gold.get_db_hash()
    values = {
        RewardType.DB: right,
        RewardType.ACTION: all((a.name, a.arguments) in made for a in wanted.actions or []),
        RewardType.COMMUNICATE: all(info in said for info in wanted.communicate_info),
    }
    checks = None
    if RewardType.NL_ASSERTION in wanted.reward_basis and kind is EvaluationType.ALL:
        checks = NLAssertionsEvaluator.evaluate_nl_assertions(
            run.messages, wanted.nl_assertions or []
        )
        values[RewardType.NL_ASSERTION] = all(one.met for one in checks)
    parts = {key: float(values[key]) for key in wanted.reward_basis if key in values}
    return Reward(
        reward=float(all(parts.values())),
        db_check=Check(db_match=right),
        nl_assertions=checks,
        reward_breakdown=parts,
    )


class Registry:
    def get_env_constructor(self, name: str) -> Any:
        return Shop

    def get_tasks_loader(self, name: str) -> Any:
        rows = json.loads(Path(os.environ["TAU2_DATA_DIR"], "tasks.json").read_text())
        return lambda split: [Task.model_validate(row) for row in rows if row["id"] != "unsplit"]

    def get_task_splits_loader(self, name: str) -> Any:
        return lambda: {"base": ["0", "1"], "train": ["0"], "test": ["1"]}


registry = Registry()
