"""Fleets report, and the platform stores each report once."""

import threading
from typing import Any

import msgspec
import pytest
from django.db import connection

from buffer.batches.queries.queues import queue_depth
from buffer.items.queries import ledger_part
from config.monitoring import metrics_text
from rolldeck.wire import FleetEvent, ReplicaReport, SlotReport, StageTiming, WeightsTransfers
from rollouts.control.models import EnvSlot, EpisodeWindow, FleetWorker
from rollouts.control.queries.fleets import control_of, fleet_state, running_fragments
from rollouts.control.rules import InvalidReport, StaleIncarnation
from rollouts.control.services import reports
from rollouts.control.services.reconciliation import begin_launch
from rollouts.diagnosis.queries.pipelines import pipeline_of
from rollouts.diagnosis.queries.run_activity import fleet_activity
from rollouts.episodes.queries import episode_summary, episodes
from runs.alerts.models import Alert
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services.settings import change_settings
from tests.alert_evaluation import evaluate_alerts
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    change_status,
    fleet,
    later,
    launched,
    reconcile_run,
    report,
    rolling,
    status,
    window,
    worker,
)

pytestmark = pytest.mark.django_db


def test_a_report_shows_workers_and_slots_as_they_are() -> None:
    run = launched(FakeCluster())
    stages = {"act": StageTiming(mean_ms=1.0, p50_ms=0.9, p95_ms=2.0, count=7)}

    accept(run, report(run, worker(env_steps=10, active_step=3, stages=stages)))

    state = fleet_state(run.pk, now=NOON)
    assert (state.desired, state.observed, state.env_steps_total) == ("running", "running", 10)
    [shown] = state.workers
    assert (shown.index, shown.state, shown.active_step) == (0, "running", 3)
    assert shown.heartbeat_at == NOON
    assert FleetWorker.objects.get().stages["act"]["p95_ms"] == 2.0
    assert [(slot.slot, slot.state, slot.pid) for slot in shown.slots] == [(0, "stepping", 7)]


def test_a_pipeline_has_the_mean_of_the_workers_that_run() -> None:
    run = launched(FakeCluster())
    busy = worker(0, shares={"env_step": 0.7, "waiting_room": 0.1})
    waiting = worker(1, shares={"waiting_room": 0.9})
    lost = worker(2, state="respawning", shares={"infer": 1.0})

    accept(run, report(run, busy, waiting, lost))

    pipeline = pipeline_of(run, now=NOON)
    assert (pipeline.shares, pipeline.workers) == ({"env_step": 0.35, "waiting_room": 0.5}, 2)


def test_resources_of_a_worker_are_shown_and_unmeasured_ones_are_null() -> None:
    run = launched(FakeCluster())

    accept(run, report(run, worker(cpu_percent=151.5, memory_bytes=7 << 30)))

    [shown] = fleet_state(run.pk, now=NOON).workers
    assert (shown.cpu_percent, shown.memory_bytes) == (151.5, 7 << 30)
    assert (shown.gpu_percent, shown.gpu_memory_bytes) == (None, None)


def test_the_next_report_replaces_the_last_one() -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker(env_steps=10)))
    slots = [SlotReport(slot=0, state="failed", error="boom")]

    accept(run, report(run, worker(env_steps=15, slots=slots), sequence=1), now=later(1))

    assert FleetWorker.objects.get().heartbeat_at == later(1)
    assert EnvSlot.objects.get().error == "boom"


def test_weight_syncs_are_shown_and_scraped() -> None:
    run = launched(FakeCluster())
    states = WeightsTransfers(received=3, adopted=2, superseded=1, received_bytes=400, seconds=0.5)
    accept(run, report(run, worker(0, transfers=states), worker(1, transfers=states)))

    shown = fleet_state(run.pk, now=NOON).workers
    scraped = metrics_text().decode()

    assert [msgspec.convert(delivery.transfers, WeightsTransfers) for delivery in shown] == [
        states,
        states,
    ]
    assert 'rolldeck_weights{count="adopted",run="pole"} 4.0' in scraped
    assert 'rolldeck_weights{count="received_bytes",run="pole"} 800.0' in scraped


def test_replicas_of_the_inference_server_are_shown_as_reported_last() -> None:
    run = launched(FakeCluster())
    ready = ReplicaReport(address="gpu-1:8000", version=(1, 4), contact_seconds=2.5)
    lost = ReplicaReport(address="gpu-2:8000", error="connection refused")
    accept(run, report(run, worker(replicas=[ready, lost])))

    [shown] = fleet_state(run.pk, now=NOON).workers
    accept(run, report(run, worker(replicas=[ready]), sequence=1), now=later(1))
    [later_shown] = fleet_state(run.pk, now=later(1)).workers

    assert msgspec.convert(shown.replicas, list[ReplicaReport]) == [ready, lost]
    assert msgspec.convert(later_shown.replicas, list[ReplicaReport]) == [ready]


