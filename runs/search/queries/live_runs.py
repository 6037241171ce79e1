"""Read the runs of the live lists on every page."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from runs.lifecycle.models.runs import (
    Run,
)
from runs.lifecycle.rules.lifecycle import ACTIVE
from runs.search.queries import run_table
from runs.search.schemas import LiveRunRow, RunActivity, RunRow

LIVE_RUNS: Final = 200


def active_run_rows() -> list[LiveRunRow]:
    """Return the active runs among the newest, with summaries; they change often."""
    found = [run for run in _newest_runs() if run.status in ACTIVE]
    beside = run_table.activity_of([run.pk for run in found])
    return [_live_run_row(row, beside.get(row.id, {})) for row in run_table.run_rows(found)]


def inactive_run_rows() -> list[LiveRunRow]:
    """Return the inactive runs among the newest; they rarely change."""
    found = [run for run in _newest_runs() if run.status not in ACTIVE]
    return [_live_run_row(row, {}) for row in run_table.run_rows(found)]


def _newest_runs() -> list[Run]:
    found = (
        Run.objects.current().select_related("created_by", "project").order_by("-created_at", "-id")
    )
    return list(found[:LIVE_RUNS])


def _live_run_row(row: RunRow, beside: dict[str, Any]) -> LiveRunRow:
    shown = {name: value for name, value in beside.items() if name != "observed_at"}
    return LiveRunRow(**msgspec.structs.asdict(row), **shown)


def run_activity(run_ids: Sequence[int]) -> dict[int, RunActivity]:
    """Return run summaries as API objects."""
    return {run_id: RunActivity(**more) for run_id, more in run_table.activity_of(run_ids).items()}
