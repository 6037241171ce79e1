"""Interface of token environments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rollouts.fleet.groups.batches import Mode, RolloutGroup
from rollouts.fleet.groups.errors import Fault
from rollouts.fleet.groups.policy_context import PolicyContext


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """Rollouts requested from an environment."""

    numbers: Sequence[int]
    """Numbers of the problems; equal number, mode and `problem_seed` mean the same problem."""
    generations: int
    """Number of answers per problem."""
    mode: Mode
    problem_seed: int
    seed: int
    """Seed of the answers, in [0, 2³¹)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Result of an environment; each missing group has a fault.

    A group lists its failed rollouts. The short-group policy of the lesson decides about it.
    """

    groups: list[RolloutGroup]
    metrics: dict[str, float] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    notices: list[Fault] = field(default_factory=list)
    """Problems that dropped no group; reported like faults."""


class GroupEnvironment(Protocol):
    """An environment that provides prompts and scores the policy's answers.

    One instance serves one lesson of one worker; several threads may sample concurrently. An
    optional method `close()` ends its processes and connections at once; calls in progress fail.
    An optional attribute `pass_size` is the number of problems in one pass.
    """

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        """Return the groups of the requested problems, without metadata.

        Raises:
            SamplingStopped: If `policy` was asked to stop.
        """
