from datetime import timedelta
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db.models.functions import Now
from django.test import Client

from buffer import jobs
from buffer.archive.models import ArchiveJob
from buffer.archive.services.archive_jobs import archive_file
from buffer.items.models import TrajectoryGroup
from buffer.payloads.services.partitions import clear_current_segment
from runs.lifecycle.models import Run
from tests.buffer_factories import REGISTRATION, body, group
from tests.factories import bearer, make_run

pytestmark = pytest.mark.django_db(transaction=True)


class Api:
    """Archives of a run that has served four groups, as an operator uses them."""

    def __init__(self) -> None:
        self.client = Client()
        self.headers = bearer("admin")

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1/runs/{path}", headers=self.headers)

    def post(self, path: str, content: Any, **headers: str) -> Any:
        return self.client.post(
            f"/api/v1/runs/{path}",
            data=body(content),
            content_type="application/json",
            headers=headers or self.headers,
        )

    def archive(self, **window: Any) -> dict[str, Any]:
        response = self.post("words/archives", window)
        assert response.status_code == 202, response.content
        jobs.run_archive_jobs()
        row: dict[str, Any] = self.get(f"words/archives/{response.json()['id']}").json()
        return row


@pytest.fixture
def api() -> Api:
    clear_current_segment()
    make_run(name="words", kind="outside")
    client = Client()
    base = "/atropos/words"
    client.post(f"{base}/register", data=body(REGISTRATION), content_type="application/json")
    for mark in range(4):
        content = body(group(sequences=4, mark=mark))
        client.post(f"{base}/scored_data", data=content, content_type="application/json")
    for _ in range(5):
        response = client.get(f"{base}/batch")
        if response.streaming:
            b"".join(response)
    TrajectoryGroup.objects.filter(state="leased").update(state="served")
    return Api()


def test_an_archive_is_requested_written_and_downloaded(api: Api) -> None:
    row = api.archive(steps="2:3", states=["served"])

    assert (row["state"], row["has_file"], row["report"]["items"]) == ("done", True, 2)
    assert row["window"]["first_step"] == 2
    response = api.get(f"words/archives/{row['id']}/file")
    content = b"".join(response) if response.streaming else response.content
    assert pq.read_table(BytesIO(content))["served_step"].to_pylist() == [2, 3]
    assert response["Content-Disposition"] == f'attachment; filename="words-{row["id"]}.parquet"'
    assert [row["id"] for row in api.get("words/archives").json()["results"]] == [row["id"]]
    kinds = [event["kind"] for event in api.get("words/events").json()["results"]]
    assert "archive_export_done" in kinds


def test_an_archive_is_restored_into_another_run(api: Api) -> None:
    row = api.archive()
    make_run(name="again", kind="outside")

    accepted = api.post("again/restorations", {"archive": row["id"], "steps": "1:3"})
    jobs.run_archive_jobs()

    assert accepted.status_code == 202
    done = api.get(f"again/archives/{accepted.json()['id']}").json()
    assert (done["state"], done["report"]["stored"], done["report"]["left_out"]) == ("done", 3, 1)
    assert TrajectoryGroup.objects.filter(run__name="again", state="queued").count() == 3


def test_a_missing_archive_file_is_refused_with_its_code(api: Api) -> None:
    archive = api.post("words/archives", {}).json()

    early = api.get(f"words/archives/{archive['id']}/file")
    again = api.post("words/restorations", {"archive": archive["id"]})

    assert (early.status_code, early.json()["code"]) == (409, "archive_not_ready")
    assert (again.status_code, again.json()["code"]) == (409, "archive_not_ready")
    assert api.get("words/archives/999").status_code == 404
    assert api.post("words/restorations", {"archive": 999}).status_code == 404


@pytest.mark.parametrize(
    ("window", "field"),
    [
        ({"steps": "3:1"}, "steps"),
        ({"steps": "one"}, "steps"),
        ({"states": ["queued"]}, "states[0]"),
        ({"env_ids": [-1]}, "env"),
        ({"what": 1}, "what"),
    ],
)
def test_an_invalid_window_is_refused_with_its_field(
    api: Api, window: dict[str, Any], field: str
) -> None:
    response = api.post("words/archives", window)

    assert response.status_code == 400
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert not ArchiveJob.objects.exists()


def test_a_failed_job_has_a_reason_and_blocks_no_other(api: Api) -> None:
    row = api.archive()
    make_run(name="carts")

    restoration = api.post("carts/restorations", {"archive": row["id"]}).json()
    second = api.archive()

    failed = api.get(f"carts/archives/{restoration['id']}").json()
    assert (failed["state"], second["state"]) == ("failed", "done")
    assert "carts does not accept the groups" in failed["error"]


def test_a_job_of_a_killed_process_is_retried(api: Api) -> None:
    archive = api.post("words/archives", {}).json()
    ArchiveJob.objects.update(state="working")

    jobs.run_archive_jobs()

    assert api.get(f"words/archives/{archive['id']}").json()["state"] == "done"


def test_a_token_of_one_run_reads_no_archive_of_another(api: Api) -> None:
    row = api.archive()
    other = make_run(name="other", kind="outside")

    response = api.post("other/restorations", {"archive": row["id"]}, **bearer("admin", run=other))

    assert response.status_code == 404
    assert Run.objects.get(name="other").archive_jobs.count() == 0


def test_a_deleted_archive_is_listed_without_a_file(api: Api) -> None:
    row = api.archive()
    path = f"words/archives/{row['id']}"
    file = archive_file(ArchiveJob.objects.get(pk=row["id"]))

    deleted = api.client.delete(f"/api/v1/runs/{path}", headers=api.headers).json()

    assert (deleted["state"], deleted["has_file"], deleted["report"]) == (
        "expired",
        False,
        row["report"],
    )
    assert not file.exists()
    assert api.get(f"{path}/file").status_code == 409
    assert api.client.delete(f"/api/v1/runs/{path}", headers=api.headers).status_code == 409


def test_an_archive_that_is_being_restored_is_not_deleted(api: Api) -> None:
    row = api.archive()
    make_run(name="again", kind="outside")
    assert api.post("again/restorations", {"archive": row["id"]}).status_code == 202

    refused = api.client.delete(f"/api/v1/runs/words/archives/{row['id']}", headers=api.headers)

    assert (refused.status_code, refused.json()["code"]) == (409, "archive_not_ready")
    jobs.run_archive_jobs()
    assert ArchiveJob.objects.get(verb="restore").state == "done"
    assert (
        api.client.delete(f"/api/v1/runs/words/archives/{row['id']}", headers=api.headers).json()[
            "state"
        ]
        == "expired"
    )


def test_archives_expire_after_the_configured_time(api: Api, settings: Any) -> None:
    old, new = api.archive(), api.archive()
    settings.ROLLDECK_ARCHIVE_SECONDS = 3600
    ArchiveJob.objects.filter(pk=old["id"]).update(finished_at=Now() - timedelta(seconds=3601))

    jobs.run_archive_jobs()

    states = dict(ArchiveJob.objects.values_list("id", "state"))
    assert states == {old["id"]: "expired", new["id"]: "done"}
    assert archive_file(ArchiveJob.objects.get(pk=new["id"])).exists()
