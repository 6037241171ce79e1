"""Environments of the `verifiers` package as lessons: dataset, turns and rubric."""

import asyncio
import re
import signal
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rollouts.fleet.groups.batches import Mode, Rollout, RolloutGroup
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed, SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.process.settings import derive_seed

if TYPE_CHECKING:
    from rollouts.fleet.groups.verifiers_client import PolicyClient

IDENTITY: Final = re.compile(r"[\w-]+(/[\w-]+)?")
CORRECT_FROM: Final = 0.5
"""Reward from which a rollout counts as correct: the package's own `pass_threshold`."""
TURNS_AT_A_TIME: Final = 64
LEFT_ALONE: Final = SimpleNamespace(
    signal=lambda *_: None,
    SIGINT=signal.SIGINT,
    SIGTERM=signal.SIGTERM,
    SIG_DFL=signal.SIG_DFL,
    default_int_handler=signal.default_int_handler,
)
"""Replacement for the module `signal` inside that package, without effects."""


class VerifiersEnvironment:
    """An environment from `verifiers.load_environment`, for version 0.1 of the package.

    All rollouts of a batch run in parallel, and the environment's rubric scores each group.
    Sampling parameters come from the lesson. Environments with tools are refused.
    """

    def __init__(self, identity: str, kwargs: Mapping[str, Any]) -> None:
        """Load the environment.

        Args:
            identity: ``name`` or ``owner/name`` of an installed environment.
            kwargs: Keyword arguments of its `load_environment`.

        Raises:
            LessonFailed: ``environment_unknown``, ``environment_kwargs``, ``dependency_missing``
                or ``environment_failed``.
        """
        self._identity = identity
        self._environment = _loaded(identity, kwargs)
        if getattr(self._environment, "tool_defs", None):
            raise LessonFailed(
                "environment_failed", f"verifiers:{identity} requires tools, which are unsupported"
            )
        self._rows = {
            "train": self._environment.get_dataset(),
            "eval": self._environment.get_eval_dataset(),
        }

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        """Return the groups of the requested problems; see :class:`GroupEnvironment`.

        The metrics are the rubric's, mean over the rollouts. Each pass over the dataset uses a
        different random order of its rows.
        """
        if not len(self._rows[request.mode]):
            raise LessonFailed(
                "environment_failed", f"verifiers:{self._identity} has no {request.mode} problems"
            )
        turns = min(TURNS_AT_A_TIME, len(request.numbers) * request.generations)
        with ThreadPoolExecutor(max(1, turns)) as pool:
            scores: list[Mapping[str, float]] = []
            found = asyncio.run(self._all(policy, request, pool, scores))
        groups = [group for group in found if isinstance(group, RolloutGroup)]
        faults = [fault for fault in found if isinstance(fault, Fault)]
        return Sampled(groups=groups, metrics=_means(scores), faults=faults)

    async def _all(
        self,
        policy: PolicyContext,
        request: RolloutRequest,
        pool: Executor,
        scores: list[Mapping[str, float]],
    ) -> list[RolloutGroup | Fault]:
        rows = [self._row(number, request) for number in request.numbers]
        return await asyncio.gather(
            *[self._group(policy, request, row, pool, scores) for row in rows]
        )

    def _row(self, number: int, request: RolloutRequest) -> int:
        """Return the dataset row of a problem."""
        size = len(self._rows[request.mode])
        time, place = divmod(number, size)
        order = np.random.default_rng(derive_seed(request.problem_seed, request.mode, time))
        return int(order.permutation(size)[place])

    async def _group(
        self,
        policy: PolicyContext,
        request: RolloutRequest,
        row: int,
        pool: Executor,
        scores: list[Mapping[str, float]],
    ) -> RolloutGroup | Fault:
        from rollouts.fleet.groups.verifiers_client import Conversation, PolicyClient

        key = _key(self._identity, request.mode, row)
        clients = [
            PolicyClient(policy, Conversation(derive_seed(request.seed, key, index)), pool)
            for index in range(request.generations)
        ]
        problem = dict(self._rows[request.mode][row])
        states = await asyncio.gather(
            *[self._environment.rollout(problem, client, "policy", {}) for client in clients]
        )
        for state in states:
            fault = _fault(key, state)
            if fault:
                return fault
        await self._environment.rubric.score_group(states)
        for state in states:
            await self._environment.rubric.cleanup(state)
        scores += [state.get("metrics") or {} for state in states]
        pairs = zip(clients, states, strict=True)
        return RolloutGroup(example=key, rollouts=[_rollout(*pair) for pair in pairs])


def _loaded(identity: str, kwargs: Mapping[str, Any]) -> Any:
    spec = f"verifiers:{identity}"
    if not IDENTITY.fullmatch(identity):
        raise LessonFailed("environment_unknown", f"{spec} is not a valid environment name")
    # Imported late, because the package has many dependencies.
    import verifiers

    if not hasattr(verifiers, "load_environment"):
        raise LessonFailed(
            "dependency_missing", f"{spec} needs verifiers 0.1: load_environment is missing"
        )
    from verifiers.envs import environment

    # It replaces the process's signal handlers, and fails outside the main thread.
    environment.signal = LEFT_ALONE
    try:
        return verifiers.load_environment(identity, **kwargs)
    except Exception as error:
        cause = error.__cause__
        kind = {ModuleNotFoundError: "environment_unknown", TypeError: "environment_kwargs"}.get(
            type(cause), "environment_failed"
        )
        raise LessonFailed(kind, f"{spec}: {error}") from error


def _means(scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the rollouts that have it."""
    values: dict[str, list[float]] = {}
    for one in scores:
        for name, value in one.items():
            values.setdefault(name, []).append(float(value))
    return {name: sum(found) / len(found) for name, found in values.items()}


def _key(identity: str, mode: Mode, row: int) -> str:
    return f"verifiers:{identity}:{mode}:{row}"


def _fault(key: str, state: Mapping[str, Any]) -> Fault | None:
    """Return the fault of a rollout, if any.

    Raises:
        SamplingStopped: If the worker is stopping.
        InferenceFailed: If the server fails.
    """
    error = state.get("error")
    cause = getattr(error, "__cause__", None)
    if isinstance(cause, SamplingStopped | InferenceFailed):
        raise cause
    if error is not None:
        return Fault("rollout_failed", f"{key}: {cause or error!r}"[:2000])
    if not state["trajectory"]:
        return Fault("prompt_too_long", f"{key}: the prompt leaves no room in the context")
    return None


def _rollout(client: "PolicyClient", state: Mapping[str, Any]) -> Rollout:
    talk = client.conversation
    return Rollout(
        tokens=talk.tokens,
        is_own=talk.is_own,
        logprobs=talk.logprobs,
        versions=talk.versions,
        reward=float(state["reward"]),
        is_correct=float(state["reward"]) >= CORRECT_FROM,
        is_truncated=talk.is_truncated or bool(state.get("is_truncated")),
        prompt=talk.prompt,
        response=talk.text.removeprefix(talk.prompt),
    )
