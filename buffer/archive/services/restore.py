"""Restoration of an archive into a run, as newly accepted items.

The file is read twice: first to check every row, then to store the rows, one row group per
transaction. A row is identified by its origin (its run and its id there), so an archive that is
restored twice, or two archives that overlap, are stored once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.db import transaction
from isal.isal_zlib import crc32
from msgspec.structs import replace

from buffer.archive.queries import ArchiveReader, ArchiveUnreadable
from buffer.archive.rules import Window
from buffer.archive.services.marks import checked_marks, restore_marks
from buffer.ingest.schemas.bodies import InvalidBody, InvalidPush
from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_fragment, decode_push
from buffer.ingest.services.arrivals import Arrival
from buffer.ingest.services.pushes import RunNotAccepting, new_group_ids
from buffer.ingest.services.storage import (
    PushRows,
    changes_of,
    insert_bytes,
    insert_fragments,
    insert_pushes,
    written,
)
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.items.services import TABLES
from buffer.payloads.services.contents import MSGPACK_CODEC
from rolldeck.wire import Fragment, GroupPush, encode
from runs.events.services import record_event
from runs.lifecycle.models import Environment, Run, RunKind
from runs.lifecycle.queries import RunNotFound, run_named
from runs.lifecycle.rules import BOOTSTRAP_STEP, TERMINAL, version_in_force
from runs.lifecycle.services.lifecycle import create_and_start
from runs.lifecycle.services.registry import register_environment
from web.disk_space import check_disk
from web.live.announcements import announce
from web.rules.errors import Conflict
from web.sql import cursor, filled, statements_of

SQL: Final = statements_of("buffer")

Progress = Callable[["RestoreReport"], None]


class WrongRunForArchive(Conflict):
    """The run accepts another kind of items than the archive holds."""

    code = "wrong_kind"
    title = "Wrong kind of run"


@dataclass(slots=True)
class RestoreReport:
    """Counts of an archive's rows by outcome."""

    run_id: int
    stored: int = 0
    known: int = 0
    """Rows stored by an earlier restoration."""
    left_out: int = 0
    """Rows outside the requested window."""


@dataclass(frozen=True, slots=True)
class _Found:
    origin: str
    content: bytes
    codec: str
    item: Group | Fragment


def restore_archive(
    *,
    path: Path,
    run_name: str,
    window: Window,
    actor: str,
    now: datetime,
    on_progress: Progress = lambda _: None,
) -> RestoreReport:
    """Queue the rows of an archive in a run; the run is created if it does not exist.

    Args:
        path: The archive.
        run_name: Name of the run.
        window: Selection of rows; steps are those of the archive's run.
        actor: Identity of the requester.
        now: Current time.
        on_progress: Called after each row group.

    Raises:
        ArchiveUnavailable: If pyarrow is missing.
        ArchiveUnreadable: If the file is damaged or holds invalid items; nothing is stored.
        RunNotAccepting: If the run has ended.
        WrongRunForArchive: If the run accepts the other kind of items.
    """
    archive = ArchiveReader(path)
    try:
        source = archive.about("source")
        # The rules of a push, for every row before one is stored.
        for number, rows in enumerate(archive.row_groups()):
            for place, row in enumerate(rows):
                where = f"row {place} of row group {number} (item {row['item_id']})"
                _decoded(archive.kind, row, where=where, source=source)
            del rows
        marks = checked_marks(archive.about("marks") if archive.has("marks") else {})
        run = _run(archive, run_name, actor=actor, now=now)
        report = RestoreReport(run_id=run.pk)
        for rows in archive.row_groups():
            selected = [row for row in rows if window.holds(row)]
            report.left_out += len(rows) - len(selected)
            _store(run, archive, selected, report, now=now)
            del rows, selected
            on_progress(report)
        restore_marks(run=run, source=source, marks=marks, actor=actor, now=now)
    finally:
        archive.close()
    was = archive.about("run").get("name")
    record_event(
        run_id=run.pk,
        kind="archive_restored",
        message=f"{report.stored} items restored from {was}, {report.known} already present",
        actor=actor,
        details={"stored": report.stored, "known": report.known, "from": was},
        now=now,
    )
    return report


def _decoded(kind: ItemKind, row: dict[str, Any], *, where: str, source: str) -> _Found:
    content, codec = row["payload"], row["codec"]
    if content is None or row["item_id"] is None:
        raise ArchiveUnreadable(f"{where} has no payload or no id")
    if crc32(content) != row["crc32"]:
        raise ArchiveUnreadable(f"{where} is damaged: its checksum does not match")
    item: Group | Fragment
    try:
        if kind is ItemKind.FRAGMENTS:
            item = decode_fragment(content, where)
        elif codec == MSGPACK_CODEC:
            item = decode_push(encode(GroupPush(groups=[content])), lenient=True)[0]
        else:
            item = decode_group(content, lenient=True)
    except (InvalidBody, InvalidPush) as error:
        raise ArchiveUnreadable(f"{where} is invalid: {error}") from error
    origin = f"{source}:{row['item_id']}"
    return _Found(origin, content, codec, item)


