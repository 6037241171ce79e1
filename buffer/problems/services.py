"""Leases of the problems of lessons, and what becomes of their groups.

A problem is leased to the worker that samples it. The push of its group claims it, in the
transaction that stores the group, so two groups of one problem are never both stored. A problem
whose group is lost is returned, and assigned again before new ones; :mod:`buffer.problems.rules`
has the exceptions.

Lock order: a run's curriculum or lesson before its problems, and problems by id.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery

from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemState
from buffer.problems.models import LessonProblem
from buffer.problems.rules import (
    FINAL,
    RESUMED,
    UNFINISHED,
    WORKER_LOST,
    ProblemState,
    after_loss,
)
from web import sql
from web.sql import statements_of

SQL: Final = statements_of("buffer")


class Problems(NamedTuple):
    """Consecutive problems of one lesson."""

    lesson: str
    first: int
    size: int
    attempts: int = 1


@dataclass(slots=True)
class Losses:
    """Problems whose groups were lost, as lesson and number."""

    returned: list[tuple[str, int]] = field(default_factory=list)
    skipped: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By reason; only those that were assigned :data:`MOST_ATTEMPTS` times."""


def lease_new(run_id: int, problems: Problems, *, worker: str, now: datetime) -> None:
    """Lease problems that were never assigned."""
    LessonProblem.objects.bulk_create(
        LessonProblem(
            run_id=run_id,
            lesson=problems.lesson,
            number=problems.first + place,
            worker=worker,
            leased_at=now,
        )
        for place in range(problems.size)
    )


def lease_returned(
    run_id: int, most: Mapping[str, int], *, worker: str, now: datetime
) -> Problems | None:
    """Lease the oldest returned problems; None if there are none.

    A problem whose worker was lost is leased alone, so that one which ends workers takes no other
    with it.

    Args:
        run_id: The run.
        most: Maximum number of problems by lesson; other lessons are left out.
        worker: The worker.
        now: Time of the request.
    """
    returned = LessonProblem.objects.filter(run_id=run_id, state=ProblemState.RETURNED)
    first = (
        returned.filter(lesson__in=most.keys())
        .select_for_update(skip_locked=True)
        .order_by("pk")
        .first()
    )
    if first is None:
        return None
    together = [first]
    if first.reason != WORKER_LOST:
        following = returned.filter(
            lesson=first.lesson, number__gt=first.number, attempts=first.attempts
        ).exclude(reason=WORKER_LOST)
        for one in following.select_for_update(skip_locked=True).order_by("number")[
            : most[first.lesson] - 1
        ]:
            if one.number != together[-1].number + 1:
                break
            together.append(one)
    LessonProblem.objects.filter(pk__in=[one.pk for one in together]).update(
        state=ProblemState.LEASED, attempts=first.attempts + 1, worker=worker, leased_at=now
    )
    return Problems(first.lesson, first.number, len(together), first.attempts + 1)


class Claimed(NamedTuple):
    """A pushed group that answers a problem."""

    lesson: str
    number: int
    group: int
    """Id of the group."""


def claim(run_id: int, groups: Sequence[Claimed]) -> set[int]:
    """Mark problems as answered by groups; return the ids of the groups that come too late.

    The caller stores the groups in the same transaction.
    """
    lessons, numbers, ids = (list(column) for column in zip(*groups, strict=True))
    parameters = {"run": run_id, "lessons": lessons, "numbers": numbers, "groups": ids}
    with sql.cursor() as cursor:
        return {one for (one,) in cursor.execute(SQL["claim_problems"], parameters).fetchall()}


@transaction.atomic
def lose(
    run_id: int, lesson: str, numbers: Mapping[str, Collection[int]], *, worker: str
) -> Losses:
    """Record problems, by reason, for which a worker has no group."""
    reasons = {number: reason for reason, those in numbers.items() for number in those}
    leased = LessonProblem.objects.filter(
        run_id=run_id,
        lesson=lesson,
        number__in=reasons,
        state=ProblemState.LEASED,
        worker=worker,
    )
    return _lose(leased, lambda problem: reasons[problem.number])


@transaction.atomic
def return_unheld(run_id: int, worker: str, held: Mapping[str, Collection[int]]) -> Losses:
    """Return the problems leased to a worker that it does not have, by lesson."""
    leased = LessonProblem.objects.filter(run_id=run_id, state=ProblemState.LEASED, worker=worker)
    has = {lesson: set(numbers) for lesson, numbers in held.items()}
    missing = [
        pk
        for pk, lesson, number in leased.values_list("pk", "lesson", "number")
        if number not in has.get(lesson, ())
    ]
    if not missing:
        return Losses()
    return _lose(leased.filter(pk__in=missing), lambda _: WORKER_LOST)


