"""Leave out what no trainer could learn from, and say why."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Final

from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.errors import Fault

TOKENS_END: Final = 1 << 31
"""Tokens travel as int32."""


def checked(
    groups: Sequence[RolloutGroup], *, wanted: int, generations: int
) -> tuple[list[RolloutGroup], list[Fault]]:
    """Return the sound groups, and what is wrong with each of the others.

    A group is left out as a whole: its rewards mean something only together.

    Args:
        groups: What an environment gave.
        wanted: Groups that it has given no reason to lack.
        generations: Rollouts that each must have.
    """
    sound: list[RolloutGroup] = []
    faults: list[Fault] = []
    for place, group in enumerate(groups):
        wrong = _flaw(group, generations=generations) if place < wanted else "one too many"
        if wrong:
            faults.append(Fault("group_invalid", f"{group.example}: {wrong}"))
        else:
            sound.append(group)
    if len(groups) < wanted:
        said = f"{len(groups)} of {wanted} groups came, and the environment says nothing of why"
        faults.append(Fault("group_missing", said))
    return sound, faults


def _flaw(group: RolloutGroup, *, generations: int) -> str:
    if len(group.rollouts) != generations:
        return f"{len(group.rollouts)} rollouts, {generations} were wanted"
    for place, rollout in enumerate(group.rollouts):
        wrong = _flaw_of(rollout)
        if wrong:
            return f"rollouts[{place}]: {wrong}"
    return ""


def _flaw_of(rollout: Rollout) -> str:
    columns = {
        name: len(getattr(rollout, name)) for name in ("tokens", "is_own", "logprobs", "versions")
    }
    if len(set(columns.values())) > 1:
        return "columns of different lengths: " + ", ".join(
            f"{count} {name}" for name, count in columns.items()
        )
    if not any(rollout.is_own):
        return "the policy wrote no token"
    if not math.isfinite(rollout.reward):
        return f"its reward is {rollout.reward}"
    if not all(map(math.isfinite, rollout.logprobs)):
        return "a logprob is not finite"
    return _flaw_of_tokens(rollout)


def _flaw_of_tokens(rollout: Rollout) -> str:
    columns = zip(rollout.tokens, rollout.is_own, rollout.versions, strict=True)
    for place, (token, is_own, version) in enumerate(columns):
        if not isinstance(token, Integral) or not 0 <= token < TOKENS_END:
            return f"token {place} is {token!r}"
        if is_own != (version is not None):
            return f"token {place} has {'no' if is_own else 'a'} version"
    return ""