@transaction.atomic
def _run(archive: ArchiveReader, name: str, *, actor: str, now: datetime) -> Run:
    """Return the run, created if it does not exist.

    A new run waits for its trainer, or is a draft with the archived fleet configuration.
    """
    try:
        run = run_named(name)
    except RunNotFound:
        config = archive.about("run").get("config") or None
        if config:  # an option of earlier versions
            config["buffer"].pop("serves_simulated", None)
        is_fleet = bool(config) or archive.kind is ItemKind.FRAGMENTS
        run = create_and_start(
            name=name,
            kind=RunKind.FLEET if is_fleet else RunKind.OUTSIDE,
            config=config,
            start=not is_fleet,
            actor=actor,
            now=now,
        )
        for environment in archive.about("environments"):
            del environment["env_id"], environment["wandb_name"]
            register_environment(run_id=run.pk, now=now, **environment)
        return run
    if kind_of(run) is not archive.kind:
        raise WrongRunForArchive(f"{name} does not accept the {archive.kind} of this archive")
    if run.status in TERMINAL:
        raise RunNotAccepting(f"{run.name} is {run.status} and accepts no data")
    return run


@transaction.atomic
def _store(
    run: Run,
    archive: ArchiveReader,
    rows: list[dict[str, Any]],
    report: RestoreReport,
    *,
    now: datetime,
) -> None:
    """Store the rows of one row group; skip rows that the run already has."""
    source = archive.about("source")
    found = [_decoded(archive.kind, row, where="a row", source=source) for row in rows]
    with cursor() as sql:
        sql.execute(SQL["lock_restores"], [run.pk])
        stored = sql.execute(
            filled(SQL["known_origins"], table=TABLES[archive.kind]).encode(),
            [run.pk, [one.origin for one in found]],
        ).fetchall()
    known = {origin for (origin,) in stored}
    fresh = [one for one in found if one.origin not in known]
    report.known += len(found) - len(fresh)
    if not fresh:
        return
    check_disk()
    if archive.kind is ItemKind.GROUPS:
        _insert_groups(run, archive, fresh, now=now)
    else:
        _insert_fragments(run, source, fresh, now=now)
    report.stored += len(fresh)
    announce(run.pk, "queue", "ledger")


def _insert_groups(run: Run, archive: ArchiveReader, found: list[_Found], *, now: datetime) -> None:
    """Queue groups under the run's current policy version."""
    version = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    ours = dict(Environment.objects.filter(run=run).values_list("env_id", "desired_name"))
    same = {
        env["env_id"]
        for env in archive.about("environments")
        if ours.get(env["env_id"]) == env["desired_name"]
    }
    arrivals = []
    for one, item_id in zip(found, new_group_ids(len(found)), strict=True):
        assert isinstance(one.item, Group)  # noqa: S101 guaranteed by the archive's kind
        env_id = one.item.env_id if one.item.env_id in same else None
        group = replace(one.item, content=one.content, codec=one.codec, env_id=env_id)
        arrivals.append(Arrival.of_group(group, version, item_id=item_id, origin=one.origin))
    _write(arrivals)
    rows = PushRows(
        arrivals=arrivals,
        receipts=[],
        changes=changes_of(run, ItemKind.GROUPS, arrivals),
        producer=f"restored from {archive.about('run').get('name')}",
        now=now,
    )
    insert_pushes(run.pk, [rows])
    insert_bytes(ItemKind.GROUPS, arrivals)


def _insert_fragments(run: Run, source: str, found: list[_Found], *, now: datetime) -> None:
    """Queue fragments under the run's current policy version.

    Their original versions belong to another run's policy; their arrays keep them.
    """
    epoch, version = max(run.epoch, 1), max(run.policy_step, BOOTSTRAP_STEP)
    arrivals = []
    for one in found:
        assert isinstance(one.item, Fragment)  # noqa: S101 guaranteed by the archive's kind
        fragment = replace(
            one.item,
            slot=f"{one.item.slot[:103]}~{source}",
            epoch=epoch,
            version_min=version,
            version_max=version,
        )
        arrivals.append(Arrival.of_fragment(fragment, one.content, origin=one.origin))
    _write(arrivals)
    insert_fragments(run, arrivals, now=now)
    if any(arrival.item_id is None for arrival in arrivals):
        raise ArchiveUnreadable("two fragments of the archive have the same slot and number")
    insert_bytes(ItemKind.FRAGMENTS, arrivals)
    changes_of(run, ItemKind.FRAGMENTS, arrivals).write()


def _write(arrivals: list[Arrival]) -> None:
    """Write the bytes, items of the same codec into one object."""
    for codec in sorted({arrival.codec for arrival in arrivals}):
        written([arrival for arrival in arrivals if arrival.codec == codec])
