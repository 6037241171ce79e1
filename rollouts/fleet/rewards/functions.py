"""Reward functions by name, and the process that computes them on request of its parent.

:class:`rollouts.fleet.rewards.pool.RewardWorker` starts the process. The arguments are the
descriptor of the socket and the process id of the parent.
"""

import json
import math
import re
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from rollouts.fleet.process.child_environment import die_with_parent
from rollouts.fleet.process.extensions import ExtensionFailed, load
from rollouts.fleet.steps.env_messages import Channel
from rollouts.tasks.rules.dataset_config import (
    OWN,
    ExactOptions,
    JsonSchemaOptions,
    RegexOptions,
    RewardConfig,
    options_of,
)
from runs.config.rules.extensions import REWARDS

FailureKind = Literal["reward_failed", "reward_timeout", "reward_invalid"]
EXTRA: Final = "pip install 'rolldeck-server[prompts]'"
_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class Answered(Struct, frozen=True, array_like=True):
    """An answer of the policy, with its problem."""

    prompt: str
    response: str
    """Last turn of the policy."""
    answer: str
    """Expected answer; empty for none."""
    row: Mapping[str, Any]


class RewardFailed(Exception):
    """A reward function returned no reward; `kind` is the kind of the event."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RewardUnusable(Exception):
    """A reward function cannot be built; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


RewardFunction = Callable[[Answered], Any]


def make_reward(config: RewardConfig, *, place: int) -> RewardFunction:
    """Return the function of a reward.

    Args:
        config: Kind and options.
        place: Position in the lesson's list, for messages.

    Raises:
        RewardUnusable: If a package is missing, it is not registered on this machine, or its
            options are invalid.
    """
    field = f"rewards[{place}]"
    if config.kind.startswith(OWN):
        try:
            function = load(REWARDS, f"{field}.kind", config.kind)
        except ExtensionFailed as error:
            kind = "environment_unknown" if error.is_missing else "environment_failed"
            raise RewardUnusable(kind, str(error)) from error

        def score(answered: Answered) -> Any:
            return function(
                prompt=answered.prompt,
                response=answered.response,
                answer=answered.answer,
                row=dict(answered.row),
                **config.options,
            )

        return score
    try:
        return _BUILT[config.kind](options_of(config))
    except ModuleNotFoundError as error:
        message = f"{field}: {config.kind} needs {error.name}: {EXTRA}"
        raise RewardUnusable("dependency_missing", message) from error
    except Exception as error:
        message = f"{field}.options: {type(error).__name__}: {error}"
        raise RewardUnusable("environment_kwargs", message[:2000]) from error


def reward_of(function: RewardFunction, answered: Answered) -> tuple[float | None, str]:
    """Return the reward and an empty text, or 0 and the reason why there is none.

    A function returns None for an answer that it does not score.
    """
    try:
        value = function(answered)
    except Exception as error:  # noqa: BLE001 functions of others may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return 0.0, f"raised {type(error).__name__}: {error} ({place})"[:2000]
    if value is None:
        return None, ""
    try:
        reward = float(value)
    except (TypeError, ValueError):
        return 0.0, f"returned {type(value).__name__}, expected a number"
    if not math.isfinite(reward):
        return 0.0, f"returned {reward}, expected a finite number"
    return reward, ""


def _exact(options: ExactOptions) -> RewardFunction:
    extract = re.compile(options.extract) if options.extract else None

    def score(answered: Answered) -> bool:
        found = answered.response
        if extract is not None:
            matches = list(extract.finditer(found))
            if not matches:
                return False
            found = matches[-1][1 if extract.groups else 0] or ""
        texts = [text.strip() for text in (found, answered.answer)]
        if options.ignore_case:
            texts = [text.casefold() for text in texts]
        return texts[0] == texts[1]

    return score


def _regex(options: RegexOptions) -> RewardFunction:
    pattern = re.compile(options.pattern)

    def score(answered: Answered) -> bool:
        match = pattern.search(answered.response)
        if match is None or "answer" not in pattern.groupindex:
            return match is not None
        return (match["answer"] or "").strip() == answered.answer.strip()

    return score


def _math(_: Any) -> RewardFunction:
    from math_verify import parse, verify

    def score(answered: Answered) -> bool:
        answer = answered.answer
        # The parser requires LaTeX.
        is_marked = "$" in answer or "\\boxed" in answer
        # The caller has a time limit; those of the package would replace signal handlers.
        expected = parse(answer if is_marked else f"${answer}$", parsing_timeout=None)
        if not expected:
            raise ValueError(f"the expected answer is not mathematics: {answer[:200]!r}")
        given = parse(answered.response, parsing_timeout=None)
        return bool(verify(expected, given, timeout_seconds=None))

    return score


def _json_schema(options: JsonSchemaOptions) -> RewardFunction:
    from jsonschema import validators

    kind = validators.validator_for(options.schema)
    kind.check_schema(options.schema)
    validator = kind(options.schema)

    def score(answered: Answered) -> bool:
        fenced = _FENCE.findall(answered.response)
        try:
            found = json.loads(fenced[-1] if fenced else answered.response)
        except (ValueError, RecursionError):
            return False
        return bool(validator.is_valid(found))

    return score


_BUILT: Final[dict[str, Callable[[Any], RewardFunction]]] = {
    "exact": _exact,
    "regex": _regex,
    "math": _math,
    "json_schema": _json_schema,
}


class Build(Struct, frozen=True, array_like=True, tag=True):
    """Reward functions to build by their positions; the first message."""

    rewards: dict[int, RewardConfig]


class Call(Struct, frozen=True, array_like=True, tag=True):
    """Request of one reward of one answer."""

    reward: int
    answered: Answered


class Built(Struct, frozen=True, array_like=True, tag=True):
    """Response to :class:`Build`; `kind` and `message` are empty on success."""

    kind: str = ""
    message: str = ""


class Scored(Struct, frozen=True, array_like=True, tag=True):
    """Response to :class:`Call`; `error` is empty on success."""

    reward: float | None
    """None: the function does not score the answer."""
    error: str = ""
    is_invalid: bool = False
    """Whether the function returned a value that is not a finite number."""


ToProcess = Build | Call
FromProcess = Built | Scored


def serve(channel: Channel) -> None:
    """Serve the parent's requests until it closes the connection."""
    functions: dict[int, RewardFunction] = {}
    while True:
        for message in channel.receive():
            match message:
                case Build(rewards):
                    try:
                        functions = {
                            place: make_reward(one, place=place) for place, one in rewards.items()
                        }
                        built = Built()
                    except RewardUnusable as refusal:
                        functions, built = {}, Built(refusal.kind, str(refusal))
                    channel.send(built)
                case Call(place, answered):
                    reward, error = reward_of(functions[place], answered)
                    channel.send(Scored(reward, error, error.startswith("returned")))


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    end, parent = map(int, sys.argv[1:3])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve(Channel(socket.socket(fileno=end), receives=ToProcess))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None
