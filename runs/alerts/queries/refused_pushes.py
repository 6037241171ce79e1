"""Find environments whose pushes are refused."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from runs.alerts.rules import SEEN_AT_MOST, advice_for
from runs.lifecycle.models import Environment, Run, RunKind
from runs.lifecycle.rules import ACTIVE
from runs.lifecycle.schemas import RefusedPushes

RECENT: Final = timedelta(minutes=10)
"""Window since the newest refusal: environments of slow tasks push once in minutes."""
# Reasons without data loss, since clients retry, and those with a separate alert kind.
_TRANSIENT: Final = frozenset(
    {"disk_full", "in_flight", "over_quota", "run_not_accepting", "run_over", "storage_down"}
)


UNREGISTERED: Final = "unknown environments"
"""Name for the senders of pushes that name no environment of their run, or cannot be read."""
WORKERS: Final = "its workers"
"""Name for the senders of pushes in a run with a fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEnvironment:
    """An environment with recently refused pushes, and the newest reason."""

    run_id: int
    run: str
    environment: str
    """Its name, :data:`UNREGISTERED` or :data:`WORKERS`."""
    pushes: int
    groups: int
    """Groups of these pushes."""
    newest_at: datetime
    reason: str
    """Code of the newest refusal."""
    message: str

    def lost(self, unit: str) -> str:
        """Return the number of lost groups or fragments and of pushes in words."""
        items, pushes = f"{self.groups:,} {unit}", f"{self.pushes:,} push"
        return (
            f"{items}{'s' if self.groups != 1 else ''} in {pushes}"
            f"{'es' if self.pushes != 1 else ''}"
        )

    @property
    def advice(self) -> str:
        """Remedy for the newest refusal."""
        return advice_for(self.reason)


def refused_environments(
    *, now: datetime, run_id: int | None = None, within: timedelta = RECENT
) -> list[RefusedEnvironment]:
    """Return the environments of active runs, or of one run, whose pushes were refused recently.

    Pushes that name no environment of their run count as those of one more environment.

    Args:
        now: Present time.
        run_id: The run; None for all.
        within: Time since the newest refusal.
    """
    environments = Environment.objects.filter(refused__isnull=False, run__archived_at=None)
    runs = Run.objects.current().filter(refused__isnull=False)
    if run_id is None:
        environments = environments.filter(run__status__in=ACTIVE)
        runs = runs.active()
    else:
        environments, runs = environments.filter(run_id=run_id), runs.filter(pk=run_id)
    named = environments.order_by("-run_id", "env_id").values_list(
        "run_id", "run__name", "wandb_name", "refused"
    )[:SEEN_AT_MOST]
    unnamed = runs.order_by("-id").values_list("id", "name", "refused", "kind")[:SEEN_AT_MOST]
    rows: list[tuple[int, str, str, Any]] = [
        *named,
        *(
            (pk, name, UNREGISTERED if kind == RunKind.OUTSIDE else WORKERS, refused)
            for pk, name, refused, kind in unnamed
        ),
    ]
    return list(_recent(rows, since=now - within))


def _recent(
    rows: Iterable[tuple[int, str, str, dict[str, object]]], *, since: datetime
) -> Iterator[RefusedEnvironment]:
    for run_id, run, environment, refused in rows:
        counts = msgspec.convert(refused, dict[str, RefusedPushes])
        lost = {reason: one for reason, one in counts.items() if reason not in _TRANSIENT}
        reason = max(lost, key=lambda one: lost[one].newest_at, default=None)
        if reason is not None and lost[reason].newest_at >= since:
            yield RefusedEnvironment(
                run_id=run_id,
                run=run,
                environment=environment,
                pushes=sum(one.pushes for one in lost.values()),
                groups=sum(max(one.groups, one.pushes) for one in lost.values()),
                newest_at=lost[reason].newest_at,
                reason=reason,
                message=lost[reason].message,
            )
