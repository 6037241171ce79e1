"""Data of simulated runs is served only if the run's settings allow it."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from buffer import jobs
from config.metrics import metrics_text
from rolldeck.followers import Followed
from rollouts.control.services.reconciliation import reconcile
from runs.lifecycle.models.runs import Run
from tests.api.buffer.fragment_api import Api
from tests.api.buffer.outside_run import OutsideRun, make_mixed_run
from tests.buffer_factories import fragment
from tests.factories import bearer, make_run
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import NOON

pytestmark = pytest.mark.django_db(transaction=True)
BATCHES = "/api/v1/runs/words/batches"


@pytest.fixture
def outside() -> OutsideRun:
    """A simulated run with one queued batch."""
    found = make_mixed_run()
    Run.objects.update(is_simulated=True)
    for mark in (1, 2):
        found.push(mark=mark)
    return found


def serve(outside: OutsideRun, *, serves: bool = True) -> None:
    changed = outside.operator.patch(
        "/api/v1/runs/words", {"serves_simulated": serves}, content_type="application/json"
    )
    assert changed.status_code == 200, changed.content
    assert changed.json()["serves_simulated"] is serves


def followed(outside: OutsideRun) -> Any:
    path = "/api/v1/runs/words/followers/harvest"
    outside.client.put(path, data=b"{}", content_type="application/json", headers=outside.trainer)
    return outside.post(f"{path}/fetch", {}, **outside.trainer)


def group_content(outside: OutsideRun) -> Any:
    [row, _] = outside.get("groups")["results"]
    path = f"/api/v1/runs/words/groups/{row['id']}/content"
    assert outside.operator.get(path).status_code == 200  # people may inspect simulated data
    return outside.client.get(path, headers=outside.trainer)


def exported(outside: OutsideRun, form: str = "jsonl") -> Any:
    path = f"/api/v1/runs/words/groups/export?form={form}"
    return outside.client.get(path, headers=outside.trainer)


def archive_path(outside: OutsideRun) -> str:
    made = outside.operator.post(
        "/api/v1/runs/words/archives", {}, content_type="application/json"
    ).json()
    jobs.run_archive_jobs()
    return f"/api/v1/runs/words/archives/{made['id']}/file"


def archived(outside: OutsideRun) -> Any:
    return outside.client.get(archive_path(outside), headers=bearer("admin"))


ROUTES: dict[str, Callable[[OutsideRun], Any]] = {
    "batch": lambda run: run.post(f"{BATCHES}/next", {}, **run.trainer),
    "shard": lambda run: run.post(f"{BATCHES}/next", {"rank": 1, "world_size": 2}, **run.trainer),
    "follower": followed,
    "content": group_content,
    "export": exported,
    "archive": archived,
}


@pytest.mark.parametrize("route", ROUTES)
def test_simulated_data_is_refused_to_trainers(outside: OutsideRun, route: str) -> None:
    refused = ROUTES[route](outside)

    assert refused.status_code == 409
    assert refused.json()["code"] == "simulated_not_served"
    assert "set `serves_simulated` with PATCH /api/v1/runs/words" in refused.json()["detail"]
    assert outside.get("ledger")["groups"]["queued"] == 2


@pytest.mark.parametrize("path", ["batch", "latest_example"])
def test_atropos_routes_refuse_in_their_own_format(outside: OutsideRun, path: str) -> None:
    refused = outside.client.get(f"/atropos/words/{path}", headers=outside.trainer)

    assert refused.status_code == 409
    assert list(refused.json()) == ["detail"]
    assert "the data of words is simulated" in refused.json()["detail"]


@pytest.mark.parametrize("route", ["batch", "follower", "content", "export", "archive"])
def test_the_setting_serves_simulated_data(outside: OutsideRun, route: str) -> None:
    serve(outside)

    answer = ROUTES[route](outside)
    answer.close()
    assert answer.status_code == 200


def downloaded(answer: Any) -> bytes:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content) if answer.streaming else bytes(answer.content)


@pytest.mark.parametrize("is_simulated", [True, False])
def test_exports_to_people_mark_simulated_groups(outside: OutsideRun, is_simulated: bool) -> None:
    Run.objects.update(is_simulated=is_simulated)
    path = "/api/v1/runs/words/groups/export"

    lines = downloaded(outside.operator.get(path)).splitlines()
    table = pq.read_table(BytesIO(downloaded(outside.operator.get(f"{path}?form=parquet"))))

    assert [json.loads(line)["is_simulated"] for line in lines] == [is_simulated] * 2
    assert table["is_simulated"].to_pylist() == [is_simulated] * 2
    assert all(json.loads(group)["tokens"] for group in table["group"].to_pylist())


@pytest.mark.parametrize("is_simulated", [True, False])
def test_archives_mark_simulated_data_in_their_metadata(
    outside: OutsideRun, is_simulated: bool
) -> None:
    Run.objects.update(is_simulated=is_simulated)

    content = downloaded(outside.operator.get(archive_path(outside)))

    metadata = pq.read_schema(BytesIO(content)).metadata
    assert json.loads(metadata[b"rolldeck.is_simulated"]) is is_simulated


def test_followers_mark_simulated_data_that_the_run_serves(outside: OutsideRun) -> None:
    serve(outside)
    assert Followed.decode(downloaded(followed(outside))).head.is_simulated

    Run.objects.update(is_simulated=False)
    assert not Followed.decode(downloaded(followed(outside))).head.is_simulated


def test_a_report_of_a_simulated_run_is_marked_and_served_to_tokens(outside: OutsideRun) -> None:
    answer = outside.client.get("/api/v1/runs/words/bundle", headers=outside.trainer)

    page = downloaded(answer).decode()
    assert "<title>words · simulated · Rolldeck</title>" in page
    assert '"is_simulated":true' in page


def test_a_leased_batch_cannot_be_fetched_again_after_the_setting_changed(
    outside: OutsideRun,
) -> None:
    serve(outside)
    batch = outside.next()
    serve(outside, serves=False)

    again = outside.client.get(f"{BATCHES}/{batch['batch']['id']}", headers=outside.trainer)
    assert again.json()["code"] == "simulated_not_served"
    assert outside.ack(batch).status_code == 200


def test_simulated_fragments_are_refused_too() -> None:
    run = make_run(name="carts", epoch=1, policy_step=0, batch_size=1, is_simulated=True)
    api = Api(run)
    api.register()
    api.push(fragment())

    for path, content in (("/batches/next", {}), ("/fragments/fetch", {"count": 1})):
        assert api.post(path, content).json()["code"] == "simulated_not_served"


@pytest.mark.parametrize("has_expired_batch", [False, True])
def test_a_draining_run_drops_withheld_data(outside: OutsideRun, has_expired_batch: bool) -> None:
    if has_expired_batch:
        serve(outside)
        outside.next()
        outside.lapse()
        serve(outside, serves=False)
    outside.operator.post("/api/v1/runs/words/drain", {}, content_type="application/json")
    jobs.reclaim_expired_leases()
    reconcile(run_id=outside.run.pk, cluster=FakeCluster(), platform_url="http://deck", now=NOON)

    assert Run.objects.get().status == "completed"
    assert outside.get("ledger")["groups"]["dropped"] == {"drained": 2}


def test_the_diagnosis_names_withheld_data(outside: OutsideRun) -> None:
    diagnosis = outside.get("pipeline")["diagnosis"]
    assert diagnosis["kind"] == "not_served"
    assert "`serves_simulated` is false" in diagnosis["evidence"][1]

    serve(outside)
    assert outside.get("pipeline")["diagnosis"]["kind"] == "no_trainer"


def test_metrics_mark_simulated_runs(outside: OutsideRun) -> None:
    make_run(name="real")

    scraped = metrics_text().decode()
    assert 'rolldeck_is_simulated{run="words"} 1.0' in scraped
    assert 'rolldeck_is_simulated{run="real"} 0.0' in scraped
