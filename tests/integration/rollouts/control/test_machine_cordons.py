"""Cordons of machines: author, affected fleets and remaining workers."""

from typing import Any

import msgspec
import pytest
from django.test import Client
from rest_framework.test import APIClient

from rollouts.control.models import MachineCordon
from rollouts.control.queries.fleets import control_of
from rollouts.control.queries.machines import machine_cordons
from rollouts.control.services.machines import cordon_machine, record_cluster_nodes
from runs.access.models import User
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from tests.factories import bearer, make_user
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    change_status,
    draft,
    later,
    reconcile_run,
    report,
    rolling,
    status,
    worker,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> FakeCluster:
    """A head and two machines, already read by a job."""
    fake_cluster = FakeCluster()
    for name in ("gpu-1", "gpu-2"):
        fake_cluster.join(name, cpus=4.0)
    seen(fake_cluster)
    return fake_cluster


def seen(cluster: FakeCluster, *, minutes: float = 0) -> None:
    record_cluster_nodes(cluster=cluster, address="10.0.0.7:6379", now=later(60 * minutes))


def put(node: str = "gpu-1-id", **body: Any) -> Any:
    return APIClient().put(
        f"/api/v1/cluster/nodes/{node}/cordon",
        msgspec.json.encode(body),
        content_type="application/json",
        headers=bearer("admin"),
    )


def delete(node: str = "gpu-1-id", reason: str = "") -> Any:
    return APIClient().delete(
        f"/api/v1/cluster/nodes/{node}/cordon?reason={reason}", headers=bearer("admin")
    )


def orders(run: Run) -> list[tuple[str, str, str]]:
    return [(machine.node, machine.host, machine.reason) for machine in control_of(run.pk).machines]


def at(node: str, **fields: Any) -> dict[str, Any]:
    return {"node": node, "node_id": f"{node}-id", **fields}


def test_every_fleet_receives_the_cordon_and_the_answer_counts_remaining_workers(
    cluster: FakeCluster,
) -> None:
    pole, walk = rolling(cluster, "pole"), rolling(cluster, "walk")
    for number, run in enumerate((pole, walk)):
        there = [worker(0, **at("gpu-1")), worker(1, incarnation="c", **at(f"gpu-{number + 1}"))]
        accept(run, report(run, *there, sequence=1, node_id="gpu-1-id" if number else "head-id"))
    before = control_of(pole.pk).fingerprint

    answer = put(reason="its fan is loud")

    assert answer.status_code == 200, answer.content
    cordon = answer.json()["cordon"]
    assert (cordon["host"], cordon["reason"]) == ("gpu-1", "its fan is loud")
    assert (cordon["workers"], cordon["managers"]) == (3, ["walk"])
    assert cordon["cordoned_by"]
    assert orders(pole) == orders(walk) == [("gpu-1-id", "gpu-1", "its fan is loud")]
    assert control_of(pole.pk).fingerprint != before

    for run in (pole, walk):
        replaced = [worker(0, state="respawning"), worker(1, incarnation="d", **at("gpu-2"))]
        accept(run, report(run, *replaced, sequence=2, node_id="head-id"))
    [cordon] = machine_cordons()
    assert (cordon.workers, cordon.managers) == (0, [])

    assert delete(reason="mended").json() == {"node": "gpu-1-id", "cordon": None}
    assert orders(pole) == []
    assert control_of(pole.pk).fingerprint == before


def test_workers_whose_code_is_older_are_counted_by_their_host(cluster: FakeCluster) -> None:
    pole = rolling(cluster)
    accept(pole, report(pole, worker(node="gpu-1"), worker(1, node="gpu-2"), sequence=1))

    assert put(reason="hot").json()["cordon"]["workers"] == 1


def test_a_repeated_request_keeps_the_first_actor_and_reason(cluster: FakeCluster) -> None:
    answers = [put(reason=reason).json() for reason in ("hot", "again")]
    assert answers[0] == answers[1]
    for reason in ("cold", "again"):
        assert delete(reason=reason).status_code == 200

    events = RunEvent.objects.filter(kind__contains="cordoned").order_by("id")
    assert [(event.kind, event.reason, event.run_id) for event in events] == [
        ("machine_cordoned", "hot", None),
        ("machine_uncordoned", "cold", None),
    ]
    assert all(event.actor for event in events)
    assert events[0].message == "cordoned machine gpu-1"


