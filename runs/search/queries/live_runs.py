"""Read the runs of the live lists on every page."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from runs.lifecycle.models.runs import (
    Run,
)
from runs.lifecycle.rules.lifecycle import ACTIVE
from runs.search.queries import run_table
from runs.search.schemas import DeckRun, Outlook, RunRow

DECK_RUNS: Final = 200


def active_deck_runs() -> list[DeckRun]:
    """Return the active runs among the newest, with summaries; they change often."""
    found = [run for run in _newest_runs() if run.status in ACTIVE]
    beside = run_table.outlooks([run.pk for run in found])
    return [_deck_run(row, beside.get(row.id, {})) for row in run_table.run_rows(found)]


def resting_deck_runs() -> list[DeckRun]:
    """Return the inactive runs among the newest; they rarely change."""
    found = [run for run in _newest_runs() if run.status not in ACTIVE]
    return [_deck_run(row, {}) for row in run_table.run_rows(found)]


def _newest_runs() -> list[Run]:
    found = Run.objects.current().select_related("created_by").order_by("-created_at", "-id")
    return list(found[:DECK_RUNS])


def _deck_run(row: RunRow, beside: dict[str, Any]) -> DeckRun:
    return DeckRun(**msgspec.structs.asdict(row), **beside)


def run_outlooks(run_ids: Sequence[int]) -> dict[int, Outlook]:
    """Return run summaries as API objects."""
    return {run_id: Outlook(**more) for run_id, more in run_table.outlooks(run_ids).items()}
