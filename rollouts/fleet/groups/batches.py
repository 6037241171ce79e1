"""What sampling a lesson gives: rollouts in groups, each with where it came from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rolldeck.lessons import MOST_SAMPLES, Sample
from rollouts.fleet.engine.engine import Version

Mode = Literal["train", "eval"]
TEXT_KEPT = 4000


class Draw(NamedTuple):
    """Where the random numbers of a batch begin; equal draws give equal batches."""

    seed: int
    """Of how answers are drawn, in [0, 2³¹)."""
    first_example: int = 0
    """Number of the first problem; the others follow it."""


class Span(NamedTuple):
    """What took time while a rollout was made, in Unix time."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMetadata:
    """Where a rollout came from."""

    lesson: str
    worker_id: str
    mode: Mode
    policy_version: Version
    """Oldest version that drew any of its tokens."""
    sampled_at: float
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One episode: T tokens of the prompt, the policy's turns, and what it was told between them.

    Columns are ``[T]``. Of a token that the policy did not write, the logprob is 0 and the
    version None.
    """

    tokens: Sequence[int]
    is_own: Sequence[bool]
    """Whether the policy wrote the token: only these are trained on."""
    logprobs: Sequence[float]
    """Natural log, at the temperature of sampling and before top-p and top-k."""
    versions: Sequence[Version | None]
    reward: float
    is_correct: bool
    is_truncated: bool
    """Cut at the longest turn, or at the end of the context."""
    prompt: str
    response: str
    """All turns of the policy and what it was told between them."""
    metadata: RolloutMetadata | None = None
    spans: Sequence[Span] = field(default=(), compare=False)
    """When its parts were made; two that say the same are equal whenever that was."""

    @property
    def own_tokens(self) -> int:
        """Tokens that the policy wrote."""
        return sum(self.is_own)

    @property
    def oldest(self) -> Version | None:
        """Oldest version that drew any token; None if the policy wrote nothing."""
        return min((version for version in self.versions if version is not None), default=None)

    @property
    def sample(self) -> Sample:
        """What people look at."""
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
    """Key of the problem: the same key is the same problem for ever."""
    rollouts: Sequence[Rollout]

    @property
    def policy_version(self) -> Version:
        """Oldest version that drew any token of it."""
        return min(rollout.oldest for rollout in self.rollouts if rollout.oldest is not None)

    @property
    def rewards(self) -> list[float]:
        """Of each rollout, ``[S]``."""
        return [rollout.reward for rollout in self.rollouts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch:
    """The groups of one call, at least one; all have the same number of rollouts."""

    groups: Sequence[RolloutGroup]
    metadata: RolloutMetadata
    draw: Draw
    seconds: float
    """That sampling took."""

    @property
    def rollouts(self) -> list[Rollout]:
        """All of them, group by group."""
        return [rollout for group in self.groups for rollout in group.rollouts]

    @property
    def policy_version(self) -> Version:
        """Oldest version that drew any of it."""
        return min(group.policy_version for group in self.groups)

    @property
    def generations(self) -> int:
        """Rollouts of a group."""
        return len(self.groups[0].rollouts)

    @property
    def tokens(self) -> int:
        """That the policy wrote."""
        return sum(rollout.own_tokens for rollout in self.rollouts)

    @property
    def samples(self) -> list[Sample]:
        """The first answers, for people to look at: one of each group before a second one."""
        turns = [
            group.rollouts[place] for place in range(self.generations) for group in self.groups
        ]
        return [rollout.sample for rollout in turns[:MOST_SAMPLES]]