@pytest.mark.parametrize(
    ("node", "body", "status_code", "field"),
    [
        ("nobody", {"reason": "hot"}, 404, "node"),
        ("gpu-1-id", {}, 400, "reason"),
        ("gpu-1-id", {"reason": "  "}, 400, "reason"),
        ("gpu-1-id", {"reason": "a" * 2001}, 400, "reason"),
        ("gpu-1-id", {"reason": "hot", "until": "noon"}, 400, "until"),
    ],
)
def test_an_invalid_cordon_is_refused_with_its_field(
    cluster: FakeCluster, node: str, body: dict[str, str], status_code: int, field: str
) -> None:
    answer = put(node, **body)

    assert answer.status_code == status_code
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert not MachineCordon.objects.exists()


def test_a_removed_machine_can_only_be_uncordoned(cluster: FakeCluster) -> None:
    put(reason="hot")
    for name in ("gpu-1", "gpu-2"):
        cluster.lose_node(name)
    seen(cluster, minutes=1)

    assert put("gpu-2-id", reason="hot").status_code == 404
    assert len(machine_cordons()) == 1
    assert delete().status_code == 200
    assert machine_cordons() == []


def test_a_machine_that_returns_with_another_id_is_still_cordoned(cluster: FakeCluster) -> None:
    run = rolling(cluster)
    put(reason="a new disk")
    back = cluster.rows["gpu-1"] | {"node": "another-id"}
    # Ray reports the old node as dead late: the new one exists before.
    cluster.rows["back"] = back
    seen(cluster, minutes=1)
    assert orders(run) == [("gpu-1-id", "gpu-1", "a new disk")]

    cluster.lose_node("gpu-1")
    seen(cluster, minutes=2)

    assert orders(run) == [("another-id", "gpu-1", "a new disk")]
    [cordon] = MachineCordon.objects.all()
    assert cordon.cordoned_by


def test_several_new_nodes_of_a_host_do_not_inherit_a_cordon(cluster: FakeCluster) -> None:
    run = rolling(cluster)
    cluster.rows["sibling"] = cluster.rows["gpu-1"] | {"node": "sibling-id"}
    seen(cluster, minutes=1)
    put(reason="hot")
    cluster.lose_node("gpu-1")
    seen(cluster, minutes=2)
    assert [node for node, *_ in orders(run)] == ["gpu-1-id"]  # its sibling was there before

    for name in ("one", "two"):
        cluster.rows[name] = cluster.rows["sibling"] | {"node": f"{name}-id"}
    seen(cluster, minutes=3)

    assert [node for node, *_ in orders(run)] == ["gpu-1-id"]


def test_a_new_manager_receives_the_cordoned_machines(cluster: FakeCluster) -> None:
    put(reason="hot")

    rolling(cluster)

    assert cluster.orders[-1].closed_nodes == ("gpu-1-id",)


def test_a_run_waits_with_a_reason_while_every_machine_is_cordoned(cluster: FakeCluster) -> None:
    for name in ("head", "gpu-1", "gpu-2"):
        assert put(f"{name}-id", reason="a move").status_code == 200
    run = draft()
    change_status(run, RunVerb.START)

    for seconds in range(0, 120, 5):
        reconcile_run(run, cluster, now=later(seconds))

    assert cluster.orders == []
    assert status(run) is RunStatus.QUEUED
    assert Run.objects.get(pk=run.pk).status_reason == (
        "all 3 machines are cordoned: lift a cordon to start fleets"
    )

    delete("gpu-2-id")
    reconcile_run(run, cluster, now=later(125))
    assert cluster.orders[-1].closed_nodes == ("gpu-1-id", "head-id")


def test_the_cluster_page_shows_the_cordon_to_a_viewer(
    cluster: FakeCluster, client: Client
) -> None:
    put(reason="hot")
    client.force_login(make_user(role="viewer"))

    [cordon] = client.get("/api/v1/cluster").json()["cordons"]

    assert (cordon["node"], cordon["host"], cordon["reason"]) == ("gpu-1-id", "gpu-1", "hot")
    assert (cordon["workers"], cordon["managers"]) == (0, [])


def test_a_cordon_is_found_in_the_admin(cluster: FakeCluster, client: Client) -> None:
    cordon_machine(node="gpu-2-id", reason="hot", actor="user:ada", now=NOON)
    client.force_login(User.objects.create_superuser("bob"))

    page = client.get("/admin/rollouts/machinecordon/?q=gpu-2")

    assert page.status_code == 200
    assert b"user:ada" in page.content
