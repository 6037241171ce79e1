"""Find environments whose pushes are refused."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from runs.alerts.rules.alerts import SEEN_AT_MOST, AlertKind, Condition
from runs.lifecycle.models.runs import Environment
from runs.lifecycle.rules.lifecycle import ACTIVE
from runs.lifecycle.schemas.runs import RefusedPushes

RECENT: Final = timedelta(minutes=10)
"""Window since the newest refusal: environments of slow tasks push once in minutes."""
# Reasons without data loss, since clients retry, and those with a separate alert kind.
_TRANSIENT: Final = frozenset(
    {"disk_full", "in_flight", "over_quota", "run_not_accepting", "run_over", "storage_down"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEnvironment:
    """An environment with recently refused pushes, and the newest reason."""

    run_id: int
    run: str
    environment: str
    pushes: int
    newest_at: datetime
    message: str


def refused_environments(
    *, now: datetime, run_id: int | None = None, within: timedelta = RECENT
) -> list[RefusedEnvironment]:
    """Return the environments of active runs, or of one run, whose pushes were refused recently.

    Args:
        now: Present time.
        run_id: The run; None for all.
        within: Time since the newest refusal.
    """
    rows = Environment.objects.filter(refused__isnull=False, run__archived_at=None)
    rows = rows.filter(run__status__in=ACTIVE) if run_id is None else rows.filter(run_id=run_id)
    columns = ("run_id", "run__name", "wandb_name", "refused")
    named = rows.order_by("-run_id", "env_id").values_list(*columns)[:SEEN_AT_MOST]
    return list(_recent(named, since=now - within))


def _recent(
    rows: Iterable[tuple[int, str, str, dict[str, object]]], *, since: datetime
) -> Iterator[RefusedEnvironment]:
    for run_id, run, environment, refused in rows:
        counts = msgspec.convert(refused, dict[str, RefusedPushes])
        lost = [one for reason, one in counts.items() if reason not in _TRANSIENT]
        newest = max(lost, key=lambda one: one.newest_at, default=None)
        if newest is not None and newest.newest_at >= since:
            yield RefusedEnvironment(
                run_id=run_id,
                run=run,
                environment=environment,
                pushes=sum(one.pushes for one in lost),
                newest_at=newest.newest_at,
                message=newest.message,
            )


def refusing_runs(now: datetime) -> list[Condition]:
    """Return the environments of active runs whose pushes were refused recently."""
    return [
        Condition(
            kind=AlertKind.PUSHES_REFUSED,
            run_id=one.run_id,
            subject=one.environment,
            message=f"{one.run} refuses pushes of {one.environment}: {one.message}",
            details={"pushes": one.pushes},
        )
        for one in refused_environments(now=now)
    ]
