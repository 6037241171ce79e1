"""Delete runs: hidden at once, their rows and bytes removed in the background.

A request marks the run as deleted, which frees its name, and stores a :class:`RunDeletion`. A job
then removes the rows of all tables that belong to the run, rows before those that they refer to,
at most :data:`ROWS_AT_ONCE` in a transaction, and the run's row last. A process may die at any
point: a transaction removes bytes before the rows that refer to them, so the next pass finds the
rows and continues. The tables and their order come from the foreign keys of the models.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, Final

from django.apps import apps
from django.core.files.storage import default_storage
from django.db import IntegrityError, OperationalError, connection, models, transaction
from django.db.models import F, Sum

from runs.events.services import record_event
from runs.lifecycle.models import Run, RunDeletion
from runs.lifecycle.queries import readable_run
from runs.lifecycle.rules import ACTIVE
from runs.lifecycle.services.lifecycle import notify
from web.live.announcements import announce
from web.rules.errors import ApiError, Conflict
from web.sql import one_process

ROWS_AT_ONCE: Final = 2_000
"""Maximum rows of one transaction."""
PASS_SECONDS: Final = 20.0
"""Time after which a pass ends; the next one continues."""
_log = logging.getLogger(__name__)


class RunActive(Conflict):
    """The run is active, so it cannot be deleted."""

    code = "run_active"
    title = "The run is active"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """Bytes outside of a model's table that belong to its rows.

    Attributes:
        remove: Removes the bytes of rows, given the run's id and theirs; returns their size. Bytes
            that are already removed are no error. Raises :class:`RemovalPostponed` to be called
            again later.
        size_bytes: Returns the size of all bytes of a run.
    """

    remove: Callable[[int, Sequence[Any]], int]
    size_bytes: Callable[[int], int]


def remove_files(rows: "models.QuerySet[Any]") -> int:
    """Remove the files of rows with `file` and `size_bytes`; return their size."""
    size = 0
    for name, size_bytes in rows.exclude(file="").values_list("file", "size_bytes"):
        default_storage.delete(name)
        size += size_bytes
    return size


def size_of_files(rows: "models.QuerySet[Any]") -> int:
    """Return the size of the files of rows with `file` and `size_bytes`."""
    return int(rows.exclude(file="").aggregate(size=Sum("size_bytes"))["size"] or 0)


class RemovalPostponed(Exception):
    """The bytes cannot be removed at present; the next pass repeats the removal."""


STORED: Final[dict[type[models.Model], StoredBytes]] = {}
"""Bytes by model, from the apps above (:mod:`config.readers`)."""
SPLITS: Final[dict[type[models.Model], str]] = {}
"""Conditions of the partial indexes that find the rows of a run, from the apps above."""
COUNTED: Final[set[type[models.Model]]] = set()
"""Models of items, from the apps above."""
COUNT_ITEMS: Final[list[Callable[[int], int]]] = []
"""Functions that count the items of a run, from the apps above."""
BLOCKERS: Final[list[Callable[[int], str]]] = []
"""Functions that return why a run cannot be deleted yet, or an empty text."""
AT_ONCE: Final = ("ApiToken", "Alert", "AlertRule", "AlertSnooze", "SavedObject")
"""Models of this app whose rows a request removes, because lists of all runs show them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionSize:
    """Items and stored bytes that the deletion of a run removes."""

    items: int
    size_bytes: int


def deletion_size(run: Run) -> DeletionSize:
    """Return what the deletion of a run would remove."""
    return DeletionSize(
        items=sum(count(run.pk) for count in COUNT_ITEMS),
        size_bytes=sum(stored.size_bytes(run.pk) for stored in STORED.values()),
    )


def refusal(run: Run) -> str:
    """Return why a run cannot be deleted now; empty if it can."""
    if run.archived_at is None and run.status in ACTIVE:
        return f"{run.name} is {run.status}: stop or kill it before you delete it"
    return next((why for find in BLOCKERS if (why := find(run.pk))), "")