def test_the_same_report_counts_once() -> None:
    run = launched(FakeCluster())
    given = report(run, worker(env_steps=10), episodes=[window(1.0, 3.0)])

    assert accept(run, given) is True
    assert accept(run, given) is False

    assert EpisodeWindow.objects.count() == 1
    assert fleet(run).env_steps_total == 10


@pytest.mark.django_db(transaction=True)
def test_the_same_report_counts_once_however_many_send_it_at_a_time() -> None:
    run = launched(FakeCluster())
    given = report(run, worker(env_steps=10), episodes=[window(1.0, 3.0)])
    counted: list[bool] = []

    def send() -> None:
        counted.append(accept(run, given))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(counted) == [False] * 7 + [True]
    assert EpisodeWindow.objects.count() == 1


def test_a_worker_missing_from_reports_has_stopped() -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker(0, env_steps=10), worker(1, env_steps=7, outstanding=3)))
    accept(run, report(run, worker(0, env_steps=12), sequence=1))
    again = worker(1, incarnation="1-new", env_steps=4)
    assert running_fragments(run.pk) == 0

    state = fleet_state(run.pk, now=NOON)
    assert [(worker.index, worker.state, worker.env_steps) for worker in state.workers] == [
        (0, "running", 12),
        (1, "stopped", 7),
    ]
    assert {slot.state for slot in state.workers[1].slots} == {"stopped"}

    accept(run, report(run, worker(0, env_steps=12), again, sequence=2))
    assert fleet(run).env_steps_total == 12 + 7 + 4


def test_the_desired_number_of_workers_is_sent_to_the_fleet_and_the_next_manager() -> None:
    cluster = FakeCluster()
    run = launched(cluster)
    before = control_of(run.pk)

    change_settings(run_id=run.pk, changes={"num_workers": 4}, actor="user:alice", now=NOON)

    after = control_of(run.pk)
    assert (before.num_workers, after.num_workers) == (1, 4)
    assert before.fingerprint != after.fingerprint
    order = begin_launch(run_id=run.pk, reason="", platform_url="http://x", now=NOON)
    assert order is not None
    assert order.config["fleet"]["num_workers"] == 4
    assert Run.objects.get().config["fleet"]["num_workers"] == 1


def test_a_run_is_running_once_a_worker_has_stepped() -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker(env_steps=0)))
    assert status(run) is RunStatus.STARTING

    accept(run, report(run, worker(env_steps=1), sequence=1))

    assert status(run) is RunStatus.RUNNING


def test_the_first_report_clears_the_trouble() -> None:
    cluster = FakeCluster()
    cluster.refuses = "out of memory"
    run = launched(cluster)
    assert "out of memory" in Run.objects.get(pk=run.pk).status_reason

    accept(run, report(run, worker(env_steps=0)))

    assert Run.objects.get(pk=run.pk).status_reason == ""
    assert fleet(run).reason == ""


def test_a_run_that_was_paused_meanwhile_stays_paused() -> None:
    run = launched(FakeCluster())
    change_status(run, RunVerb.PAUSE)

    accept(run, report(run, worker(env_steps=1)))

    assert status(run) is RunStatus.PAUSED


def test_a_report_of_a_replaced_manager_is_ignored() -> None:
    run = rolling(FakeCluster())

    with pytest.raises(StaleIncarnation):
        accept(run, report(run, worker(env_steps=99), incarnation="0-dead", sequence=9))

    assert fleet(run).env_steps_total == 10


def test_a_report_for_a_run_without_a_fleet_is_ignored() -> None:
    run = rolling(FakeCluster())
    given = report(run, worker())
    run.fleet.delete()

    with pytest.raises(StaleIncarnation):
        accept(run, given)


def test_a_contradicting_report_stores_nothing() -> None:
    run = launched(FakeCluster())

    with pytest.raises(InvalidReport):
        accept(run, report(run, worker(0), worker(0), episodes=[window(1.0)]))

    assert not FleetWorker.objects.exists()
    assert not EpisodeWindow.objects.exists()


def test_env_steps_are_counted_through_restarts_of_workers() -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker(env_steps=100)))

    accept(run, report(run, worker(env_steps=30, incarnation="b"), sequence=1))

    assert fleet(run).env_steps_total == 130


