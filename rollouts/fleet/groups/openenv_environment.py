"""Environments of OpenEnv servers as lessons: a session over ``/ws`` for each rollout.

A session sends one JSON message and awaits its response. Observations become user messages and the
policy's answers become actions. All answers of a turn are generated together.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import httpx
import msgspec
from msgspec import Struct
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from rollouts.fleet.groups.batches import CORRECT_FROM, Rollout, RolloutGroup
from rollouts.fleet.groups.environment_settings import (
    OpenEnvSettings,
    arguments_of,
    openenv_settings,
)
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed
from rollouts.fleet.groups.policy_context import Conversation, PolicyContext, TemplateChanged
from rollouts.fleet.process.settings import derive_seed

MESSAGE_BYTES: Final = 64 << 20
SHOWN: Final = 500

SCHEMA_SECONDS: Final = 10.0

R = TypeVar("R")


class SessionFailed(RuntimeError):
    """The server is unreachable, failed, or sent a malformed response."""


class ActionRefused(ValueError):
    """The server refused an action as invalid; the episode continues."""


class Observed(Struct, frozen=True):
    """Result of a reset or a step."""

    observation: Any
    reward: float | None = None
    done: bool = False


class _Error(Struct, frozen=True):
    message: str
    code: str = ""
    errors: list[dict[str, Any]] = []


class _Response(Struct, frozen=True):
    type: Literal["observation", "state", "error", "mcp"]
    data: msgspec.Raw


class Session:
    """One episode's connection; its environment on the server is not shared."""

    def __init__(self, settings: OpenEnvSettings) -> None:
        """Connect.

        Raises:
            SessionFailed: If the server is unreachable.
        """
        self._seconds = settings.message_seconds
        self._connection = ExitStack()
        self._url = "ws" + settings.url.removeprefix("http").rstrip("/") + "/ws"
        try:
            self._socket = self._connection.enter_context(
                connect(
                    self._url,
                    additional_headers=settings.headers,
                    open_timeout=self._seconds,
                    close_timeout=1,
                    max_size=MESSAGE_BYTES,
                    proxy=None,
                )
            )
        except (OSError, WebSocketException) as error:
            raise SessionFailed(f"{self._url} is unreachable: {error}") from error

    def reset(self, arguments: dict[str, Any]) -> Observed:
        """Begin an episode; return its first observation.

        Raises:
            SessionFailed: If the server refuses the arguments, or fails.
        """
        try:
            return self._observed("reset", arguments)
        except ActionRefused as refusal:
            raise SessionFailed(f"{self._url} refused the reset: {refusal}") from refusal

    def step(self, action: dict[str, Any]) -> Observed:
        """Return the result of an action.

        Raises:
            ActionRefused: If the action is invalid.
            SessionFailed: If the server fails.
        """
        return self._observed("step", action)

    def close(self) -> None:
        self._connection.close()

    def _observed(self, kind: str, data: dict[str, Any]) -> Observed:
        try:
            self._socket.send(msgspec.json.encode({"type": kind, "data": data}).decode())
            content = self._socket.recv(timeout=self._seconds)
        except TimeoutError as error:
            raise SessionFailed(
                f"{self._url} sent no response within {self._seconds:g} s"
            ) from error
        except (OSError, WebSocketException) as error:
            raise SessionFailed(f"{self._url} closed the session: {error}") from error
        try:
            response = msgspec.json.decode(content, type=_Response)
            if response.type != "error":
                return msgspec.json.decode(response.data, type=Observed)
            failure = msgspec.json.decode(response.data, type=_Error)
        except msgspec.DecodeError as error:
            raise SessionFailed(
                f"{self._url} sent a malformed response, {error}: {content[:SHOWN]!r}"
            ) from error
        if failure.code == "VALIDATION_ERROR":
            problems = [
                f"{'.'.join(map(str, one.get('loc') or ()))}: {one.get('msg', 'invalid')}"
                for one in failure.errors
            ]
            raise ActionRefused("; ".join(problems) or failure.message)
        raise SessionFailed(f"{self._url}: {failure.code}: {failure.message}")


@dataclass(slots=True)
class Played:
    """State of one rollout."""

    key: str
    index: int
    seed: int
    """Seed of the reset; equal in a group."""
    conversation: Conversation
    session: Session | None = None
    reward: float | None = None
    """Sum of the rewards; None without any."""
    refused: int = 0
    """Number of invalid actions."""
    is_over: bool = False
    fault: Fault | None = None
    action: str = ""
    """Newest answer."""

    def observe(self, observed: Observed) -> None:
        """Append an observation as a user message, or end the episode.

        The message is JSON without empty metadata, unless the observation is a text.
        """
        if observed.reward is not None:
            self.reward = (self.reward or 0.0) + observed.reward
        self.is_over = observed.done
        if observed.done:
            return
        seen = observed.observation
        if isinstance(seen, dict) and not seen.get("metadata", True):
            seen = {name: value for name, value in seen.items() if name != "metadata"}
        self.add(seen if isinstance(seen, str) else json.dumps(seen, ensure_ascii=False))

    def add(self, text: str) -> None:
        self.conversation.messages.append({"role": "user", "content": text})

    def finished(self) -> Rollout:
        talk = self.conversation
        reward = float("nan") if self.reward is None else self.reward
        return Rollout(
            tokens=talk.tokens,
            is_own=talk.is_own,
            logprobs=talk.logprobs,
            versions=talk.versions,
            reward=reward,
            is_correct=reward >= CORRECT_FROM,
            is_truncated=talk.is_truncated,
            prompt=talk.prompt,
            response=talk.text.removeprefix(talk.prompt),
        )

    def close(self) -> None:
        if self.session is not None:
            self.session.close()

    @property
    def is_open(self) -> bool:
        """Whether the policy answers next."""
        return not (self.is_over or self.fault or self.conversation.is_truncated)