@transaction.atomic
def delete_run(*, address: str, actor: str, reason: str, now: datetime) -> RunDeletion:
    """Delete a run that is not active; a job removes its rows and bytes.

    The run disappears from all lists with the commit, and its name is free.

    Args:
        address: Address of a current or an archived run.
        actor: Who deletes it.
        reason: Why.
        now: Time of the request.

    Raises:
        RunNotFound: If there is no such run.
        RunActive: If it has not ended, or if its fleet has not.
    """
    # Locked: a concurrent start, or a second deletion, waits for the commit.
    run = Run.objects.select_for_update().filter(pk=readable_run(address).pk).first()
    if run is None:
        run = readable_run(address)  # deleted meanwhile: raises
    if why := refusal(run):
        raise RunActive(why)
    size = deletion_size(run)
    deletion = RunDeletion.objects.create(
        run_number=run.pk,
        run_uid=run.uid,
        name=run.name,
        epoch=run.epoch,
        reason=reason,
        requested_by=actor,
        requested_at=now,
        items=size.items,
        size_bytes=size.size_bytes,
    )
    Run.objects.filter(pk=run.pk).update(
        deleted_at=now, archived_at=run.archived_at or now, is_default=False
    )
    _emit(
        deletion,
        kind="run_deleted",
        message=f"run {run.name} deleted, with {size.items:,} items and {size.size_bytes:,} bytes",
        reason=reason,
        now=now,
    )
    for table in tables():
        if table.model._meta.app_label == "runs" and table.model.__name__ in AT_ONCE:
            while _remove_rows(deletion, table) == ROWS_AT_ONCE:
                pass
    announce(run.pk, "run")
    notify(run.pk)
    return deletion


def remove_deleted_runs(*, clock: Callable[[], datetime]) -> int:
    """Remove rows and bytes of deleted runs, oldest request first; return the rows removed.

    One process at a time works, and for at most :data:`PASS_SECONDS`.
    """
    ends_at = time.monotonic() + PASS_SECONDS
    removed = 0
    with one_process("rolldeck.deletions") as is_exclusive:
        if not is_exclusive:
            return 0
        for deletion in RunDeletion.objects.filter(finished_at=None).order_by("id"):
            problem = ""
            try:
                for rows in _steps(deletion):
                    removed += rows
                    if time.monotonic() >= ends_at:
                        return removed
                _finish(deletion, now=clock())
            except RemovalPostponed as error:
                problem = str(error)
            except (IntegrityError, OperationalError, ApiError, OSError) as error:
                # Another job wrote a row of the run, or storage is down: the next pass continues.
                _log.warning("%s waits for the next pass: %s", deletion, error)
                problem = str(error)[:500]
            RunDeletion.objects.filter(pk=deletion.pk).exclude(problem=problem).update(
                problem=problem
            )
    return removed


def _steps(deletion: RunDeletion) -> Iterator[int]:
    """Remove the rows of all tables in bounded transactions; yield the rows of each."""
    for table in tables():
        _clear_references(deletion, table)
        while count := _remove_rows(deletion, table):
            yield count
            if count < ROWS_AT_ONCE:
                break


@transaction.atomic
def _remove_rows(deletion: RunDeletion, table: "Table") -> int:
    """Remove the next rows of a table, with their bytes; return their number."""
    number = deletion.run_number
    with connection.cursor() as cursor:
        cursor.execute(table.select, {"run": number, "limit": ROWS_AT_ONCE})
        ids = [row[0] for row in cursor.fetchall()]
        if not ids:
            return 0
        stored = STORED.get(table.model)
        size = stored.remove(number, ids) if stored else 0
        cursor.execute(table.delete, {"ids": ids})
    RunDeletion.objects.filter(pk=deletion.pk).update(
        removed_rows=F("removed_rows") + len(ids),
        removed_items=F("removed_items") + (len(ids) if table.model in COUNTED else 0),
        removed_bytes=F("removed_bytes") + size,
    )
    return len(ids)


def _clear_references(deletion: RunDeletion, table: "Table") -> None:
    """Clear references of kept rows to rows that will be removed."""
    with connection.cursor() as cursor:
        for statement in table.clear:
            cursor.execute(statement, {"run": deletion.run_number})


