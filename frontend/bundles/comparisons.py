"""Write a saved comparison as a page that opens without a server."""

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from frontend.bundles import page
from rollouts.metrics.queries import series
from rollouts.metrics.queries.series import TIMES, SeriesRange
from rollouts.metrics.rules import X_AT_MOST
from rollouts.metrics.schemas import ComparisonRow, ComparisonView
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound, readable_run, run_detail
from runs.lifecycle.schemas import RunDetail

SCRIPTS: Final = ("viewer.js", "comparison.js")
POINTS: Final = 400
"""Buckets of a line; the minimum and maximum of each are kept."""


class ComparisonPart(Struct, frozen=True, kw_only=True):
    """The compared runs."""

    written_at: datetime
    comparison: ComparisonRow
    runs: list[RunDetail]
    missing: list[str]
    """Names of runs that have been archived or deleted."""


class ComparisonEnd(Struct, frozen=True, kw_only=True):
    """The last part; without it the file is incomplete."""

    lines: int


def comparison_page(row: ComparisonRow, *, now: datetime) -> Iterator[bytes]:
    """Yield the parts of a comparison's page; memory holds one metric at a time."""
    yield page.head(title=f"{row.name} · Rolldeck", scripts=SCRIPTS)
    found, missing = _runs(row.view.runs)
    yield page.block(
        "comparison",
        ComparisonPart(
            written_at=now,
            comparison=row,
            runs=[run_detail(run) for run in found],
            missing=missing,
        ),
    )
    drawn, view = 0, _view(row.view)
    ids = [(run.name, run.pk) for run in found]
    for name in row.view.metrics:
        for line in series.lines(ids, [name], view):
            drawn += 1
            yield page.block("metric", line)
    yield page.block("end", ComparisonEnd(lines=drawn))
    yield page.foot()


def _runs(names: list[str]) -> tuple[list[Run], list[str]]:
    found, missing = [], []
    for name in names:
        try:
            found.append(readable_run(name))
        except RunNotFound:
            missing.append(name)
    return found, missing


def _view(view: ComparisonView) -> SeriesRange:
    unit = 1_000_000 if view.x in TIMES else 1
    least = -X_AT_MOST if view.x == "elapsed" else 0
    first = least if view.begin is None else math.ceil(view.begin * unit)
    last = X_AT_MOST if view.end is None else math.floor(view.end * unit)
    return SeriesRange(
        axis=view.x,
        first=min(max(first, least), X_AT_MOST),
        last=min(max(last, least), X_AT_MOST),
        at_most=POINTS,
    )
