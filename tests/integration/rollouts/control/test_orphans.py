"""Orphaned managers are found on the cluster and ended."""

from typing import Any

import pytest

from rollouts import jobs
from rollouts.control.rules import ActorState, actor_name, run_of
from rollouts.control.services import reconciliation
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    URL,
    change_status,
    fleet,
    launched,
    reconcile_run,
)

pytestmark = pytest.mark.django_db


def end_orphans(cluster: FakeCluster) -> list[str]:
    return reconciliation.end_orphans(cluster=cluster, platform_url=URL, now=NOON)


def test_the_manager_of_a_run_is_not_ended() -> None:
    cluster = FakeCluster()
    run = launched(cluster)

    assert end_orphans(cluster) == []
    assert list(cluster.actors) == [fleet(run).actor_name]


def test_a_remaining_earlier_manager_is_ended_with_an_event() -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    cluster.actors["rolldeck-pole-0"] = ActorState.ALIVE

    assert end_orphans(cluster) == ["rolldeck-pole-0"]

    [event] = RunEvent.objects.filter(run=run, kind="orphan_ended")
    assert event.level == "warning"
    assert "rolldeck-pole-0" in event.message
    assert list(cluster.actors) == [fleet(run).actor_name]


def test_the_manager_of_a_run_that_has_ended_is_ended_when_the_reconciler_could_not() -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    name = fleet(run).actor_name
    change_status(run, RunVerb.KILL)
    reconcile_run(run, cluster)
    cluster.actors[name] = ActorState.ALIVE

    assert end_orphans(cluster) == [name]
    assert cluster.actors == {}


def test_the_manager_of_a_deleted_run_is_ended() -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    name = fleet(run).actor_name
    Run.objects.filter(pk=run.pk).delete()

    assert end_orphans(cluster) == [name]


def test_managers_of_other_platforms_and_silent_ones_are_not_ended() -> None:
    cluster = FakeCluster()
    cluster.actors = {
        "rolldeck-theirs-1": ActorState.ALIVE,
        "rolldeck-starting-1": ActorState.SILENT,
    }
    cluster.elsewhere = {"rolldeck-theirs-1"}

    assert end_orphans(cluster) == []
    assert len(cluster.actors) == 2


def test_orphans_are_not_searched_before_a_first_launch(settings: Any) -> None:
    settings.RAY_ADDRESS = "not an address"

    assert jobs.end_orphans() == []


def test_orphans_of_an_unreachable_cluster_are_not_ended(settings: Any) -> None:
    settings.RAY_ADDRESS = "127.0.0.1:1"
    launched(FakeCluster())

    assert jobs.end_orphans() == []


@pytest.mark.parametrize("run", ["pole", "a-b-2", "1"])
def test_the_name_of_a_manager_contains_its_run(run: str) -> None:
    assert run_of(actor_name(run=run, attempt=12)) == run
