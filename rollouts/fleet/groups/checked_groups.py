"""Leave out what no trainer could learn from, and say why."""

import math
from collections.abc import Sequence

from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.errors import Fault


def checked(
    groups: Sequence[RolloutGroup], *, generations: int
) -> tuple[list[RolloutGroup], list[Fault]]:
    """Return the sound groups, and what is wrong with each of the others.

    A group is left out as a whole: its rewards mean something only together.
    """
    sound: list[RolloutGroup] = []
    faults: list[Fault] = []
    for group in groups:
        wrong = _flaw(group, generations=generations)
        if wrong:
            faults.append(Fault("group_invalid", f"{group.example}: {wrong}"))
        else:
            sound.append(group)
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
    for place, (is_own, version) in enumerate(zip(rollout.is_own, rollout.versions, strict=True)):
        if is_own != (version is not None):
            return f"token {place} has {'no' if is_own else 'a'} version"
    return ""
