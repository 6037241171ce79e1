"""Assigned problems whose groups were lost: found, assigned again, and recorded as events."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from buffer.problems.rules import MOST_ATTEMPTS
from buffer.problems.services import (
    Losses,
    follow_groups,
    lose,
    return_of_lost_workers,
    return_unheld,
    return_untrained,
)
from rollouts.control.models import Fleet, FleetWorker
from rollouts.curriculum.models import Curriculum
from rollouts.curriculum.queries.lessons import requesting_workers
from rollouts.curriculum.services.lessons import ACTOR
from runs.events.services import record_event
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.rules import NO_POLICY_STEP
from web.live.announcements import announce

FOLLOWED_EVERY: Final = timedelta(seconds=1)
REPORTED_WITHIN: Final = timedelta(seconds=15)
"""Time after which a report that lacks a worker shows that it has ended."""
NUMBERS_SHOWN: Final = 10


@transaction.atomic
def follow_problems(run_id: int, *, now: datetime) -> None:
    """Record what became of the assigned problems of a run, at most once per second.

    Problems of dropped groups and of lost workers are returned. In a new epoch, so are those of
    batches that the resumed policy was not trained on.
    """
    is_due = Q(followed_at=None) | Q(followed_at__lt=now - FOLLOWED_EVERY)
    followed = Curriculum.objects.filter(is_due, run_id=run_id).update(followed_at=now)
    if not followed:
        return
    record(run_id, follow_groups(run_id), now=now)
    # After the groups: the last batches of an earlier epoch may have been trained on just now.
    _follow_epoch(run_id, now=now)
    fleet = Fleet.objects.filter(run_id=run_id).first()
    if fleet is not None and fleet.observed_at is not None:
        present = requesting_workers(FleetWorker.objects.filter(fleet=fleet))
        before = fleet.observed_at - REPORTED_WITHIN
        lost = return_of_lost_workers(run_id, present, leased_before=before)
        record(run_id, lost, now=now, by="workers that have ended")


def _follow_epoch(run_id: int, *, now: datetime) -> None:
    run = Run.objects.only("epoch", "policy_step").get(pk=run_id)
    row = Curriculum.objects.only("followed_epoch").get(run_id=run_id)
    if row.followed_epoch == run.epoch or run.policy_step == NO_POLICY_STEP:
        return
    if row.followed_epoch:
        versions = PolicyVersion.objects.filter(run_id=run_id, epoch=run.epoch)
        first = versions.order_by("step").values_list("step", flat=True).first()
        step = run.policy_step if first is None else first
        untrained = return_untrained(run_id, epoch=run.epoch, step=step)
        if untrained:
            record_event(
                run_id=run_id,
                kind="problems_returned",
                message=f"the trainer resumed at version {step}: {untrained} problems of batches "
                "from this version on are assigned again",
                actor=ACTOR,
                details={"problems": untrained, "policy_step": step},
                now=now,
            )
    Curriculum.objects.filter(run_id=run_id).update(followed_epoch=run.epoch)


def return_problems(
    run_id: int, worker: str, held: Mapping[str, Collection[int]], *, now: datetime
) -> None:
    """Return the problems leased to a worker that it does not have, by lesson."""
    record(run_id, return_unheld(run_id, worker, held), now=now, by=worker)


def lose_problems(
    run_id: int,
    lesson: str,
    numbers: Mapping[str, Collection[int]],
    *,
    worker: str,
    error: str,
    now: datetime,
) -> None:
    """Record problems, by reason, for which a worker has no group; `error` may explain it."""
    record(run_id, lose(run_id, lesson, numbers, worker=worker), now=now, error=error)


def record(run_id: int, losses: Losses, *, now: datetime, by: str = "", error: str = "") -> None:
    """Record lost problems as events.

    Args:
        run_id: The run.
        losses: The problems.
        now: Time of the loss.
        by: Workers that lost the returned ones; empty if their return is no event.
        error: Error of the last attempt.
    """
    if by and losses.returned:
        counts = Counter(lesson for lesson, _ in losses.returned)
        listed = ", ".join(f"{count} of {lesson}" for lesson, count in sorted(counts.items()))
        record_event(
            run_id=run_id,
            kind="problems_returned",
            message=f"problems of {by} are assigned again: {listed}",
            actor=ACTOR,
            details={"problems": len(losses.returned)},
            now=now,
        )
    for reason, problems in losses.skipped.items():
        by_lesson: dict[str, list[int]] = {}
        for lesson, number in problems:
            by_lesson.setdefault(lesson, []).append(number)
        for lesson, numbers in by_lesson.items():
            shown = ", ".join(str(number) for number in sorted(numbers)[:NUMBERS_SHOWN])
            more = f" and {len(numbers) - NUMBERS_SHOWN} more" * (len(numbers) > NUMBERS_SHOWN)
            record_event(
                run_id=run_id,
                kind="problems_skipped",
                message=f"problems {shown}{more} of lesson {lesson} are skipped: "
                f"{MOST_ATTEMPTS} attempts ended without a group, the last one by {reason}",
                reason=error,
                actor=ACTOR,
                level="warning",
                details={"lesson": lesson, "numbers": sorted(numbers)[:1000], "reason": reason},
                now=now,
            )
    if losses.returned or losses.skipped:
        announce(run_id, "curriculum")
