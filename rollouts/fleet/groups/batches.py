"""Sampled rollouts in groups with their provenance, and the validation of groups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Final, Literal, NamedTuple

from rolldeck.lessons import MOST_SAMPLES, Sample
from rollouts.fleet.engine.engine import Answer, Version
from rollouts.fleet.groups.errors import Fault

Mode = Literal["train", "eval"]
TEXT_KEPT = 4000
CORRECT_FROM: Final = 0.5
"""Reward from which a rollout counts as correct, unless the lesson has `success_above`."""
TOKENS_END: Final = 1 << 31
"""Exclusive upper limit of token ids, which are transferred as int32."""


class Draw(NamedTuple):
    """Start of the random numbers of a batch; equal draws give equal batches."""

    seed: int
    """Seed of the answers, in [0, 2³¹)."""
    first_example: int = 0
    """Number of the first problem; the others follow consecutively."""


class Span(NamedTuple):
    """Timed part of the making of a rollout, in Unix time."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMetadata:
    """Provenance of a rollout."""

    lesson: str
    worker_id: str
    mode: Mode
    policy_version: Version
    """Oldest version that sampled any of its tokens."""
    sampled_at: float
    """Unix time in seconds."""


@dataclass(slots=True, kw_only=True)
class TokenColumns:
    """Tokens of a rollout in progress; the columns are those of a :class:`Rollout`."""

    tokens: list[int] = field(default_factory=list)
    is_own: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[Version | None] = field(default_factory=list)

    def add_given(self, tokens: Sequence[int]) -> None:
        """Append tokens that the policy did not write."""
        self.tokens += tokens
        self.is_own += [False] * len(tokens)
        self.logprobs += [0.0] * len(tokens)
        self.versions += [None] * len(tokens)

    def add_own(self, answer: Answer) -> None:
        """Append tokens that the policy wrote."""
        self.tokens += answer.tokens
        self.is_own += [True] * len(answer.tokens)
        self.logprobs += answer.logprobs
        self.versions += answer.versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One episode of T tokens: the prompt, the policy's turns, and the replies between them.

    Columns are ``[T]``. For a token that the policy did not write, the logprob is 0 and the
    version is None.
    """

    tokens: Sequence[int]
    is_own: Sequence[bool]
    """Whether the policy wrote the token; only such tokens are trained on."""
    logprobs: Sequence[float]
    """Natural log, at the sampling temperature and before top-p and top-k."""
    versions: Sequence[Version | None]
    reward: float
    """NaN: the environment has no score for it."""
    is_correct: bool
    is_truncated: bool
    """Whether it was cut at the maximum turn length or the end of the context."""
    prompt: str
    response: str
    """All turns of the policy and the replies between them."""
    metadata: RolloutMetadata | None = None
    spans: Sequence[Span] = field(default=(), compare=False)
    """Timing of its parts; ignored when rollouts are compared."""

    @property
    def own_tokens(self) -> int:
        return sum(self.is_own)

    @property
    def oldest(self) -> Version | None:
        """Oldest version that sampled any token; None if the policy wrote nothing."""
        return min((version for version in self.versions if version is not None), default=None)

    @property
    def sample(self) -> Sample:
        return Sample(
            prompt=self.prompt[:TEXT_KEPT],
            response=self.response[:TEXT_KEPT],
            reward=self.reward,
            is_correct=self.is_correct,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutGroup:
    """All answers to one problem."""

    example: str
    """Key of the problem; equal keys always mean the same problem."""
    rollouts: Sequence[Rollout]
    failed: Sequence[Fault] = ()
    """Why each missing answer failed or has no score."""
    number: int | None = None
    """Number of the problem, by which it is requested again; None if it cannot be. Groups of a
    batch have one."""
    refilled: int = 0
    """Answers that took the place of failed ones."""

    @property
    def policy_version(self) -> Version:
        """Oldest version that sampled any of its tokens."""
        return min(rollout.oldest for rollout in self.rollouts if rollout.oldest is not None)

    @property
    def rewards(self) -> list[float]:
        return [rollout.reward for rollout in self.rollouts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch:
    """The groups of one call, at least one."""

    groups: Sequence[RolloutGroup]
    generations: int
    """Requested rollouts of each group; shrunken groups have fewer."""
    metadata: RolloutMetadata
    draw: Draw
    seconds: float
    """Duration of sampling."""

    @property
    def rollouts(self) -> list[Rollout]:
        return [rollout for group in self.groups for rollout in group.rollouts]

    @property
    def policy_version(self) -> Version:
        """Oldest version that sampled any of its tokens."""
        return min(group.policy_version for group in self.groups)

    @property
    def tokens(self) -> int:
        return sum(rollout.own_tokens for rollout in self.rollouts)

    @property
    def samples(self) -> list[Sample]:
        """The first answers for display: one of each group before a second of any."""
        turns = [
            group.rollouts[place]
            for place in range(self.generations)
            for group in self.groups
            if place < len(group.rollouts)
        ]
        return [rollout.sample for rollout in turns[:MOST_SAMPLES]]


def checked(
    groups: Sequence[RolloutGroup], *, numbers: Sequence[int], faulty: int, generations: int
) -> tuple[list[RolloutGroup], list[Fault]]:
    """Return the valid groups, and a fault for each other group.

    A rollout without a score counts as failed. A group with an invalid rollout is dropped as a
    whole: its environment is wrong.

    Args:
        groups: Groups of an environment.
        numbers: Numbers of the requested problems.
        faulty: Number of groups that the environment reported as faults.
        generations: Number of rollouts of each group, failed ones included.
    """
    sound: list[RolloutGroup] = []
    faults: list[Fault] = []
    expected, left = len(numbers) - faulty, set(numbers)
    for place, group in enumerate(map(_scored, groups)):
        if place >= expected:
            wrong = "unrequested group"
        elif group.number is not None and group.number not in left:
            wrong = f"its number {group.number} was not requested, or is that of an earlier group"
        elif len(group.rollouts) + len(group.failed) != generations:
            failed = f" and {len(group.failed)} failed ones" if group.failed else ""
            wrong = f"{len(group.rollouts)} rollouts{failed}, expected {generations}"
        else:
            problems = enumerate(map(_rollout_problem, group.rollouts))
            wrong = next((f"rollouts[{at}]: {text}" for at, text in problems if text), "")
        if wrong:
            faults.append(Fault("group_invalid", f"{group.example}: {wrong}", group.number))
        else:
            sound.append(group)
            left.discard(group.number if group.number is not None else -1)
    if len(groups) < expected:
        problem = f"{len(groups)} of {expected} groups returned, without a reason for the others"
        faults.append(Fault("group_missing", problem))
    return sound, faults


def numbered(groups: Sequence[RolloutGroup], numbers: Sequence[int]) -> list[RolloutGroup]:
    """Return groups with the numbers of their problems; those without one get the free ones."""
    named = {group.number for group in groups}
    free = (number for number in numbers if number not in named)
    return [
        group if group.number is not None else replace(group, number=next(free, None))
        for group in groups
    ]


def _scored(group: RolloutGroup) -> RolloutGroup:
    """Return a group whose rollouts without a score are failed ones."""
    unscored = [
        Fault("rollout_unscored", f"{group.example}: rollouts[{place}] has no score")
        for place, one in enumerate(group.rollouts)
        if math.isnan(one.reward)
    ]
    if not unscored:
        return group
    scored = [one for one in group.rollouts if not math.isnan(one.reward)]
    return replace(group, rollouts=scored, failed=[*group.failed, *unscored])


def _rollout_problem(rollout: Rollout) -> str:
    names = ("tokens", "is_own", "logprobs", "versions")
    lengths = {name: len(getattr(rollout, name)) for name in names}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{count} {name}" for name, count in lengths.items())
        return f"columns of different lengths: {listed}"
    if not any(rollout.is_own):
        return "contains no token of the policy"
    if not math.isfinite(rollout.reward):
        return f"the reward is {rollout.reward}, must be finite"
    if not all(map(math.isfinite, rollout.logprobs)):
        return "a logprob is not finite"
    tokens = zip(rollout.tokens, rollout.is_own, rollout.versions, strict=True)
    for place, (token, is_own, version) in enumerate(tokens):
        if not isinstance(token, Integral) or not 0 <= token < TOKENS_END:
            return f"token {place} is {token!r}"
        if is_own != (version is not None):
            return f"token {place} has {'no' if is_own else 'a'} version"
    return ""
