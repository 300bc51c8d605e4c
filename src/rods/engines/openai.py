"""A server as an engine: token ids in, token ids and log-probabilities out, over HTTP.

Any server does that completes ids at `/v1/completions` and returns the ids that it sampled with
their log-probabilities (vLLM, SGLang), which is tried at the start. No token is encoded twice.

    engine = OpenAIEngine(EngineSettings(name="openai", url="http://localhost:8000/v1"), template,
                          rollout)
    await engine.start()
    session = engine.open(seed=7)
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.config import EngineSettings, RolloutSettings
from rods.engines.connection import Connection
from rods.engines.handover import Adapters, Folder
from rods.engines.options import EngineOptions
from rods.errors import PolicyError
from rods.policy import Capabilities, Completion, Engine, Weights
from rods.rollout.template import ChatTemplate
from rods.stops import Stops
from rods.types import FinishReason

EXPLICIT = {
    "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0, "logprobs": 1, "return_token_ids": True,
    "skip_special_tokens": False, "spaces_between_special_tokens": False,
    "include_stop_str_in_output": True,  # vLLM's name
    "no_stop_trim": True,  # SGLang's
}  # fmt: skip
"""Said with every request: a server would take what is missing from the model's own defaults."""
ALMOST = 0.01
"""Log-probabilities that lie this close are not told apart at the start."""