def test_the_recent_mean_is_over_the_last_twenty_training_returns() -> None:
    run = launched(FakeCluster())
    old = window(*[0.0] * 15)
    new = window(*[10.0] * 10)
    judged = window(1000.0, mode="eval")

    accept(run, report(run, worker(env_steps=1), episodes=[old, new, judged]))

    means = [row.recent_return_mean for row in episodes(run.pk, after=None, limit=9)]
    assert means == [0.0, 5.0, 5.0]


def test_recent_episodes_are_summarized_by_environment_and_in_total() -> None:
    run = launched(FakeCluster())
    windows = [
        window(1.0, 3.0),
        window(8.0, environment="gymnasium:Acrobot-v1"),
        window(5.0, mode="eval"),
    ]
    accept(run, report(run, worker(), episodes=[window(99.0)]))
    accept(run, report(run, worker(), sequence=1, episodes=windows), now=later(400))

    summary = episode_summary(run.pk, seconds=300, now=later(401))

    assert [(task.environment[-6:], task.mode, task.count) for task in summary.tasks] == [
        ("bot-v1", "train", 1),
        ("ole-v1", "eval", 1),
        ("ole-v1", "train", 2),
    ]
    assert summary.train_weighted is not None
    assert summary.train_unweighted is not None
    assert summary.eval_weighted is not None
    assert summary.train_weighted.total_return == 4.0
    assert summary.train_unweighted.total_return == 5.0
    assert summary.eval_weighted.total_return == 5.0
    assert summary.tasks[2].percentiles["50"] == 2.0
    assert summary.tasks[2].length_percentiles["50"] == 2.0
    assert summary.since is None


def test_a_summary_of_too_many_reports_is_marked() -> None:
    run = launched(FakeCluster())
    for second in range(4):
        body = report(run, worker(), sequence=second, episodes=[window(1.0)])
        accept(run, body, now=later(second))

    summary = episode_summary(run.pk, seconds=300, now=later(5), at_most=3)

    assert summary.since == later(1)
    assert summary.tasks[0].count == 3


def test_episodes_are_read_on_from_the_last_row_seen() -> None:
    run = launched(FakeCluster())
    windows = [window(float(n)) for n in range(1, 6)]
    accept(run, report(run, worker(env_steps=1), episodes=windows))
    newest = episodes(run.pk, after=None, limit=2)

    onward = episodes(run.pk, after=newest[0].id, limit=10)

    assert [row.return_mean for row in newest] == [4.0, 5.0]
    assert [row.return_mean for row in onward] == [5.0]


def test_events_of_a_fleet_become_events_of_its_run() -> None:
    run = launched(FakeCluster())
    event = FleetEvent(kind="slot_failed", message="slot 3 failed", level="warning")

    accept(run, report(run, worker(), events=[event]))

    stored = RunEvent.objects.get(kind="slot_failed")
    assert (stored.actor, stored.level, stored.message) == ("fleet", "warning", "slot 3 failed")


def test_refused_fragments_of_a_fleet_are_counted_once_diagnosed_and_raise_an_alert() -> None:
    run = rolling(FakeCluster())
    problem = "fragments[0].arrays.obs: contains a value that is not finite"
    events = [
        FleetEvent(
            kind="fragment_refused",
            message=f"The platform refused {fragments} fragments permanently: {problem}",
            level="error",
            details={"reason": "invalid_data", "fragments": fragments, "error": problem},
        )
        for fragments in (1, 970)
    ]
    sent = report(run, worker(), sequence=1, events=events)
    for _ in range(2):  # a repeated report is stored once
        accept(run, sent)
    evaluate_alerts(now=NOON)

    assert ledger_part(run.pk).refused == 971
    alert = Alert.objects.get(kind="pushes_refused")
    remedy = "Correct the field that the message names in the environment."
    assert alert.message == f"{run.name} refuses pushes of its workers: {problem}. {remedy}"
    diagnosis = pipeline_of(Run.objects.get(pk=run.pk), now=NOON).diagnosis
    assert diagnosis.kind == "pushes_refused"
    lost = "971 fragments in 971 pushes refused"
    assert diagnosis.evidence[0] == (
        f"its workers: {lost}, most recently because of {problem} (invalid_data)"
    )


@pytest.mark.parametrize("details", [{}, {"fragments": "many"}, {"fragments": -1, "reason": 7}])
def test_a_refusal_without_a_valid_count_counts_once(details: dict[str, object]) -> None:
    run = launched(FakeCluster())
    event = FleetEvent(kind="fragment_refused", message="refused", details=details)

    accept(run, report(run, worker(), events=[event]))

    assert ledger_part(run.pk).refused == 1


def test_a_fleet_without_heartbeats_is_unknown() -> None:
    run = rolling(FakeCluster())

    state = fleet_state(run.pk, now=later(5.1))

    assert (state.observed, state.age_seconds) == ("unknown", 5.1)
    assert [shown.state for shown in state.workers] == ["unknown"]


