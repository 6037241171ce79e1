"""All tables of fleets are read-only in the admin."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rolldeck.operator_requests import LogLines, RecordedEpisode, RecordingUpdate
from rolldeck.wire import SlotReport
from rollouts.control.models import EnvSlot, LogRequest, Recording
from rollouts.control.schemas import RecordingRequest
from rollouts.control.services import worker_requests
from rollouts.control.services.recordings import request_recordings, update_recording
from rollouts.control.services.worker_requests import request_log
from rollouts.metrics.schemas import Metric, MetricsPush
from rollouts.metrics.services.metrics import record_metrics
from runs.access.models import User
from runs.lifecycle.models import Run
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    later,
    launched,
    report,
    window,
    worker,
)
from web.admin.read_only import COUNTED_AT_MOST

pytestmark = pytest.mark.django_db
TABLES = [
    *("fleet", "fleetworker", "workerattempt", "envslot", "episodewindow", "metricsample"),
    "recording",
    "logrequest",
]
HOSTILE = "<script>alert(1)</script> \u202egnp.exe"


def fill(name: str, *, workers: int) -> Run:
    """Create a run with some workers, and as many rows in every other table."""
    run = launched(FakeCluster(), name)
    slots = [SlotReport(slot=0, state="stepping", error=HOSTILE)]
    windows = [window(1.0, 3.0) for _ in range(workers)]
    reports = [worker(index, env_steps=10, slots=slots) for index in range(workers)]
    accept(run, report(run, *reports, episodes=windows))
    samples = [Metric(name="loss", step=step, value=0.5) for step in range(workers)]
    record_metrics(run_id=run.pk, push=MetricsPush(samples=samples), now=NOON)
    for index in range(workers):
        answer_log(run, index)
        recorded(run)
    return run


def answer_log(run: Run, index: int) -> None:
    log_request = request_log(run_id=run.pk, worker=index, slot=None, lines=9, now=NOON)
    answer = LogLines(lines=["the last words", HOSTILE], node="node-a")
    worker_requests.answer_log(
        run_id=run.pk, request=log_request.request, answer=answer, now=later(1)
    )


def recorded(run: Run) -> None:
    request = RecordingRequest(worker=0)
    [row] = request_recordings(run_id=run.pk, body=request, actor="alice", now=NOON)
    media = RecordedEpisode(media_type="text/plain", frames=1, frames_per_second=30.0)
    update = RecordingUpdate(state="ready", worker=0, slot=0, media=media, content=HOSTILE.encode())
    update_recording(run_id=run.pk, recording_id=row.pk, update=update, now=later(1))


@pytest.fixture
def admin() -> Client:
    fill("pole", workers=1)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def statements(admin: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert admin.get(address).status_code == 200
    return [query["sql"] for query in captured.captured_queries]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_can_be_listed_and_searched(admin: Client, table: str) -> None:
    fill("other", workers=1)
    names = {
        query: set(re.findall(r">(pole|other)</a>", listed(admin, table, query)))
        for query in ("", "?q=po", "?q=nobody")
    }

    assert names == {"": {"pole", "other"}, "?q=po": {"pole"}, "?q=nobody": set()}


def listed(admin: Client, table: str, query: str) -> str:
    """Return the table of a list without its filters."""
    page = admin.get(f"/admin/rollouts/{table}/{query}").content.decode()
    return page.partition('id="result_list"')[2].partition("</table>")[0]


@pytest.mark.parametrize("table", TABLES)
def test_no_row_can_be_added(admin: Client, table: str) -> None:
    assert admin.get(f"/admin/rollouts/{table}/add/").status_code == 403


@pytest.mark.parametrize("table", TABLES)
def test_the_statements_of_a_list_do_not_depend_on_its_rows(admin: Client, table: str) -> None:
    address = f"/admin/rollouts/{table}/"
    statements(admin, address)  # fills the caches
    few = statements(admin, address)
    fill("second", workers=5)
    fill("third", workers=5)

    assert len(statements(admin, address)) == len(few)


@pytest.mark.parametrize("table", TABLES)
def test_the_row_count_of_a_list_is_limited_to_its_pages(admin: Client, table: str) -> None:
    sql = statements(admin, f"/admin/rollouts/{table}/?q=pole")
    counts = [
        statement
        for statement in sql
        if "COUNT(" in statement.upper() and f"rollouts_{table}" in statement
    ]

    assert counts
    assert [count for count in counts if f"LIMIT {COUNTED_AT_MOST + 1}" not in count] == []


def test_a_list_shows_its_row_count(admin: Client) -> None:
    fill("second", workers=3)

    page = admin.get("/admin/rollouts/recording/").content.decode()
    text = admin.get("/admin/rollouts/recording/?q=second").content.decode()
    assert re.search(r"\b4\s+recordings", page)
    assert re.search(r"\b3\s+results", text)


def test_times_are_shown_to_the_second(admin: Client) -> None:
    assert "2026-01-01 12:00:00" in listed(admin, "recording", "")


def test_the_end_of_a_log_is_shown_as_text(admin: Client) -> None:
    row = LogRequest.objects.get()
    page = admin.get(f"/admin/rollouts/logrequest/{row.pk}/change/").content.decode()

    assert "the last words" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ⟨U+202E⟩gnp.exe" in page
    assert "<script>alert(1)" not in page


def test_lists_read_no_log(admin: Client) -> None:
    sql = statements(admin, "/admin/rollouts/logrequest/")

    assert [statement for statement in sql if '"rollouts_logrequest"."content"' in statement] == []


def test_a_text_recording_is_shown_and_linked(admin: Client) -> None:
    row = Recording.objects.get()
    page = admin.get(f"/admin/rollouts/recording/{row.pk}/change/").content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt; ⟨U+202E⟩gnp.exe" in page
    address = f"/api/v1/runs/pole/recordings/{row.pk}/content"
    assert f'href="{address}"' in page
    assert b"".join(admin.get(address)) == HOSTILE.encode()


def test_a_fleet_links_to_its_workers_and_they_to_their_slots(admin: Client) -> None:
    slot = EnvSlot.objects.get()
    fleet = admin.get(f"/admin/rollouts/fleet/{slot.worker.fleet_id}/change/").content.decode()
    workers = f"/admin/rollouts/fleetworker/?fleet__id__exact={slot.worker.fleet_id}"
    assert workers in fleet
    assert admin.get(workers).status_code == 200

    one = admin.get(f"/admin/rollouts/fleetworker/{slot.worker_id}/change/").content.decode()
    slots = f"/admin/rollouts/envslot/?worker__id__exact={slot.worker_id}"
    assert slots in one
    assert admin.get(slots).status_code == 200
