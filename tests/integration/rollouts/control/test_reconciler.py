"""The reconciler brings fleets to their desired state."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from rollouts.control.models import FleetWorker, Outage
from rollouts.control.queries.fleets import fleet_state, runs_to_reconcile
from rollouts.control.rules import Action, ActorState
from rollouts.curriculum.services.failure_budget import apply_failure_budgets
from runs.access.models import ApiToken
from runs.access.services.tokens import authenticate
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services.lifecycle import move
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    change_status,
    draft,
    fleet,
    later,
    launched,
    reconcile_run,
    report,
    rolling,
    status,
    worker,
)

pytestmark = pytest.mark.django_db


def test_a_queued_run_gets_a_manager_with_a_token() -> None:
    cluster = FakeCluster()
    run = draft()
    change_status(run, RunVerb.START)

    reconcile_run(run, cluster)

    [order] = cluster.orders
    token = authenticate(text=order.token, address=None, now=NOON)
    assert status(run) is RunStatus.STARTING
    assert order.actor_name == "rolldeck-pole-1"
    assert order.incarnation == fleet(run).incarnation
    assert order.config["environment"]["spec"] == "gymnasium:CartPole-v1"
    assert token is not None
    assert (token.scopes, token.run_id) == (["worker"], run.pk)


def test_a_second_pass_launches_no_second_manager() -> None:
    cluster = FakeCluster()
    run = launched(cluster)

    reconcile_run(run, cluster, now=later(1))

    assert len(cluster.orders) == 1


@pytest.mark.django_db(transaction=True)
def test_simultaneous_passes_launch_one_manager() -> None:
    cluster = FakeCluster()
    run = draft()
    change_status(run, RunVerb.START)

    def reconcile_once() -> None:
        reconcile_run(run, cluster)
        connection.close()

    threads = [threading.Thread(target=reconcile_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(cluster.orders) == 1
    assert RunEvent.objects.filter(kind="fleet_launched").count() == 1


def test_a_dead_manager_is_replaced_and_its_token_revoked() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    first = fleet(run)
    cluster.lose(first.actor_name)

    decision = reconcile_run(run, cluster, now=later(9))

    second = fleet(run)
    assert decision.reason == "its manager is gone from the cluster"
    assert list(cluster.actors) == [second.actor_name]
    assert second.incarnation != first.incarnation
    assert status(run) is RunStatus.RUNNING
    assert ApiToken.objects.filter(run=run, revoked_at=None).count() == 1
    assert RunEvent.objects.filter(kind="fleet_launched", level="warning").count() == 1


def test_a_hung_manager_is_killed_and_replaced() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    hung = fleet(run).actor_name
    cluster.actors[hung] = ActorState.SILENT

    reconcile_run(run, cluster, now=later(16))

    assert cluster.killed == [hung]
    assert list(cluster.actors) == [fleet(run).actor_name]


def test_a_manager_that_cannot_reach_the_platform_is_not_replaced() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)

    assert reconcile_run(run, cluster, now=later(60)).action is Action.WAIT

    assert cluster.killed == []


def test_a_launch_interrupted_after_its_record_is_repeated() -> None:
    cluster = FakeCluster()
    cluster.refuses = "out of memory"
    run = launched(cluster)
    assert cluster.actors == {}
    cluster.refuses = ""

    reconcile_run(run, cluster, now=later(9))

    assert list(cluster.actors) == ["rolldeck-pole-2"]


def test_an_unreachable_cluster_is_reported_and_retried() -> None:
    cluster = FakeCluster()
    cluster.is_reachable = False
    run = draft()
    change_status(run, RunVerb.START)

    for _ in range(20):
        reconcile_run(run, cluster)

    assert status(run) is RunStatus.QUEUED
    assert Run.objects.get(pk=run.pk).status_reason.startswith("no Ray cluster at")
    assert fleet_state(run.pk, now=NOON).reason.startswith("no Ray cluster at")
    assert RunEvent.objects.filter(kind="fleet_waits").count() == 1

    cluster.is_reachable = True
    reconcile_run(run, cluster)

    assert status(run) is RunStatus.STARTING
    assert Run.objects.get(pk=run.pk).status_reason == ""


def test_managers_that_crash_repeatedly_fail_the_run_with_the_reason() -> None:
    cluster = FakeCluster()
    run = launched(cluster)

    for attempt in range(1, 11):
        cluster.lose(fleet(run).actor_name)
        reconcile_run(run, cluster, now=later(10 * attempt))

    failed = Run.objects.get(pk=run.pk)
    assert failed.status == RunStatus.FAILED
    assert failed.status_reason.startswith("10 launches within 10 min")
    assert fleet(run).incarnation == ""
    assert len(cluster.orders) == 10


def test_a_failed_run_may_be_started_again() -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    move(run_id=run.pk, target=RunStatus.FAILED, actor="test", now=NOON)
    change_status(run, RunVerb.START)

    reconcile_run(run, cluster)

    assert list(cluster.actors) == ["rolldeck-pole-2"]
    assert status(run) is RunStatus.STARTING


def test_a_killed_run_keeps_no_manager() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.KILL)

    reconcile_run(run, cluster)

    assert cluster.actors == {}
    assert fleet(run).incarnation == ""
    assert FleetWorker.objects.get().state == "stopped"
    assert not ApiToken.objects.filter(run=run, revoked_at=None).exists()


def test_a_killed_run_of_an_unreachable_cluster_is_reconciled_until_it_returns() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.KILL)
    cluster.is_reachable = False
    reconcile_run(run, cluster)
    assert runs_to_reconcile(now=NOON) == [run.pk]

    cluster.is_reachable = True
    reconcile_run(run, cluster)

    assert cluster.actors == {}
    assert runs_to_reconcile(now=NOON) == []


def test_a_drained_run_is_completed_and_its_manager_ended() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.DRAIN)
    reconcile_run(run, cluster)
    assert status(run) is RunStatus.DRAINING

    accept(run, report(run, worker(state="stopped"), sequence=1, state="drained"))
    reconcile_run(run, cluster)

    assert status(run) is RunStatus.COMPLETED
    assert cluster.actors == {}


def test_a_stopping_run_is_stopped_at_its_deadline() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.STOP, deadline_seconds=20)
    accept(run, report(run, worker(state="draining"), sequence=1, state="draining"), now=later(19))
    reconcile_run(run, cluster, now=later(19))
    assert status(run) is RunStatus.DRAINING

    reconcile_run(run, cluster, now=later(20))

    assert status(run) is RunStatus.STOPPED
    assert cluster.actors == {}


def test_a_manager_that_dies_in_a_drain_does_not_delay_it() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.DRAIN)
    cluster.lose(fleet(run).actor_name)

    reconcile_run(run, cluster, now=later(9))
    reconcile_run(run, cluster, now=later(12))

    assert status(run) is RunStatus.COMPLETED
    assert len(cluster.orders) == 1


def test_a_run_paused_before_its_launch_gets_its_fleet_when_it_is_resumed() -> None:
    cluster = FakeCluster()
    run = draft()
    change_status(run, RunVerb.START)
    change_status(run, RunVerb.PAUSE)
    reconcile_run(run, cluster)
    assert cluster.orders == []

    change_status(run, RunVerb.RESUME)
    reconcile_run(run, cluster)

    assert len(cluster.orders) == 1


def test_only_runs_with_differences_are_reconciled() -> None:
    cluster = FakeCluster()
    draft("idle")
    outside = draft("outside", kind="outside")
    change_status(outside, RunVerb.START)
    content = rolling(cluster, "content")
    hungry = draft("hungry")
    change_status(hungry, RunVerb.START)

    assert runs_to_reconcile(now=later(1)) == [hungry.pk]
    assert runs_to_reconcile(now=later(9)) == [content.pk, hungry.pk]


def test_an_outside_run_drains_to_its_end_without_a_cluster() -> None:
    cluster = FakeCluster()
    cluster.is_reachable = False
    run = draft(kind="outside")
    change_status(run, RunVerb.START)
    change_status(run, RunVerb.DRAIN)

    reconcile_run(run, cluster)

    assert status(run) is RunStatus.COMPLETED


def test_an_outage_of_the_environments_pauses_the_run_until_they_step_again() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    sentence = "2 of 2 workers were given up: ConnectionError: no simulator at sim:9000"
    moment = 1.0
    while status(run) is RunStatus.RUNNING:
        accept(run, report(run, state="failed", reason=sentence, sequence=1), now=later(moment))
        decision = reconcile_run(run, cluster, now=later(moment + 1))
        moment += 10.0
        assert moment < 100.0, decision

    run.refresh_from_db()
    assert (run.status, run.status_reason) == ("paused", f"every worker fails: {sentence}")
    assert runs_to_reconcile(now=later(moment)) == []
    outage = Outage.objects.get()
    assert (outage.cause, outage.lesson, outage.probes) == ("environment", "", 0)

    launches = len(cluster.orders)
    reconcile_run(run, cluster, now=outage.probe_at)
    assert len(cluster.orders) == launches + 1
    outage.refresh_from_db()
    assert outage.probes == 1
    probed = outage.probe_at - timedelta(seconds=1)
    accept(run, report(run, state="failed", reason=sentence, sequence=1), now=probed)
    assert reconcile_run(run, cluster, now=probed).action is Action.WAIT
    apply_failure_budgets(now=probed)
    assert status(run) is RunStatus.PAUSED

    reconcile_run(run, cluster, now=outage.probe_at)
    accept(run, report(run, worker(env_steps=128)), now=outage.probe_at)
    apply_failure_budgets(now=outage.probe_at)

    assert status(run) is RunStatus.RUNNING
    [event] = RunEvent.objects.filter(kind="outage_ended")
    assert (event.reason, event.actor) == (f"every worker fails: {sentence}", "failure budget")
