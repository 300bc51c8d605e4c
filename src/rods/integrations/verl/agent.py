"""An agent loop of verl over our rollout and worlds: token ids in, token ids out.

Owns how one trajectory is rolled out in one of verl's agent workers, by the server from which verl
samples (vLLM, SGLang, ...). What is sampled is never encoded again; the masks are those of
`trainers/samples.py`. It scores nothing: the driver does, where the curriculum is.

verl makes the loop by its name and calls `run` for each trajectory of a group.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rods.config import ModelSettings, parse_config
from rods.dialects import get_dialect
from rods.envs.hints import hinted
from rods.envs.remote.processes import environment_of
from rods.errors import PolicyError
from rods.infra.install import needed
from rods.integrations.verl.rows import AGENT, DRAW, TRAJECTORY, drawn_of
from rods.policy import Completion, Policy, Session
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.template import ChatTemplate
from rods.stops import Stops, StopStrings
from rods.trainers.loading import load_stops
from rods.trainers.samples import HostRow, host_row
from rods.trajectory import Trajectory
from rods.trajectory_codec import to_json
from rods.types import FinishReason

with needed("verl is needed", "train", "verl"):
    _loops: Any = importlib.import_module("verl.experimental.agent_loop.agent_loop")
    _ray: Any = importlib.import_module("ray")
_AgentLoopBase: Any = _loops.AgentLoopBase

BROKEN_OFF = ("abort", "aborted")  # Servers' word for a generation that an update broke off


class TokenOutput(Protocol):
    """Answer of verl's servers: its class of this name."""

    token_ids: Sequence[int]
    log_probs: Sequence[float] | None
    stop_reason: str | None
    extra_fields: Mapping[str, Any]


@_loops.register(AGENT)
class CurriculumAgentLoop(_AgentLoopBase):
    """Rolls out tasks that the curriculum drew."""

    def __init__(self, trainer_config: Any, server_manager: Any, tokenizer: Any, **_: Any) -> None:
        """Keep what is needed; as verl makes one.

        The base's own would refuse tokenizers for whose family verl cannot join turns; we do that.
        """
        self.config: Any = trainer_config.config
        self.server_manager, self.tokenizer = server_manager, tokenizer

    async def run(self, sampling_params: Mapping[str, float], **row: Any) -> Any:
        """One trajectory of a row's task.

        Args:
            sampling_params: verl's; of them temperature and top_p hold.
            row: fields of the data set's row, `session_id` (the member) and `global_steps`.

        Raises:
            TaskError: the task's world cannot be loaded; verl then fails the group.
        """
        filler = int(self.tokenizer.pad_token_id or 0)
        if not row[DRAW]:
            nothing = HostRow([filler], [filler], [0], [0.0], [0], [0.0])
            return _output(nothing, [int(row["global_steps"]) - 1], {})
        drawn = drawn_of(row[DRAW])
        runner = _seat(self.config, self.tokenizer).runner(
            self.server_manager,
            int(row["global_steps"]) - 1,
            float(sampling_params["temperature"]),
            float(sampling_params["top_p"]),
        )
        wrapper = hinted if drawn.hinted else None
        trajectory = await runner.member(drawn.task, int(row["session_id"]), drawn.visit, wrapper)
        return output_of(trajectory, filler)


def output_of(trajectory: Trajectory, filler: int = 0) -> Any:
    """Row of a trajectory for verl, valid or not; `filler` as `host_row` has it.

    Its reward is written when the driver has judged it.
    """
    versions = [span.version for span in trajectory.spans if span.sampled]
    return _output(
        host_row(trajectory, None, filler),
        versions or [trajectory.policy_version],
        {TRAJECTORY: json.dumps(to_json(trajectory))},
        len(trajectory.messages),
    )


def _output(row: HostRow, of: Sequence[int], extra: Mapping[str, str], turns: int = 0) -> Any:
    """The row in verl's form, sampled under the weights `of` these updates."""
    versions = {"min_global_steps": min(of), "max_global_steps": max(of)}
    return _loops.AgentLoopOutput(
        prompt_ids=row.prompt,
        response_ids=row.completion,
        response_mask=row.mask,
        response_logprobs=row.rollout_logprobs,
        reward_score=0.0,  # none yet; given, so that verl asks no reward worker for one
        num_turns=turns,
        metrics=_loops.AgentLoopMetrics(),
        extra_fields={**extra, **versions, "reward_extra_info": {}},
    )


class _Seat:
    """State that all trajectories of one worker share."""

    def __init__(self, settings: str, source: str, tokenizer: Any, workers: int) -> None:
        self._config = parse_config(json.loads(settings), "rods.settings")
        self._environment = environment_of(self._config, workers)
        self._dialect = get_dialect(self._config.model.dialect)
        model: ModelSettings = self._config.model.model_copy(update={"name": source})
        self._template = ChatTemplate(tokenizer, load_stops(model))
        self._key: tuple[object, ...] = ()
        self._runner: RolloutRunner | None = None

    def runner(
        self, client: object, version: int, temperature: float, top_p: float
    ) -> RolloutRunner:
        """The runner of a policy version; its trajectories share worlds and prompts."""
        key = (version, temperature, top_p)
        if self._runner is None or key != self._key:
            rollout = self._config.rollout
            # How many may be invalid is counted in the driver, which sees all workers' share.
            sampling = {"temperature": temperature, "top_p": top_p}
            mine = rollout.model_copy(update={"max_invalid": 1.0, **sampling})
            context = RolloutContext(
                self._environment,
                ServerPolicy(client, version, self._template, rollout.context_tokens),
                self._dialect,
                self._template,
                mine,
                self._config.seed,
            )
            self._key = key
            self._runner = RolloutRunner(context, rollout.k * rollout.tasks_per_step)
        return self._runner