@transaction.atomic
def _finish(deletion: RunDeletion, *, now: datetime) -> None:
    RunDeletion.objects.filter(pk=deletion.pk).update(finished_at=now)
    deletion.refresh_from_db()
    _emit(
        deletion,
        kind="run_removed",
        message=f"all {deletion.removed_rows:,} rows and {deletion.removed_bytes:,} bytes"
        f" of run {deletion.name} removed",
        reason="",
        now=now,
    )


def _emit(deletion: RunDeletion, *, kind: str, message: str, reason: str, now: datetime) -> None:
    """Record an event of the deployment: those of the run are removed with it."""
    record_event(
        run_id=None,
        kind=kind,
        message=message,
        actor=deletion.requested_by if reason else "platform",
        reason=reason,
        details={"run": deletion.name, "run_uid": deletion.run_uid, "deletion": deletion.pk},
        now=now,
    )


# The tables of a run, from the foreign keys of the models.


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with rows of runs.

    Attributes:
        model: Its model.
        select: Statement that finds the keys of the next rows of a run.
        delete: Statement that removes rows by their keys.
        clear: Statements that clear optional references to the rows of a run.
    """

    model: type[models.Model]
    select: str
    delete: str
    clear: tuple[str, ...]


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables of a run's rows, each before those that its rows refer to."""
    members = _members()
    order = TopologicalSorter[type[models.Model]]()
    for model in members:
        order.add(model)
        for key in _keys(model):
            if key.related_model in members and key.related_model is not model:
                order.add(key.related_model, model)
    return tuple(_table(model, members) for model in order.static_order())


def _table(model: type[models.Model], members: set[type[models.Model]]) -> Table:
    name, key = _quoted(model._meta.db_table), _quoted(model._meta.pk.column)
    condition, split = _condition(model, members), SPLITS.get(model)
    parts = [""] if split is None else [f" AND {split}", f" AND NOT ({split})"]
    # Constants of the code, no input: the names of tables and columns.
    return Table(
        model=model,
        select="SELECT * FROM ("
        + " UNION ALL ".join(
            f"(SELECT {key} FROM {name} WHERE ({condition}){part} LIMIT %(limit)s)"
            for part in parts
        )
        + ") AS next LIMIT %(limit)s",
        delete=f"DELETE FROM {name} WHERE {key} = ANY(%(ids)s)",
        clear=tuple(
            f"UPDATE {_quoted(other._meta.db_table)} SET {column} = NULL WHERE {column} IN"
            f" (SELECT {key} FROM {name} WHERE {condition})"
            for other in apps.get_models()
            for reference in _keys(other)
            if reference.related_model is model and not _belongs(reference)
            for column in [_quoted(reference.column)]
        ),
    )


def _condition(model: type[models.Model], members: set[type[models.Model]]) -> str:
    """Return the condition that a row belongs to the run."""
    if model is Run:
        return "id = %(run)s"
    keys = [
        key
        for key in _keys(model)
        if _belongs(key) and key.related_model in members and key.related_model is not model
    ]
    # A row belongs to one run, so one key that it must have is enough, that of the run first.
    required = [key for key in keys if not key.null]
    required.sort(key=lambda key: key.related_model is not Run)
    return " OR ".join(
        f"{_quoted(key.column)} = %(run)s"
        if key.related_model is Run
        else f"{_quoted(key.column)} IN (SELECT {_quoted(key.target_field.column)}"
        f" FROM {_quoted(key.related_model._meta.db_table)}"
        f" WHERE {_condition(key.related_model, members)})"
        for key in required[:1] or keys
    )


def _members() -> set[type[models.Model]]:
    """Return the models whose rows cannot exist without a run's."""
    members: set[type[models.Model]] = {Run}
    while True:
        found = {
            model
            for model in apps.get_models()
            if any(_belongs(key) and key.related_model in members for key in _keys(model))
        }
        if found <= members:
            return members
        members |= found


def _keys(model: type[models.Model]) -> "list[models.ForeignKey[Any, Any]]":
    return [key for key in model._meta.concrete_fields if isinstance(key, models.ForeignKey)]


def _belongs(key: "models.ForeignKey[Any, Any]") -> bool:
    return key.remote_field.on_delete is not models.SET_NULL


def _quoted(name: str | None) -> str:
    return f'"{name}"'