@transaction.atomic
def return_of_lost_workers(
    run_id: int, present: Collection[str], *, leased_before: datetime
) -> Losses:
    """Return problems leased before a time to workers that are not present any more."""
    leased = LessonProblem.objects.filter(
        run_id=run_id, state=ProblemState.LEASED, leased_at__lt=leased_before
    )
    return _lose(leased.exclude(worker__in=present), lambda _: WORKER_LOST)


@transaction.atomic
def follow_groups(run_id: int) -> Losses:
    """Record which answered problems were trained on, and which lost their group."""
    answered = LessonProblem.objects.filter(run_id=run_id, state=ProblemState.ANSWERED)
    group = TrajectoryGroup.objects.filter(pk=OuterRef("group"))
    answered.filter(Exists(group.filter(state=ItemState.SERVED))).update(state=ProblemState.TRAINED)
    dropped = Subquery(group.filter(state=ItemState.DROPPED).values("drop_reason"))
    lost = answered.annotate(dropped=dropped).filter(dropped__isnull=False)
    reasons = dict(lost.values_list("pk", "dropped"))
    if not reasons:
        return Losses()
    return _lose(answered.filter(pk__in=reasons), lambda problem: reasons[problem.pk])


@transaction.atomic
def return_untrained(run_id: int, *, epoch: int, step: int) -> int:
    """Return the problems of batches of earlier epochs that a resumed policy has not seen.

    The policy of version `step` was trained on the batches leased at older versions.

    Returns:
        The number of problems.
    """
    of_batch = TrajectoryGroup.objects.filter(
        pk=OuterRef("group"), batch__epoch__lt=epoch, batch__policy_step__gte=step
    )
    trained = LessonProblem.objects.filter(run_id=run_id, state=ProblemState.TRAINED)
    return trained.filter(Exists(of_batch)).update(
        state=ProblemState.RETURNED, attempts=0, reason=RESUMED
    )


def return_skipped(
    run_id: int, lessons: Iterable[str], *, is_lost_by: Callable[[str], bool], since: datetime
) -> int:
    """Return problems assigned since a time whose attempts an outage has used up or counted.

    Args:
        run_id: The run.
        lessons: Its lessons.
        is_lost_by: Whether a reason of a loss is that of the outage.
        since: Earliest time of the last assignment.

    Returns:
        The number of problems.
    """
    lost = LessonProblem.objects.filter(
        run_id=run_id,
        lesson__in=list(lessons),
        state__in=(ProblemState.SKIPPED, ProblemState.RETURNED),
        leased_at__gte=since,
    ).exclude(reason__in=FINAL | {WORKER_LOST})
    reasons = [one for one in lost.values_list("reason", flat=True).distinct() if is_lost_by(one)]
    return lost.filter(reason__in=reasons).update(state=ProblemState.RETURNED, attempts=0)


def has_unfinished(run_id: int, lessons: Iterable[str]) -> bool:
    """Return whether problems of some lessons are leased, or wait to be assigned again."""
    return LessonProblem.objects.filter(
        run_id=run_id, state__in=UNFINISHED, lesson__in=list(lessons)
    ).exists()


def _lose(rows: "QuerySet[LessonProblem]", reason_of: Callable[[LessonProblem], str]) -> Losses:
    losses = Losses()
    problems = list(rows.select_for_update().order_by("pk"))
    newest: datetime | None = None
    if problems:
        arrived = TrajectoryGroup.objects.filter(run_id=problems[0].run_id, segment__isnull=False)
        newest = arrived.order_by("-pk").values_list("received_at", flat=True).first()
    for problem in problems:
        problem.reason = reason_of(problem)
        loss = after_loss(
            problem.reason,
            attempts=problem.attempts,
            others_arrive=newest is not None and newest > problem.leased_at,
        )
        problem.state, problem.attempts = loss.state, loss.attempts
        if loss.state is ProblemState.RETURNED:
            losses.returned.append((problem.lesson, problem.number))
        elif problem.reason not in FINAL:
            losses.skipped.setdefault(problem.reason, []).append((problem.lesson, problem.number))
    LessonProblem.objects.bulk_update(problems, ["state", "attempts", "reason"])
    return losses