class OpenAIEngine(Engine):
    """A server's model as a policy."""

    def __init__(
        self,
        settings: EngineSettings,
        template: ChatTemplate,
        rollout: RolloutSettings,
        half: bool = False,
    ) -> None:
        """Prepare; nothing is sent before `start`.

        The server must be able to keep to the context and temperature of `rollout`. `half`: it
        computes in bfloat16, so weights need not be handed over in float32.
        """
        self.settings, self._rollout, self.half = settings, rollout, half
        self.max_context = rollout.context_tokens
        self.stop_ids, self.stops = template.stop_ids, Stops(template.raw_decode)
        self._handover: Folder | Adapters | None = None
        weights = "fixed" if settings.weights in ("", "fixed") else "handed"
        # Of a nucleus, servers tell the log-probabilities within it.
        self.capabilities = Capabilities(weights, beside_updates=True, top_p=False)
        self._version = 0
        self._sent: int | None = None
        """Version of the weights that were handed over last."""
        self._model = settings.model
        self._connection: Connection | None = None
        self._key = ""
        """Key of a server that the run starts; empty: that of the environment variable."""

    @property
    def version(self) -> int:
        """Version of the last `sync`."""
        return self._version

    @property
    def model(self) -> str:
        """The server's name of the current policy."""
        return (self._handover.model if self._handover else "") or self._model

    @property
    def connection(self) -> Connection:
        """The server; there is one between `start` and `close`."""
        if self._connection is None:
            raise PolicyError(f"engine {self.settings.url}: it was not started, or is closed.")
        return self._connection

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> OpenAISession:
        """A session; the server finds shared prompts in its own cache."""
        return OpenAISession(self, seed)

    async def start(self) -> None:
        """Connect, and look at what the server can do."""
        settings = self.settings
        self._connection = connection = Connection(settings.url, settings.timeout, self._key)
        owner, folder = await self._choose_model(), Path(settings.folder)
        if settings.weights == "folder":
            self._handover = Folder(connection, folder, self.half)
            await self._handover.go_on()
        elif settings.weights == "lora":
            routes = ("", f"{self._model}:") if owner == "sglang" else ("v1/", "")
            self._handover = Adapters(connection, folder, *routes)
        await self._probe()

    async def sync(self, weights: Weights, version: int) -> None:
        """Hand the weights over; a server with fixed weights is refused before it is asked."""
        if self.capabilities.weights == "fixed":
            if version:
                raise PolicyError(
                    f"engine {self.settings.url}: its weights are fixed (engine.weights), so it "
                    f"cannot sample from version {version} of the policy."
                )
            return
        assert self._handover is not None
        if version != self._sent:  # an update without anything to learn from changes no weights
            await self._handover.send(weights, version)
        self._version = self._sent = version

    async def close(self) -> None:
        """End the connection."""
        if self._connection is None:
            return
        try:
            if self._handover is not None:
                await self._handover.close()
        finally:
            await self._connection.close()
            self._connection = None

    def request(self, ids: Sequence[int], max_tokens: int, temperature: float) -> dict[str, Any]:
        """Fields that every request has."""
        return {
            **EXPLICIT,
            "model": self.model, "prompt": list(ids), "max_tokens": max_tokens,
            "temperature": temperature, "top_p": 1.0, "stop_token_ids": list(self.stop_ids),
        }  # fmt: skip

    async def _choose_model(self) -> str:
        """Find the model; whose server it is, as that says (`owned_by`)."""
        models = {str(model.get("id")): model for model in await self.connection.models()}
        self._model = self._model or next(iter(models))
        if self._model not in models:
            raise PolicyError(
                f"engine {self.settings.url}: it has no model {self._model!r} (engine.model), but "
                f"{', '.join(map(repr, models))}."
            )
        longest = models[self._model].get("max_model_len")
        if isinstance(longest, int) and longest < self.max_context:
            raise PolicyError(
                f"engine {self.settings.url}: {self._model} is served with a context of {longest} "
                f"tokens, fewer than rollout.context_tokens = {self.max_context}. Serve it with "
                "more, or lower the setting."
            )
        return str(models[self._model].get("owned_by"))

    async def _probe(self) -> None:
        """Complete one token; raise `PolicyError` where that is not an engine."""
        prompt = list(self.stop_ids[:1])
        choice = await self.connection.complete(self.request(prompt, 1, 0.0), "probe")
        ids, logprobs = _sampled(choice)
        wanted = {
            "ids of the sampled tokens (return_token_ids)": ids,
            "log-probabilities (logprobs)": logprobs,
        }
        if missing := [name for name, values in wanted.items() if not values]:
            raise PolicyError(
                f"engine {self.settings.url}: its completions lack {' and '.join(missing)}. vLLM "
                "and SGLang have them; a server with only chat completions cannot be an engine."
            )
        read = choice.get("prompt_token_ids")
        if read is not None and list(read) != prompt:
            raise PolicyError(
                f"engine {self.settings.url}: of the prompt {prompt} it read {read}; the ids must "
                "reach the model unchanged."
            )
        if self._rollout.temperature in (0.0, 1.0):
            return
        # Almost cold, the most probable token is nearly certain, unless the temperature was left
        # out of what is returned.
        cold = await self.connection.complete(self.request(prompt, 1, ALMOST), "probe")
        if logprobs[0] < -2 * ALMOST and _sampled(cold)[1][0] < -ALMOST:
            raise PolicyError(
                f"engine {self.settings.url}: its log-probabilities are those before the "
                f"temperature, and rollout.temperature is {self._rollout.temperature:g}. Start "
                "vLLM with --logprobs-mode processed_logprobs, or set rollout.temperature = 1."
            )


