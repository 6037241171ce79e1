"""A deleted run is hidden at once; a job removes its rows and bytes, and no others."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, models, transaction
from rest_framework.test import APIClient

from buffer.archive.models import ArchiveJob
from buffer.archive.services.archive_jobs import archive_file
from buffer.followers.services import Filter, follow
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.models import Payload, Segment
from buffer.payloads.rules import GRACE, RetentionLimits
from buffer.payloads.services.contents import readable_contents
from buffer.payloads.services.partitions import (
    clear_current_segment,
    current_segment,
    rotate_segment,
)
from buffer.payloads.services.partitions import seal as seal_segment
from buffer.payloads.services.retention import apply_retention
from rollouts.control.models import Fleet, Recording
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion, Run, RunDeletion
from runs.lifecycle.queries import RunDeleted, readable_run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services import deletion
from runs.lifecycle.services.deletion import (
    RunActive,
    delete_run,
    deletion_size,
    remove_deleted_runs,
    tables,
)
from runs.live.services import topic_named
from tests import processes
from tests.buffer_factories import body, group
from tests.factories import NOON, bearer, make_outside_run, make_run
from tests.lesson_factories import language, lesson
from tests.run_objects import columns_of, make_objects
from tests.waiting import within
from tests.web_process import ROOT, database_url

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 3_000
"""Tokens of a group whose push becomes an object."""


@pytest.fixture
def client() -> APIClient:
    return APIClient()


@pytest.fixture(autouse=True)
def large_pushes_become_objects(settings: Any) -> Iterator[None]:
    settings.ROLLDECK_INLINE_PAYLOAD_BYTES = 1_000
    clear_current_segment()
    current_segment()
    yield
    clear_current_segment()


def ended(run: Run) -> Run:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    return Run.objects.get(pk=run.pk)


def push(run: Run, *tokens: int) -> list[TrajectoryGroup]:
    groups = [decode_group(body(group(mark=run.pk % 1000 + 1, tokens=size))) for size in tokens]
    for one in groups:
        accept_groups(run=run, groups=[one], producer="tests", now=NOON)
    return list(TrajectoryGroup.objects.filter(run=run).order_by("-id")[: len(tokens)])


def delete(run: Run, reason: str = "wrong data") -> RunDeletion:
    return delete_run(address=run.address, actor="user:ada", reason=reason, now=NOON)


def remove() -> int:
    return remove_deleted_runs(clock=lambda: NOON)


def rows_of(run_id: int) -> dict[str, int]:
    """Return the number of rows of a run by table, of those that have any."""
    counts = {}
    with connection.cursor() as cursor:
        for table in tables():
            cursor.execute(table.select, {"run": run_id, "limit": 10_000})
            counts[table.model.__name__] = len(cursor.fetchall())
    return {name: count for name, count in counts.items() if count}


def objects_on_disk() -> set[str]:
    folder = Path(settings.ROLLDECK_VAR) / "payloads"
    return {str(path.relative_to(folder)) for path in folder.glob("*/*") if path.is_file()}


@pytest.mark.parametrize("kind", ["fleet", "outside", "language"])
def test_all_rows_of_a_run_are_removed_and_no_row_of_another(kind: str) -> None:
    fields: dict[str, Any] = (
        {"config": language({"reverse": lesson()})} if kind == "language" else {}
    )
    given = {"kind": "outside"} if kind == "outside" else fields
    alpha = make_run(name="alpha", status=RunStatus.STOPPED, **given)
    beta = make_run(name="beta", status=RunStatus.STOPPED, **given)
    make_objects(alpha, mark="of-alpha")
    kept = make_objects(beta, mark="of-beta")
    before, others = columns_of(kept), rows_of(beta.pk)
    # A restoration in beta of an archive of alpha stays, without its source.
    export = ArchiveJob.objects.get(run=alpha)
    restored = ArchiveJob.objects.create(
        run=beta, verb="restore", source=export, state="done", window={}, created_at=NOON
    )

    deleted = delete(alpha)
    assert remove() > 20

    assert rows_of(alpha.pk) == {}
    assert not Run.with_deleted.filter(pk=alpha.pk).exists()
    assert columns_of(kept) == before
    restored.refresh_from_db()
    assert restored.source is None
    restored.delete()
    assert rows_of(beta.pk) == others
    deleted.refresh_from_db()
    assert (deleted.finished_at is not None, deleted.problem) == (True, "")
    assert deleted.removed_rows > 20


def test_every_table_with_a_path_to_runs_is_covered() -> None:
    covered = {table.model for table in tables()}
    refer = {
        model
        for model in apps.get_models()
        if any(
            getattr(field, "related_model", None) is Run for field in model._meta.concrete_fields
        )
    }

    assert refer <= covered
    assert [table.model for table in tables()][-1] is Run


def test_the_statements_find_rows_by_an_index() -> None:
    make_objects(make_run(status=RunStatus.STOPPED), mark="x")
    scanned = []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for table in tables():
            cursor.execute(f"EXPLAIN {table.select}", {"run": 1, "limit": 10})
            plan = "\n".join(row[0] for row in cursor.fetchall())
            if "Seq Scan" in plan:
                scanned.append(table.model.__name__)

    # Tables with few rows.
    assert set(scanned) <= {"AlertSnooze", "Annotation"}


def test_a_run_that_shares_a_segment_leaves_the_bytes_of_the_other() -> None:
    alpha = make_outside_run(name="alpha", trainers=())
    beta = make_outside_run(name="beta", trainers=())
    push(alpha, 3, LARGE)
    kept = push(beta, 3, LARGE)
    assert Segment.objects.count() == 1
    contents = readable_contents(ItemKind.GROUPS, [row.pk for row in kept])
    gone = {row.object for row in TrajectoryGroup.objects.filter(run=alpha).exclude(object="")}
    assert gone <= objects_on_disk()
    size = deletion_size(alpha)

    deleted = delete(ended(alpha))
    remove()

    assert readable_contents(ItemKind.GROUPS, [row.pk for row in kept]) == contents
    assert Payload.objects.count() == 1
    assert objects_on_disk() & gone == set()
    assert {row.object for row in kept if row.object} <= objects_on_disk()
    deleted.refresh_from_db()
    assert (size.items, deleted.items, deleted.removed_items) == (2, 2, 2)
    assert size.size_bytes == deleted.size_bytes == deleted.removed_bytes > LARGE


def test_an_object_that_two_runs_share_stays_until_the_last_of_them() -> None:
    alpha = make_outside_run(name="alpha", trainers=())
    beta = make_outside_run(name="beta", trainers=())
    (mine,), (theirs,) = push(alpha, LARGE), push(beta, LARGE)
    # As earlier versions of retention wrote them.
    TrajectoryGroup.objects.filter(pk=mine.pk).update(object=theirs.object, crc32=theirs.crc32)

    delete(ended(alpha))
    remove()

    assert theirs.object in objects_on_disk()
    delete(ended(beta))
    remove()
    assert theirs.object not in objects_on_disk()


def test_retention_moves_the_items_of_two_runs_to_two_objects() -> None:
    alpha = make_outside_run(name="alpha", trainers=())
    beta = make_outside_run(name="beta", trainers=())
    rows = [*push(alpha, LARGE), *push(beta, LARGE)]
    number = current_segment()
    rotate_segment(now=NOON - timedelta(days=30))
    seal_segment(number, now=NOON)
    # Large enough that moving the open items is worth it.
    Segment.objects.filter(number=number).update(size_bytes=10_000_000)

    apply_retention(
        now=NOON + GRACE, limits=RetentionLimits(seconds=0.001, size_bytes=None, items=None)
    )

    for row in rows:
        row.refresh_from_db()
    assert {row.segment for row in rows} != {number}
    assert len({row.object for row in rows}) == 2


def test_files_of_weights_recordings_and_archives_are_removed() -> None:
    run = make_run(status=RunStatus.COMPLETED)
    weights = default_storage.save("weights/1/1-0.safetensors", ContentFile(b"w" * 10))
    film = default_storage.save("recordings/1/film.webm", ContentFile(b"f" * 20))
    PolicyVersion.objects.create(
        run=run,
        epoch=1,
        step=0,
        manifest={},
        sha256="0",
        size_bytes=10,
        file=weights,
        published_at=NOON,
    )
    Recording.objects.create(
        run=run, state="ready", file=film, size_bytes=20, requested_at=NOON, finished_at=NOON
    )
    job = ArchiveJob.objects.create(
        run=run, verb="export", state="done", window={}, created_at=NOON
    )
    path = Path(settings.ROLLDECK_VAR) / "archives" / f"{job.pk}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a" * 30)
    assert archive_file(job) == path
    assert deletion_size(run).size_bytes == 60

    deleted = delete(run)
    remove()

    assert not default_storage.exists(weights)
    assert not default_storage.exists(film)
    assert not path.exists()
    deleted.refresh_from_db()
    assert deleted.removed_bytes == 60


def test_a_killed_job_is_continued_by_the_next(tmp_path: Path) -> None:
    run, other = make_outside_run(trainers=()), make_outside_run(name="beta", trainers=())
    push(run, *[3] * 60)
    kept = push(other, 3)
    deleted = delete(ended(run))
    code = (
        "import time, django; django.setup()\n"
        "from django.utils import timezone\n"
        "from runs.lifecycle.services import deletion\n"
        "deletion.ROWS_AT_ONCE = 1\n"
        "deletion.remove_deleted_runs(clock=timezone.now)\n"
    )
    job = processes.start(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "PYTHONPATH": ".:platform:client",
            "DATABASE_URL": database_url(),
        },
        stdout=subprocess.DEVNULL,
    )

    def begun() -> bool:
        deleted.refresh_from_db()
        return deleted.removed_items > 0

    assert within(60, begun)
    job.send_signal(signal.SIGKILL)
    job.wait(10)
    deleted.refresh_from_db()
    assert (deleted.removed_items < 60, deleted.finished_at) == (True, None)
    assert within(10, lambda: remove() > 0)

    deleted.refresh_from_db()
    assert (deleted.removed_items, deleted.finished_at is not None) == (60, True)
    assert rows_of(run.pk) == {}
    assert set(readable_contents(ItemKind.GROUPS, [kept[0].pk])) == {kept[0].pk}


def test_a_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_outside_run(trainers=())
    push(run, *[3] * 7)
    monkeypatch.setattr(deletion, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(deletion, "PASS_SECONDS", 0.0)

    deleted = delete(ended(run))
    passes = [remove()]
    while passes[-1]:
        assert passes[-1] <= 3
        passes.append(remove())

    deleted.refresh_from_db()
    assert deleted.finished_at is not None
    assert len(passes) > 4


def test_a_backup_delays_the_removal_of_bytes() -> None:
    run = make_outside_run(trainers=())
    push(run, LARGE)
    deleted = delete(ended(run))
    with BackupLock():
        remove()
        deleted.refresh_from_db()
        assert deleted.finished_at is None
        assert deleted.problem == "waits for a backup or for retention to finish"
        assert TrajectoryGroup.objects.filter(run_id=run.pk).exists()

    remove()
    deleted.refresh_from_db()
    assert (deleted.finished_at is not None, deleted.problem) == (True, "")


class BackupLock:
    """The lock of a backup, held by another session."""

    def __enter__(self) -> None:
        self._session = psycopg.connect(database_url(), autocommit=True)
        self._session.execute("SELECT pg_advisory_lock(hashtext('rolldeck.retention'))")

    def __exit__(self, *_: object) -> None:
        self._session.close()


@pytest.mark.parametrize("status", ["queued", "starting", "running", "paused", "draining"])
def test_an_active_run_is_refused(status: str) -> None:
    run = make_run(status=RunStatus(status))

    with pytest.raises(RunActive, match=f"alpha is {status}: stop or kill it before you delete it"):
        delete(run)
    assert Run.objects.filter(pk=run.pk).exists()


def test_a_run_whose_fleet_has_not_ended_is_refused() -> None:
    run = make_run(status=RunStatus.STOPPED)
    Fleet.objects.update_or_create(run=run, defaults={"incarnation": "one", "actor_name": "m"})

    with pytest.raises(RunActive, match="its fleet has not ended on the cluster yet"):
        delete(run)


def test_a_deleted_run_is_hidden_at_once_and_its_name_is_free(client: APIClient) -> None:
    run = make_run(name="alpha", status=RunStatus.FAILED, kind="outside", epoch=3)
    RunEvent.objects.create(run=run, at=NOON, kind="status", actor="user:ada", message="of alpha")
    headers = bearer("admin")

    answer = client.delete("/api/v1/runs/alpha?reason=wrong+data", headers=headers)

    assert answer.status_code == 202, answer.content
    assert answer.json()["run"] == "alpha"
    assert answer.json()["finished_at"] is None
    found = client.get("/api/v1/runs/alpha", headers=headers)
    assert (found.status_code, found.json()["code"]) == (404, "run_deleted")
    assert found.json()["detail"].startswith("run 'alpha' was deleted on ")
    for path in ("/api/v1/runs", "/api/v1/runs?q=is:archived", "/api/v1/alerts"):
        assert "alpha" not in client.get(path, headers=headers).content.decode(), path
    audit = client.get("/api/v1/audit", headers=headers).json()["results"]
    assert [row["kind"] for row in audit if "alpha" in row["message"]] == ["run_deleted"]
    assert [row["reason"] for row in audit if row["kind"] == "run_deleted"] == ["wrong data"]

    made = client.post(
        "/api/v1/runs", {"name": "alpha", "kind": "outside"}, format="json", headers=headers
    )
    assert made.status_code == 201, made.content
    # Later than all versions of the deleted run.
    assert made.json()["epoch"] == 4
    remove()
    assert client.get("/api/v1/runs/alpha", headers=headers).json()["id"] == made.json()["id"]
    (listed,) = client.get("/api/v1/deletions", headers=headers).json()["results"]
    assert listed["finished_at"] is not None


def test_an_archived_run_is_deleted_by_its_address() -> None:
    run = make_run(name="alpha", status=RunStatus.STOPPED, archived_at=NOON)
    current = make_run(name="alpha")

    delete(run)

    assert readable_run("alpha").pk == current.pk
    with pytest.raises(RunDeleted):
        readable_run(f"alpha--{run.pk}")


def test_a_second_deletion_names_the_first() -> None:
    run = make_run(status=RunStatus.STOPPED)
    delete(run)

    with pytest.raises(RunDeleted, match="was deleted on"):
        delete(run)
    assert RunDeletion.objects.count() == 1


def test_an_open_follower_gets_a_clear_error(client: APIClient) -> None:
    run = make_outside_run(name="alpha", trainers=())
    follow(run=run, name="eve", start="earliest", only=Filter(), now=NOON)
    delete(ended(run))

    for method, path, content in (
        ("post", "fetch", {"count": 1, "wait_seconds": 0}),
        ("post", "ack", {"cursor": "0.0"}),
    ):
        answer = getattr(client, method)(
            f"/api/v1/runs/alpha/followers/eve/{path}",
            content,
            format="json",
            headers=bearer("admin"),
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "run_deleted"), answer.content


@pytest.mark.parametrize("query", ["", "?reason=", "?reason=+", "?reason=" + "a" * 2001])
def test_a_reason_is_required(client: APIClient, query: str) -> None:
    make_run(status=RunStatus.STOPPED)

    answer = client.delete(f"/api/v1/runs/alpha{query}", headers=bearer("admin"))

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "reason"


def test_the_preview_has_the_amount_and_the_refusal(client: APIClient) -> None:
    run = make_outside_run(name="alpha", trainers=())
    push(run, 3, 3)

    found = client.get("/api/v1/runs/alpha/deletion", headers=bearer("admin")).json()

    assert found["items"] == 2
    assert found["size_bytes"] == sum(TrajectoryGroup.objects.values_list("size_bytes", flat=True))
    assert found["refusal"] == f"alpha is {run.status}: stop or kill it before you delete it"


def test_a_row_that_another_job_writes_meanwhile_delays_the_end() -> None:
    run = make_run(status=RunStatus.STOPPED)
    deleted = delete(run)
    seen: list[type[models.Model]] = []
    stored = deletion.STORED[Run]

    def write_late(run_id: int, ids: Any) -> int:
        if not seen:
            seen.append(Run)
            RunEvent.objects.create(
                run_id=run_id, at=NOON, kind="status", actor="jobs", message="late"
            )
        return stored.remove(run_id, ids)

    deletion.STORED[Run] = deletion.StoredBytes(remove=write_late, size_bytes=stored.size_bytes)
    try:
        remove()
        # The transaction that failed has removed the late row too; without it the next one ends.
        remove()
    finally:
        deletion.STORED[Run] = stored

    deleted.refresh_from_db()
    assert (deleted.finished_at is not None, deleted.problem) == (True, "")


def test_an_open_page_receives_that_its_run_is_gone() -> None:
    run = make_run(name="alpha", status=RunStatus.STOPPED)
    page = topic_named("run:alpha")
    shown = page.poll(None)
    assert shown is not None
    assert shown.parts["run"].text != b"null"

    delete(run)
    gone = page.poll(None)

    assert gone is not None
    assert {name: part.text for name, part in gone.parts.items()} == {"run": b"null"}
    assert page.poll(None) is None