def test_a_new_launch_is_unknown_before_its_first_report() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    cluster.actors.clear()
    reconcile_run(run, cluster, now=later(20))

    relaunched = fleet_state(run.pk, now=later(21))
    listed = fleet_activity([run.pk], now=later(21))[run.pk]
    accept(run, report(run, worker(env_steps=1)), now=later(30))
    speaking = fleet_state(run.pk, now=later(31))

    assert (relaunched.attempt, relaunched.observed) == (2, "unknown")
    assert (relaunched.confirmed_at, relaunched.age_seconds) == (NOON, 21.0)
    assert relaunched.reason.endswith("another was launched and has not reported yet")
    assert (listed["observed_at"], listed["fleet_reason"]) == (NOON, relaunched.reason)
    assert (speaking.observed, speaking.confirmed_at, speaking.reason) == ("running", later(30), "")


def test_a_fleet_that_is_launched_for_the_first_time_starts() -> None:
    run = launched(FakeCluster())

    soon = fleet_state(run.pk, now=later(10))
    late = fleet_state(run.pk, now=later(60))

    assert (soon.observed, soon.confirmed_at) == ("starting", NOON)
    assert (late.observed, late.reason) == (
        "unknown",
        "its manager was launched and has not reported yet",
    )


def test_a_stopped_fleet_does_not_become_unknown() -> None:
    cluster = FakeCluster()
    run = rolling(cluster)
    change_status(run, RunVerb.KILL)
    reconcile_run(run, cluster)

    state = fleet_state(run.pk, now=later(900))
    listed = fleet_activity([run.pk], now=later(900))[run.pk]

    assert (state.observed, state.confirmed_at, listed["observed_at"]) == ("stopped", None, None)


def test_the_shown_capacity_excludes_items_in_progress() -> None:
    run = launched(FakeCluster())
    accept(run, report(run, worker(outstanding=5), worker(1, outstanding=2)))

    depth = queue_depth(run.pk)

    assert depth.running == 7
    assert depth.admission_capacity == depth.admission_remaining - 7


def test_counters_of_a_fleet_that_was_scaled_down_are_not_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = rolling(FakeCluster())
    announced: list[str] = []
    monkeypatch.setattr(reports, "announce", lambda _run, *names: announced.extend(names))

    accept(run, report(run, worker(), worker(1), sequence=1))
    accept(run, report(run, worker(), sequence=2))
    assert announced == ["fleet", "fleet"]
    accept(run, report(run, worker(env_steps=30), sequence=3))
    assert announced == ["fleet", "fleet"]


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        pytest.param({}, [], id="counters"),
        pytest.param({"state": "paused"}, ["fleet"], id="state of the fleet"),
        pytest.param({"reason": "no GPU"}, ["fleet"], id="reason of the fleet"),
        pytest.param({"worker": {"state": "starting"}}, ["fleet"], id="state of a worker"),
        pytest.param({"worker": {"incarnation": "b"}}, ["fleet"], id="a worker was replaced"),
        pytest.param(
            {"worker": {"active_step": 3}}, ["weights", "fleet"], id="version of a worker"
        ),
        pytest.param({"worker": {"index": 1}}, ["fleet"], id="another worker"),
        pytest.param({"episodes": [window(1.0)]}, ["episodes"], id="episodes"),
        pytest.param(
            {"events": [FleetEvent(kind="worker_lost", message="worker 0 was lost")]},
            ["fleet"],
            id="an event",
        ),
    ],
)
def test_reports_of_counters_are_not_announced(
    changed: dict[str, Any],
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = rolling(FakeCluster())
    announced: list[str] = []
    monkeypatch.setattr(reports, "announce", lambda _run, *names: announced.extend(names))
    of_worker = {"env_steps": 30, **changed.get("worker", {})}
    of_report = {name: value for name, value in changed.items() if name != "worker"}

    accept(run, report(run, worker(**of_worker), sequence=1, **of_report), now=later(1))

    assert announced == parts


@pytest.mark.parametrize("earlier_by", [0, 1, 999, 600_000])
def test_a_report_of_an_earlier_process_of_the_incarnation_is_not_counted(earlier_by: int) -> None:
    """Ray may start a manager again while the one before still reports from a lost node."""
    run, newest = launched(FakeCluster()), 1_772_000_000_000
    accept(run, report(run, worker(env_steps=20), sequence=newest))
    late = report(run, worker(env_steps=10), sequence=newest - earlier_by, episodes=[window(1.0)])

    assert accept(run, late, now=later(1)) is False
    assert fleet(run).env_steps_total == 20
