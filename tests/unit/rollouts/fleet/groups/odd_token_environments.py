"""Token environments that an administrator might register by mistake."""

import random
import threading
from dataclasses import dataclass, replace

from rollouts.environments.rules.task import Example, Reply, Turn
from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.environments import Sampled, Wanted
from rollouts.fleet.groups.policy_context import PolicyContext

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
)
SPECS = ",".join(f"module:odd_token_environments:{name}" for name in NAMES)

STUCK, RELEASED = threading.Event(), threading.Event()
"""Whether a :class:`Stuck` one has begun to wait, and may go on."""


class Raises:
    """Fails whenever it is asked, and says so with a character that no database keeps."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> Sampled:
        raise ZeroDivisionError(f"no {wanted.mode} for {policy.context_tokens}\0")


class Silent:
    """Gives no group at all."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> Sampled:
        del policy, wanted
        return Sampled(groups=[])


class Nothing:
    """Forgets to return."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> None:
        del policy, wanted


class Foreign:
    """Writes its prompts with the tokens of another model."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> Sampled:
        policy.generate([policy.ask([128_009], answers=wanted.generations, seed=wanted.seed)])
        raise AssertionError("the policy cannot have read this")


def _answered(policy: PolicyContext, wanted: Wanted) -> list[RolloutGroup]:
    prompts = [
        policy.ask([number % 3], answers=wanted.generations, seed=wanted.seed + number)
        for number in wanted.numbers
    ]
    groups = []
    for number, prompt, answers in zip(
        wanted.numbers, prompts, policy.generate(prompts), strict=True
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


class Ragged:
    """One of four lacks a rollout, one is empty, one has a short column; the last is sound."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> Sampled:
        groups = _answered(policy, wanted)
        for place, number in enumerate(wanted.numbers):
            first, *others = groups[place].rollouts
            spoilt = [others, [], [replace(first, logprobs=[]), *others], [first, *others]]
            groups[place] = replace(groups[place], rollouts=spoilt[number % 4])
        return Sampled(groups=groups)


class NotANumber:
    """The first group's first reward is none."""

    def sample(self, policy: PolicyContext, wanted: Wanted) -> Sampled:
        first, *others = _answered(policy, wanted)
        broken = replace(first.rollouts[0], reward=float("nan"))
        return Sampled(groups=[replace(first, rollouts=[broken, *first.rollouts[1:]]), *others])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A task whose prompts are given."""

    said: tuple[str, ...]
    most_turns: int = 1
    name: str = "said"
    alphabet: str = ""

    def example(self, random: random.Random, *, key: str) -> Example:
        del random
        number = int(key.rpartition("/")[2])
        return Example(key=key, prompt=self.said[number % len(self.said)], answer="")

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        del example, turns
        return Reply("", is_over=True, reward=0.0)


def LongWinded() -> _Said:  # noqa: N802 named as a class in the specs
    """Every second prompt is longer than any context."""
    return _Said(said=("ab>", "a" * 10_000))


def Chinese() -> _Said:  # noqa: N802 named as a class in the specs
    """Every second prompt is in another alphabet."""
    return _Said(said=("ab>", "你好"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """Always asks on."""

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