_seats: dict[str, _Seat] = {}
"""Seats of this process, by settings: verl makes a loop again for every trajectory."""


def _seat(config: Any, tokenizer: Any) -> _Seat:
    settings = str(config.rods.settings)
    if settings not in _seats:
        source, rollout = config.actor_rollout_ref.model.path, config.actor_rollout_ref.rollout
        workers = int(rollout.agent.num_workers)
        _seats[settings] = _Seat(settings, str(source), tokenizer, workers)
    return _seats[settings]


class ServerPolicy(Policy):
    """verl's servers as a policy."""

    def __init__(self, client: Any, version: int, template: ChatTemplate, longest: int) -> None:
        """`client` is verl's `LLMServerClient`, `longest` the tokens of a context."""
        self.client, self.longest = client, longest
        self.stop_ids = template.stop_ids
        self.stops = Stops(template.raw_decode)
        self._version = version

    @property
    def version(self) -> int:
        """Updates that the weights have seen when this policy was made."""
        return self._version

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        """A session; the servers find shared prompts in their own cache."""
        return ServerSession(self, seed)


class ServerSession:
    """One trajectory's context, which the server's prefix cache is to hold."""

    def __init__(self, policy: ServerPolicy, seed: int) -> None:
        self._policy, self._seed = policy, seed
        self._ids: list[int] = []
        self._generation: list[int] = []  # Tokens of a generation that was broken off
        self._open, self._goes_on = True, False

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """Append `new_ids` and sample; see `rods.policy.Session.generate`.

        verl's servers look for no stop strings: what was sampled behind one is thrown away.
        """
        policy, ids = self._policy, [*self._ids, *new_ids]
        room = policy.longest - len(ids)
        if not self._open or not (new_ids or self._goes_on) or max_tokens < 1 or room < 1:
            raise PolicyError(
                f"session with seed {self._seed}, {len(ids)} of {policy.longest} tokens of context:"
                f" got {len(new_ids)} new ids, max_tokens={max_tokens}, open={self._open}; expected"
                " an open session, at least one new id and room for one token."
            )
        limit = min(max_tokens, room)
        parameters = {
            "temperature": temperature, "top_p": top_p, "top_k": -1, "repetition_penalty": 1.0,
            "logprobs": True, "max_tokens": limit, "stop_token_ids": list(policy.stop_ids),
        }  # fmt: skip
        try:
            output = await policy.client.generate(
                request_id=str(self._seed), prompt_ids=ids, sampling_params=parameters
            )
        except _ray.exceptions.RayError as error:
            raise PolicyError(f"verl's server gave no answer: {error}") from error
        completion = self._read(output, limit, policy.stops.of(stops))
        self._ids = [*ids, *completion.ids]
        self._goes_on = completion.finish in (FinishReason.ABORT, FinishReason.STOP_STRING)
        broken = completion.finish is FinishReason.ABORT
        self._generation = [*self._generation, *completion.ids] if broken else []
        return completion

    def close(self) -> None:
        """End the session."""
        self._open = False

    def _read(self, output: TokenOutput, limit: int, stops: StopStrings | None) -> Completion:
        sampled = [int(i) for i in output.token_ids]
        logprobs = [float(p) for p in output.log_probs or ()]
        aborted = output.stop_reason in BROKEN_OFF
        if len(sampled) != len(logprobs) or not (sampled or aborted):
            raise PolicyError(
                f"verl's server gave {len(sampled)} ids and {len(logprobs)} log-probabilities; "
                "expected as many, and at least one."
            )
        finish = FinishReason.ABORT if aborted else FinishReason.LENGTH
        if sampled and sampled[-1] in self._policy.stop_ids:
            finish = FinishReason.STOP
        elif not aborted and len(sampled) < limit:
            raise PolicyError(
                f"verl's server ended a generation after {len(sampled)} of {limit} tokens with id "
                f"{sampled[-1]}, which ends none ({list(self._policy.stop_ids)})."
            )
        if stops is not None:
            for end in range(1, len(sampled) + 1):
                if stops.completed_by([*self._generation, *sampled[:end]]):
                    finish, sampled = FinishReason.STOP_STRING, sampled[:end]
                    break
        kept = tuple(logprobs[: len(sampled)])
        # Of the weights that began the generation; later ones may end it (asynchronous).
        steps = [output.extra_fields.get(name) for name in ("min_global_steps", "global_steps")]
        version = next((int(step) for step in steps if step is not None), self._policy.version)
        return Completion(tuple(sampled), kept, finish, version)
