"""Export of a run's served and dropped items to an archive, one row group at a time.

Pages are read by id in separate statements: no transaction stays open, so nothing else has to
wait. Items that are settled behind the current page are not in the file.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.db import connection

from buffer.archive.queries import COLUMNS, ArchiveWriter
from buffer.archive.rules import Window
from buffer.archive.services.marks import marks_of_run
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.items.services import TABLES
from buffer.payloads.services.contents import readable_contents
from runs.lifecycle.models import Run
from web.disk_space import check_disk
from web.sql import filled, statements_of

ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
ROW_GROUP_ROWS: Final = 4096
_PAGE: Final = 512

_OF_RUN: Final = (
    *("name", "kind", "config", "preset", "created_at", "batch_size", "max_token_len"),
    *("wandb_group", "wandb_project", "epoch", "policy_step", "served_steps", "lenient"),
)
_OF_ENVIRONMENT: Final = (
    *("env_id", "desired_name", "wandb_name", "spec", "weight", "max_token_length"),
    *("group_size", "min_batch_allocation"),
)
# Archive columns that are not columns of the item's table.
_JOINED: Final = {
    "item_id": "i.id",
    "served_step": "b.ordinal",
    "served_epoch": "b.epoch",
    "served_policy_step": "b.policy_step",
}
SQL: Final = statements_of("buffer")

Progress = Callable[["ExportReport"], None]


@dataclass(slots=True)
class ExportReport:
    """Counts of the items in an archive, and of items of its window that were left out."""

    items: int = 0
    payload_bytes: int = 0
    row_groups: int = 0
    without_bytes: int = 0
    """Items dropped on arrival, whose bytes were never stored."""
    expired: int = 0
    lost: int = 0
    corrupt: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    item_id: int
    values: tuple[Any, ...]
    size_bytes: int


def source_of(run: Run) -> str:
    """Return a globally unique identifier of a run."""
    text = f"{run.name}|{run.pk}|{run.created_at.isoformat()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def export_run(
    *,
    run: Run,
    window: Window,
    path: Path,
    now: datetime,
    on_progress: Progress = lambda _: None,
) -> ExportReport:
    """Write the archive of a run in bounded memory.

    Args:
        run: The run.
        window: Selection of its items.
        path: The file; it appears when it is complete.
        now: Time of the export, stored in the file.
        on_progress: Called after each row group.

    Raises:
        ArchiveUnavailable: If pyarrow is missing.
        OSError: If the file cannot be written.
        DiskFull: If free disk space falls below the minimum; no file appears.
    """
    kind, report = kind_of(run), ExportReport()
    about = {
        "source": source_of(run),
        "run": {name: getattr(run, name) for name in _OF_RUN},
        "environments": list(run.environments.order_by("env_id").values(*_OF_ENVIRONMENT)),
        "window": asdict(window),
        "marks": marks_of_run(run) if kind is ItemKind.GROUPS else {},
        "exported_at": now,
    }
    with ArchiveWriter(path, kind=kind, about=about) as archive:
        for rows in _row_groups(_settled(run, kind, window, report)):
            found = readable_contents(kind, [row.item_id for row in rows])
            whole = []
            for row in rows:
                stored = found.get(row.item_id)
                if stored is None:
                    report.lost += 1
                elif not stored.is_intact():
                    report.corrupt += 1
                else:
                    whole.append(row)
            if not whole:
                continue
            check_disk()
            archive.write([(*row.values, found[row.item_id].content) for row in whole])
            report.items += len(whole)
            report.payload_bytes += sum(row.size_bytes for row in whole)
            report.row_groups += 1
            del found
            on_progress(report)
    return report


def _settled(run: Run, kind: ItemKind, window: Window, report: ExportReport) -> Iterator[_Row]:
    """Yield the window's items with stored bytes; count the others."""
    conditions: dict[str, Any] = {
        "run": run.pk,
        "after": 0,
        "states": [str(state) for state in window.states],
        "first": window.first_step,
        "last": window.last_step,
        "envs": list(window.env_ids or []),
        "limit": _PAGE,
    }
    names = [name for name in COLUMNS[kind] if name != "payload"]
    columns = ", ".join(_JOINED.get(name, f"i.{name}") for name in names)
    in_envs = kind is ItemKind.GROUPS and window.env_ids is not None
    inside = SQL["archive_window"] + (" AND i.env_id = ANY(%(envs)s)" if in_envs else "")
    table = TABLES[kind]
    with connection.cursor() as cursor:
        cursor.execute(filled(SQL["count_without_bytes"], table=table, inside=inside), conditions)
        report.without_bytes = cursor.fetchone()[0]
    query = filled(SQL["archived_items"], columns=columns, table=table, inside=inside)
    while True:
        with connection.cursor() as cursor:
            cursor.execute(query, conditions)
            page = cursor.fetchall()
        if not page:
            return
        for *values, size_bytes, is_expired in page:
            if is_expired:
                report.expired += 1
            else:
                yield _Row(values[0], tuple(values), size_bytes)
        conditions["after"] = page[-1][0]


def _row_groups(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    group: list[_Row] = []
    total = 0
    for row in rows:
        if group and (total + row.size_bytes > ROW_GROUP_BYTES or len(group) >= ROW_GROUP_ROWS):
            yield group
            group, total = [], 0
        group.append(row)
        total += row.size_bytes
    if group:
        yield group
