"""Faulty token environments that an administrator might register."""

import math
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.tasks.rules.task import Example, Reply, Turn

NAMES = (
    "Raises",
    "Silent",
    "Ragged",
    "NotANumber",
    "LongWinded",
    "Chinese",
    "Endless",
    "Stuck",
    "Nothing",
    "Foreign",
    "Measured",
    "Flaky",
)
SPECS = ",".join(f"module:odd_token_environments:{name}" for name in NAMES)

STUCK, RELEASED = threading.Event(), threading.Event()
"""Whether a :class:`Stuck` environment is waiting, and may continue."""


class Raises:
    """Raises on each call, with a character in the text that no database stores."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        raise ZeroDivisionError(f"no {request.mode} for {policy.context_tokens}\0")


class Silent:
    """Returns no groups."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        del policy, request
        return Sampled(groups=[])


class Nothing:
    """Returns None."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> None:
        del policy, request


class Foreign:
    """Uses prompt tokens of another model."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        policy.generate([policy.prompt([128_009], answers=request.generations, seed=request.seed)])
        raise AssertionError("the policy cannot have read this")


def _answered(policy: PolicyContext, request: RolloutRequest) -> list[RolloutGroup]:
    prompts = [
        policy.prompt([number % 3], answers=request.generations, seed=request.seed + number)
        for number in request.numbers
    ]
    groups = []
    for number, prompt, answers in zip(
        request.numbers, prompts, policy.generate(prompts), strict=True
    ):
        rollouts = [
            Rollout(
                tokens=[*prompt.tokens, *answer.tokens],
                is_own=[False] + [True] * len(answer.tokens),
                logprobs=[0.0, *answer.logprobs],
                versions=[None, *answer.versions],
                reward=float(answer.index),
                is_correct=False,
                is_truncated=False,
                prompt="",
                response=policy.tokenizer.decode(answer.tokens),
            )
            for answer in answers
        ]
        groups.append(RolloutGroup(example=str(number), rollouts=rollouts))
    return groups


class Measured:
    """Returns valid metrics of several types, and others that cannot be stored."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        metrics = {
            "format": 0.25,
            "tool calls": 3,
            "is_slow": True,
            "a:b": 1.0,
            "not a number": float("nan"),
            "text": "fast",
        }
        return Sampled(groups=_answered(policy, request), metrics=metrics)  # type: ignore[arg-type]


class Flaky:
    """Fails rollouts by position in their group, in the first calls or at random."""

    def __init__(
        self,
        fails: Sequence[int] = (),
        numbers: Sequence[int] = (0,),
        calls: int = 1,
        kind: str = "rollout_failed",
        share: float = 0.0,
        raises_at: int = 0,
    ) -> None:
        """Fail positions `fails` of the problems `numbers` in each of the first `calls` calls.

        `kind` "nan" leaves the rollouts without a score. `share` fails further ones at random.
        Call number `raises_at` raises.
        """
        self._fails, self._numbers, self._calls, self._kind = fails, numbers, calls, kind
        self._share, self._raises_at = share, raises_at
        self._random = random.Random(5)
        self.requests: list[RolloutRequest] = []

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        self.requests.append(request)
        call = len(self.requests)
        if call == self._raises_at:
            raise ConnectionError("the sandbox is gone")
        groups = []
        for number, group in zip(request.numbers, _answered(policy, request), strict=True):
            fails = {
                place
                for place in range(len(group.rollouts))
                if self._random.random() < self._share
                or (call <= self._calls and number in self._numbers and place in self._fails)
            }
            rollouts = list(enumerate(group.rollouts))
            if self._kind == "nan":
                marked = [
                    replace(one, reward=math.nan) if place in fails else one
                    for place, one in rollouts
                ]
                groups.append(replace(group, number=number, rollouts=marked))
                continue
            groups.append(
                replace(
                    group,
                    number=number,
                    rollouts=[one for place, one in rollouts if place not in fails],
                    failed=[Fault(self._kind, f"{number}: rollout {place}") for place in fails],
                )
            )
        return Sampled(groups=groups)


class Ragged:
    """Returns a group without a rollout, an empty one, one with a short column, and a valid one."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        groups = _answered(policy, request)
        for place, number in enumerate(request.numbers):
            first, *others = groups[place].rollouts
            spoilt = [others, [], [replace(first, logprobs=[]), *others], [first, *others]]
            groups[place] = replace(groups[place], rollouts=spoilt[number % 4])
        return Sampled(groups=groups)


class NotANumber:
    """Returns NaN as the first reward of the first group."""

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        first, *others = _answered(policy, request)
        broken = replace(first.rollouts[0], reward=float("nan"))
        return Sampled(groups=[replace(first, rollouts=[broken, *first.rollouts[1:]]), *others])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompts:
    """A task with given prompts."""

    prompts: tuple[str, ...]
    most_turns: int = 1
    name: str = "prompts"
    alphabet: str = ""

    def example(self, random: random.Random, *, key: str) -> Example:
        del random
        number = int(key.rpartition("/")[2])
        return Example(key=key, prompt=self.prompts[number % len(self.prompts)], answer="")

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        del example, turns
        return Reply("", is_over=True, reward=0.0)


def LongWinded() -> _Prompts:  # noqa: N802 specs name it like a class
    """Return a task in which every second prompt exceeds any context."""
    return _Prompts(prompts=("ab>", "a" * 10_000))


def Chinese() -> _Prompts:  # noqa: N802 specs name it like a class
    """Return a task in which every second prompt is in another alphabet."""
    return _Prompts(prompts=("ab>", "你好"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """Never ends its conversation."""

    most_turns: int = 1000
    name: str = "endless"
    alphabet: str = "ab>"

    def example(self, random: random.Random, *, key: str) -> Example:
        del random
        return Example(key=key, prompt="ab>", answer="")

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        del example, turns
        return Reply("a>", is_over=False, reward=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck(Endless):
    """Waits for a tool that does not answer."""

    name: str = "stuck"

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        del example, turns
        STUCK.set()
        RELEASED.wait(120)
        return Reply("", is_over=True, reward=0.0)
