"""Validation of groups: drop those that a trainer cannot use, with a reason."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Final

from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.errors import Fault

TOKENS_END: Final = 1 << 31
"""Exclusive upper limit of token ids, which are transferred as int32."""


def checked(
    groups: Sequence[RolloutGroup], *, expected: int, generations: int
) -> tuple[list[RolloutGroup], list[Fault]]:
    """Return the valid groups, and a fault for each other group.

    A group is dropped as a whole, because its rewards are only meaningful together.

    Args:
        groups: Groups returned by an environment.
        expected: Number of groups expected, without those the environment reported as faults.
        generations: Number of rollouts required in each group.
    """
    sound: list[RolloutGroup] = []
    faults: list[Fault] = []
    for place, group in enumerate(groups):
        wrong = (
            _problem_of(group, generations=generations) if place < expected else "unrequested group"
        )
        if wrong:
            faults.append(Fault("group_invalid", f"{group.example}: {wrong}"))
        else:
            sound.append(group)
    if len(groups) < expected:
        problem = f"{len(groups)} of {expected} groups returned, without a reason for the others"
        faults.append(Fault("group_missing", problem))
    return sound, faults


def _problem_of(group: RolloutGroup, *, generations: int) -> str:
    if len(group.rollouts) != generations:
        return f"{len(group.rollouts)} rollouts, expected {generations}"
    for place, rollout in enumerate(group.rollouts):
        wrong = _rollout_problem(rollout)
        if wrong:
            return f"rollouts[{place}]: {wrong}"
    return ""


def _rollout_problem(rollout: Rollout) -> str:
    columns = {
        name: len(getattr(rollout, name)) for name in ("tokens", "is_own", "logprobs", "versions")
    }
    if len(set(columns.values())) > 1:
        return "columns of different lengths: " + ", ".join(
            f"{count} {name}" for name, count in columns.items()
        )
    if not any(rollout.is_own):
        return "contains no token of the policy"
    if not math.isfinite(rollout.reward):
        return f"the reward is {rollout.reward}, must be finite"
    if not all(map(math.isfinite, rollout.logprobs)):
        return "a logprob is not finite"
    return _token_problem(rollout)


def _token_problem(rollout: Rollout) -> str:
    columns = zip(rollout.tokens, rollout.is_own, rollout.versions, strict=True)
    for place, (token, is_own, version) in enumerate(columns):
        if not isinstance(token, Integral) or not 0 <= token < TOKENS_END:
            return f"token {place} is {token!r}"
        if is_own != (version is not None):
            return f"token {place} has {'no' if is_own else 'a'} version"
    return ""