class OpenEnvEnvironment:
    """The environment of a server; equal problems are resets with equal seeds."""

    def __init__(self, name: str, kwargs: Mapping[str, Any]) -> None:
        """Read the action schema of the server called `name` in ``ROLLDECK_OPENENV``.

        Raises:
            LessonFailed: ``environment_unknown``, ``environment_kwargs`` or
                ``environment_failed``.
        """
        self._name = f"openenv:{name}"
        self._settings = openenv_settings(name)
        self._arguments = arguments_of(name, kwargs)
        url = f"{self._settings.url.rstrip('/')}/schema"
        try:
            answer = httpx.get(url, headers=self._settings.headers, timeout=SCHEMA_SECONDS)
            answer.raise_for_status()
            self._schema = dict[str, Any](answer.json()["action"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            text = f"{self._name}: no action schema at {url}: {error}"
            raise LessonFailed("environment_failed", text) from error

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        at_once = max(1, self._settings.max_sessions // request.generations)
        numbers, groups = request.numbers, list[RolloutGroup]()
        played = list[Played]()
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            for number, group in zip(some, self._play(policy, request, some), strict=True):
                finished = [one for one in group if one.fault is None]
                played += finished
                groups.append(
                    RolloutGroup(
                        example=group[0].key,
                        rollouts=[one.finished() for one in finished],
                        failed=[one.fault for one in group if one.fault is not None],
                        number=number,
                    )
                )
        totals = {
            "turns": sum(one.conversation.turns for one in played),
            "invalid_actions": sum(one.refused for one in played),
            "completed": sum(one.is_over for one in played),
        }
        metrics = {name: total / len(played) for name, total in totals.items() if played}
        return Sampled(groups=groups, metrics=metrics)

    def _play(
        self, policy: PolicyContext, request: RolloutRequest, numbers: Sequence[int]
    ) -> list[list[Played]]:
        instructions = self._arguments.instructions
        messages = [{"role": "system", "content": instructions}] if instructions else []
        groups = list[list[Played]]()
        for number in numbers:
            seed = derive_seed(request.problem_seed, request.mode, number)
            if self._arguments.seeds is not None:
                seed = number % self._arguments.seeds
            key = f"{self._name}:{request.mode}:{seed}"
            talks = [Conversation(policy, [*messages]) for _ in range(request.generations)]
            groups.append([Played(key, index, seed, talk) for index, talk in enumerate(talks)])
        everything = [one for group in groups for one in group]
        with ThreadPoolExecutor(len(everything)) as pool:
            try:
                _each(pool, self._reset, everything)
                for turn in range(self._arguments.max_turns):
                    still_open = [one for one in everything if one.is_open]
                    self._answer(still_open, policy, request.seed, turn)
                    _each(pool, self._step, [one for one in still_open if one.is_open])
            finally:
                _each(pool, Played.close, everything)
        for one in everything:
            one.conversation.is_truncated |= not one.is_over
        return groups

    def _reset(self, one: Played) -> None:
        try:
            one.session = Session(self._settings)
            one.observe(one.session.reset(self._arguments.reset | {"seed": one.seed}))
        except SessionFailed as failure:
            one.fault = Fault("rollout_failed", f"{one.key}: {failure}"[:2000])

    def _answer(self, open_ones: list[Played], policy: PolicyContext, seed: int, turn: int) -> None:
        """Generate the next answer of each open rollout."""
        for one in open_ones:
            try:
                one.conversation.extend()
            except TemplateChanged as error:
                one.fault = Fault("rollout_failed", f"{one.key}: {error}")
            if one.conversation.is_truncated and not turn:
                text = f"{one.key}: the observation leaves no room in the context"
                one.fault = Fault("prompt_too_long", text)
        ready = [one for one in open_ones if one.is_open]
        prompts = [
            policy.prompt(
                one.conversation.tokens,
                answers=1,
                seed=derive_seed(seed, one.key, one.index, turn),
            )
            for one in ready
        ]
        for one, [answer] in zip(ready, policy.generate(prompts) if prompts else [], strict=True):
            one.action = one.conversation.add_answer(answer)

    def _step(self, one: Played) -> None:
        if one.session is None:
            return
        try:
            one.observe(one.session.step(self._action(one.action)))
        except ActionRefused as refusal:
            one.refused += 1
            one.add(f"invalid action: {refusal}")
        except SessionFailed as failure:
            one.fault = Fault("rollout_failed", f"{one.key}: {failure}"[:2000])

    def _action(self, answer: str) -> dict[str, Any]:
        """Return an answer as an action: a JSON object, or the value of the only required field.

        Raises:
            ActionRefused: If it is neither.
        """
        text = answer.strip()
        if text.startswith("```") and text.endswith("```"):
            text = "\n".join(text.splitlines()[1:-1]).strip()
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if isinstance(value, dict):
            return value
        required = self._schema.get("required") or []
        if len(required) != 1:
            raise ActionRefused(f"a JSON object with {', '.join(required) or 'fields'} is required")
        return {str(required[0]): value}


def _each(pool: ThreadPoolExecutor, call: Callable[[Played], R], played: Iterable[Played]) -> None:
    for _ in pool.map(call, played):
        pass
