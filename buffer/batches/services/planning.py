"""Plan the next batch of a run, at a cost independent of the queue's length.

One statement reads counts, environments and debts. Another reads the oldest groups of each
environment through the partial index of its queue, as many as the forecast needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from buffer.batches.rules.batch_plan import BatchPlan, Behind, NoBatch, NoPlan, plan_batch
from buffer.batches.rules.mixing import EnvironmentQueue, QueuedGroup, forecast
from buffer.payloads.services.contents import PayloadLocation
from runs.lifecycle.models import Run
from runs.lifecycle.rules import SILENT_AFTER, RunStatus
from web import sql
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# Groups of each environment that are weighed beyond the forecast, to skip odd sizes before groups
# are chosen by size alone.
SPARE_GROUPS: Final = 16


class _StateRow(NamedTuple):
    """Counts, registration and debt of one environment."""

    now: datetime
    env_id: int
    weight: float
    minimum: float
    connected: bool
    debt: float
    blocks_since: datetime | None
    sizes: list[int] | None
    items: list[int] | None

    def queue(self) -> EnvironmentQueue:
        """Return the environment with its groups as counts by size."""
        return EnvironmentQueue(
            env_id=self.env_id,
            behind=dict(zip(self.sizes or [], self.items or [], strict=True)),
            weight=self.weight,
            minimum=self.minimum,
            connected=self.connected,
            debt=self.debt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of the next batch, and its inputs."""

    plan: BatchPlan | NoPlan
    queues: list[EnvironmentQueue]
    on_record: set[int]
    """Environments on record as delaying the run's batches."""
    locations: Mapping[int, PayloadLocation] = field(default_factory=dict)
    """Locations of the bytes of the groups in the windows, by id."""


def plan_next(run: Run, *, batch_size: int) -> Planned:
    """Plan the next batch of an external run; leases nothing."""
    rows = _state(run.pk)
    if not rows:
        return Planned(plan=NoPlan(reason=NoBatch.TOO_FEW), queues=[], on_record=set())
    queues = [row.queue() for row in rows]
    locations: dict[int, PayloadLocation] = {}
    if sum(queue.sequences for queue in queues) >= batch_size:
        windows, locations = _windows(run.pk, _lengths(queues, batch_size))
        queues = [_split(queue, windows.get(queue.env_id, [])) for queue in queues]
    blocked = {row.env_id: row.blocks_since for row in rows if row.blocks_since is not None}
    plan = plan_batch(
        queues,
        batch_size=batch_size,
        now=rows[0].now,
        blocked_since=min(blocked.values(), default=None),
        # A draining run receives no more groups, so it must not wait for minimums.
        deadline_seconds=0 if run.status == RunStatus.DRAINING else run.dry_deadline_seconds,
    )
    return Planned(plan=plan, queues=queues, on_record=set(blocked), locations=locations)


def group_ids(run_id: int, plan: BatchPlan) -> list[int]:
    """Return the groups of a planned batch, oldest first."""
    return sorted(plan.chosen + _behind_ids(run_id, plan.behind))


def read_queues(run_id: int) -> list[EnvironmentQueue]:
    """Return the environments of a run's batches, with groups as counts by size."""
    return [row.queue() for row in _state(run_id)]


def _state(run_id: int) -> list[_StateRow]:
    with sql.cursor() as cursor:
        cursor.execute(
            SQL["environments_of_queue"],
            {"run": run_id, "silent_after": SILENT_AFTER},
            prepare=True,
        )
        return [_StateRow(*row) for row in cursor.fetchall()]


def _lengths(queues: Iterable[EnvironmentQueue], batch_size: int) -> dict[int, int]:
    """Return the number of groups of each environment to weigh individually."""
    queues = [queue for queue in queues if queue.behind]
    sequences = forecast(queues, batch_size=batch_size)
    return {
        queue.env_id: sequences[queue.env_id] // min(queue.behind) + SPARE_GROUPS
        for queue in queues
    }


def _windows(
    run_id: int, lengths: Mapping[int, int]
) -> tuple[dict[int, list[QueuedGroup]], dict[int, PayloadLocation]]:
    """Return the oldest groups of each environment, and where the bytes of each group are."""
    windows: dict[int, list[QueuedGroup]] = {env_id: [] for env_id in lengths}
    locations = {}
    parts = [{"env_id": env_id, "length": length} for env_id, length in lengths.items()]
    with sql.cursor() as cursor:
        parameters = [msgspec.json.encode(parts).decode(), run_id]
        cursor.execute(SQL["oldest_groups"], parameters, prepare=True, binary=True)
        for env_id, group_id, sequences, *location in cursor.fetchall():
            windows[env_id].append(QueuedGroup(group_id, sequences))
            locations[group_id] = PayloadLocation(*location)
    return windows, locations


def _split(queue: EnvironmentQueue, window: list[QueuedGroup]) -> EnvironmentQueue:
    """Return the environment with `window`, subtracted from its counts."""
    behind = dict(queue.behind)
    for group in window:
        behind[group.sequences] = behind.get(group.sequences, 0) - 1
    return replace(
        queue, window=window, behind={size: count for size, count in behind.items() if count > 0}
    )


def _behind_ids(run_id: int, parts: Sequence[Behind]) -> list[int]:
    if not parts:
        return []
    columns = zip(
        *[(part.env_id, part.sequences, part.after, part.count) for part in parts], strict=True
    )
    with sql.cursor() as cursor:
        cursor.execute(SQL["groups_by_size"], [*map(list, columns), run_id], prepare=True)
        return [group_id for (group_id,) in cursor.fetchall()]
