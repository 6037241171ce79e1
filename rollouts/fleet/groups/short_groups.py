"""Policies for groups of which rollouts failed or have no score: drop, shrink or refill."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from rolldeck.lessons import FAILURE_KIND, MOST_PROMPT, MOST_SHORT_GROUPS, ShortGroup
from rollouts.fleet.groups.batches import Mode, RolloutGroup
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed
from rollouts.fleet.process.settings import derive_seed
from runs.config.rules.language_config import ShortGroupRule

FINAL_KINDS: Final = frozenset({"prompt_too_long", "tokenizer_unusable"})
"""Faults of the prompt, which another attempt meets again."""


@dataclass(slots=True, kw_only=True)
class Losses:
    """Rollouts of one call that failed or were dropped with their group."""

    failed: Counter[str] = field(default_factory=Counter)
    """Failed rollouts by kind, those of refills included."""
    refilled: int = 0
    """Rollouts that took the place of failed ones."""
    dropped: int = 0
    """Groups dropped because they were short."""
    problems: defaultdict[str, list[int]] = field(default_factory=partial(defaultdict, list))
    """Numbers of problems without a group, by reason."""
    siblings: int = 0
    """Completed rollouts of dropped groups."""
    groups: list[ShortGroup] = field(default_factory=list)
    """The first groups with failed rollouts."""
    faults: list[Fault] = field(default_factory=list)
    """Failures, for events."""

    def lose(self, number: int | None, reason: str) -> None:
        """Record that a problem has no group."""
        if number is not None:
            self.problems[storable(reason)].append(number)


Ask = Callable[[RolloutRequest], Sampled]


def settled(
    groups: Sequence[RolloutGroup], *, rule: ShortGroupRule, request: RolloutRequest, ask: Ask
) -> tuple[list[RolloutGroup], Losses]:
    """Return the groups to train on, or to evaluate with, and the losses.

    An evaluation needs each answer, so that `shrink` drops its short groups.

    Args:
        groups: Groups of one request, with their failed rollouts.
        rule: Policy of the lesson.
        request: The request.
        ask: Samples the failed rollouts again; used with `refill` only.

    Raises:
        LessonFailed: If the lesson fails in a refill, and stops by its setting.
    """
    losses, kept = Losses(), list[RolloutGroup]()
    _note(losses, groups)
    pairs = [(group, _kinds(group)) for group in groups]
    if rule.policy == "refill":
        for attempt in range(1, rule.refills + 1):
            pairs = _refilled(pairs, attempt, request=request, ask=ask, losses=losses)
    least = _least(rule, mode=request.mode, generations=request.generations)
    for group, failed in pairs:
        is_kept = len(group.rollouts) >= least
        losses.refilled += group.refilled if is_kept else 0
        if is_kept:
            kept.append(group)
        else:
            losses.dropped += 1
            losses.lose(group.number, "short_group")
            losses.siblings += len(group.rollouts)
        if failed and len(losses.groups) < MOST_SHORT_GROUPS:
            losses.groups.append(_described(group, failed, is_kept=is_kept))
    return kept, losses


def _least(rule: ShortGroupRule, *, mode: Mode, generations: int) -> int:
    return (
        min(rule.least, generations) if rule.policy == "shrink" and mode == "train" else generations
    )


def _refilled(
    pairs: list[tuple[RolloutGroup, Counter[str]]],
    attempt: int,
    *,
    request: RolloutRequest,
    ask: Ask,
    losses: Losses,
) -> list[tuple[RolloutGroup, Counter[str]]]:
    """Return the groups with the answers of one attempt to refill them."""
    by_size: defaultdict[int, list[int]] = defaultdict(list)
    for place, (group, _) in enumerate(pairs):
        if group.failed and group.number is not None and not _is_final(group.failed):
            by_size[len(group.failed)].append(place)
    found = list(pairs)
    for size, places in by_size.items():
        numbers = {pairs[place][0].number: place for place in places}
        again = replace(
            request,
            numbers=[number for number in numbers if number is not None],
            generations=size,
            seed=derive_seed(request.seed, "refill", attempt),
        )
        try:
            answered = ask(again)
        except LessonFailed as failure:
            if failure.stops:
                raise
            # The groups that are complete are kept.
            losses.faults.append(Fault(failure.kind, str(failure)))
            continue
        _note(losses, answered.groups)
        losses.faults += answered.faults
        for new in answered.groups:
            if new.number not in numbers:
                continue
            place = numbers[new.number]
            group, failed = pairs[place]
            whole = replace(
                group,
                rollouts=[*group.rollouts, *new.rollouts],
                failed=new.failed,
                refilled=group.refilled + len(new.rollouts),
            )
            found[place] = whole, failed
    return found


def _is_final(failed: Iterable[Fault]) -> bool:
    return any(one.kind in FINAL_KINDS for one in failed)


def _note(losses: Losses, groups: Iterable[RolloutGroup]) -> None:
    for group in groups:
        losses.failed.update(_kinds(group))
        losses.faults += group.failed


def _kinds(group: RolloutGroup) -> Counter[str]:
    return Counter(storable(one.kind) for one in group.failed)


def storable(kind: str) -> str:
    """Return a kind that the platform can store; tasks of others may use any name."""
    return kind if re.fullmatch(FAILURE_KIND, kind) else "rollout_failed"


def _described(group: RolloutGroup, failed: Counter[str], *, is_kept: bool) -> ShortGroup:
    return ShortGroup(
        example=group.example[:200],
        prompt=group.rollouts[0].prompt[:MOST_PROMPT] if group.rollouts else "",
        failed=dict(failed),
        rewards=[one.reward for one in group.rollouts],
        tokens=[one.own_tokens for one in group.rollouts],
        refilled=group.refilled,
        is_kept=is_kept,
    )