class OpenAISession:
    """One trajectory's context, which the server's prefix cache is to hold."""

    def __init__(self, engine: OpenAIEngine, seed: int) -> None:
        self._engine, self._seed = engine, seed
        self._ids: list[int] = []
        self._open = True
        self._goes_on = False
        """True if the last generation can be continued without new ids."""
        self._broken_off: list[int] = []
        """Tokens of a generation that the server broke off."""
        self._running: asyncio.Task[Mapping[str, Any]] | None = None

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        """Append `new_ids` and sample; see `rods.policy.Session.generate`.

        Under `top_p` the log-probabilities are those within the nucleus.
        """
        engine = self._engine
        ids = [*self._ids, *new_ids]
        room = engine.max_context - len(ids)
        where = f"session with seed {self._seed}, {len(self._ids)} tokens of context"
        if not self._open or not (new_ids or self._goes_on) or max_tokens < 1:
            raise PolicyError(
                f"{where}: got {len(new_ids)} new ids, max_tokens={max_tokens}, open={self._open}; "
                "expected an open session, at least one id and at least one token."
            )
        if room < 1:
            raise PolicyError(
                f"{where}: {len(new_ids)} new ids leave no room for a sampled token in a context "
                f"of {engine.max_context}; raise the context budget, or shorten tool results."
            )
        body = engine.request(ids, min(max_tokens, room), temperature)
        body |= {"top_p": top_p, "session_id": str(self._seed)}
        if stops:
            body["stop"] = list(stops)
        if temperature:
            body["seed"] = _seed(self._seed, len(ids))
        version = engine.version
        self._open = False  # until there is an answer
        self._running = asyncio.ensure_future(engine.connection.complete(body, str(self._seed)))
        completion = self._read(await self._running, stops, version)
        self._open, self._ids = True, [*ids, *completion.ids]
        broken = completion.finish is FinishReason.ABORT
        self._goes_on = broken or completion.finish is FinishReason.STOP_STRING
        self._broken_off = [*self._broken_off, *completion.ids] if broken else []
        return completion

    def close(self) -> None:
        """End the session; a generation in flight is given up."""
        self._open = False
        if self._running is not None:
            self._running.cancel()

    def _read(self, choice: Mapping[str, object], stops: Sequence[str], version: int) -> Completion:
        engine = self._engine
        ids, logprobs = _sampled(choice)
        finish = _finish(choice)
        empty = not ids and finish is not FinishReason.ABORT
        if finish is None or empty or len(ids) != len(logprobs):
            raise PolicyError(
                f"engine {engine.settings.url}: a completion of {len(ids)} ids and {len(logprobs)} "
                f"log-probabilities ended by {choice.get('finish_reason')!r}; expected as many, "
                "at least one, and stop, length or abort."
            )
        wanted = engine.stops.of(stops)
        if wanted is not None:
            # A server may break off within a stop string, or sample on behind it, or not name it.
            written = [*self._broken_off]
            for end, token in enumerate(ids, 1):
                written.append(token)
                if wanted.completed_by(written):
                    ids, finish = ids[:end], FinishReason.STOP_STRING
                    break
        return Completion(tuple(map(int, ids)), tuple(logprobs[: len(ids)]), finish, version)


def make_openai(options: EngineOptions) -> OpenAIEngine:
    """The engine of `engine.name = "openai"`."""
    settings = options.config.engine
    return OpenAIEngine(settings, options.template, options.config.rollout, options.half)


def _finish(choice: Mapping[str, object]) -> FinishReason | None:
    reason = choice.get("finish_reason")
    if reason == "stop":
        matched = choice.get("stop_reason") or choice.get("matched_stop")  # vLLM's, SGLang's
        return FinishReason.STOP_STRING if isinstance(matched, str) else FinishReason.STOP
    return {"length": FinishReason.LENGTH, "abort": FinishReason.ABORT}.get(str(reason))


def _sampled(choice: Mapping[str, object]) -> tuple[list[Any], list[Any]]:
    """Ids of the sampled tokens and log-probabilities; empty what is missing or not finite."""
    found = choice.get("logprobs")
    named: dict[str, object] = found if isinstance(found, dict) else {}
    lists = [
        values if isinstance(values, list) else []
        for values in (choice.get("token_ids"), named.get("token_logprobs"))
    ]
    ids, logprobs = ([*v] if all(map(_is_finite, v)) else [] for v in lists)
    return ids, logprobs


def _is_finite(value: object) -> bool:
    """True for a number; a model whose activations overflow has NaN, which would be trained on."""
    return isinstance(value, int | float) and math.isfinite(value)


def _seed(session: int, position: int) -> int:
    """Seed of one generation, 31 bits: servers begin the noise of each request again."""
    digest = hashlib.blake2b(f"{session}/{position}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
