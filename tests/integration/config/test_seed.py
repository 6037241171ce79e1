"""The seed creates runs of every kind, with consistent counts."""

from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import call_command

from buffer.batches.queries.queues import queue_depth
from buffer.items.models.items import Batch, TrajectoryGroup
from config.seed import sample_runs
from rollouts.control.models.fleets import LogRequest, Recording
from rollouts.curriculum.models import Evaluation, Lesson
from runs.alerts.models.alerts import Alert
from runs.events.models import RunEvent
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.registration import SILENT_AFTER
from runs.lifecycle.services.registry import register_environment
from tests.factories import NOON, make_run
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db


def test_a_small_server_has_runs_in_every_state_and_its_ledgers_balance() -> None:
    output = StringIO()
    call_command("seed", "--small", "--exit", stdout=output)

    states = dict(Run.objects.values_list("name", "status"))
    assert states == {
        "seed-atropos-mix": "running",
        "seed-cartpole-draft": "draft",
        "seed-cartpole-failed": "failed",
        "seed-cartpole-live": "stopped",  # its fleet is not simulated after --exit
        "seed-cartpole-paused": "paused",
        "seed-cartpole-sweep-0": "completed",
        "seed-cartpole-sweep-1": "completed",
        "seed-hostile-text": "paused",
        "seed-reverse-lessons": "completed",
    }
    assert not Run.objects.exclude(is_simulated=True, serves_simulated=False).exists()
    assert [wrong for run in Run.objects.all() for wrong in miscounts(run.pk)] == []
    mix = Batch.objects.filter(run__name="seed-atropos-mix")
    assert {*mix.values_list("state", flat=True)} == {
        *("confirmed", "dropped", "leased", "quarantined", "returned")
    }
    assert Lesson.objects.filter(status="graduated").exists()
    assert Evaluation.objects.filter(state="done").exists()
    assert {*Recording.objects.values_list("state", flat=True)} == {"ready", "failed"}
    assert LogRequest.objects.exclude(answered_at=None).count() == 4
    assert {*Alert.objects.values_list("state", flat=True)} == {"open", "acknowledged", "resolved"}
    alert_kinds = {*Alert.objects.exclude(state="resolved").values_list("kind", flat=True)}
    assert {"run_failed", "batch_quarantined", "lease_lapsed", "items_corrupt"} <= alert_kinds
    reported_at = list(RunEvent.objects.order_by("id").values_list("at", flat=True))
    assert len(reported_at) > 50
    assert reported_at == sorted(reported_at)
    equal = TrajectoryGroup.objects.filter(run__name="seed-atropos-mix", score_std=0)
    assert equal.exists()

    again = StringIO()
    call_command("seed", stdout=again)
    assert again.getvalue().startswith("already seeded: seed-atropos-mix")
    assert sample_runs.present() == sorted(states)


def test_the_fleets_of_seeded_runs_report_possible_numbers() -> None:
    call_command("seed", "--small", "--exit", stdout=StringIO())

    fleets = Run.objects.filter(kind="fleet").exclude(status="draft")
    assert fleets.count() == 5
    for run in fleets:
        depth = queue_depth(run.pk)
        assert depth.queued_sequences <= depth.threshold, run.name
        versions = [*run.policy_versions.order_by("pk").values_list("step", flat=True)]
        assert versions == [*range(len(versions))], run.name
        for worker in run.fleet.workers.all():
            shares = worker.shares
            assert shares["waiting_room"] + shares["waiting_weights"] > 0
            assert sum(shares.values()) <= 1
            assert worker.active_step <= worker.staged_step <= worker.announced_step


def test_environments_of_seeded_runs_stay_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(name="seed-of-a-test", kind="outside", status="running")
    environment = register_environment(
        run_id=run.pk,
        desired_name="maze",
        weight=1.0,
        max_token_length=64,
        group_size=4,
        min_batch_allocation=None,
        now=NOON,
    )
    later = NOON + SILENT_AFTER + timedelta(seconds=1)
    monkeypatch.setattr(sample_runs, "_report", lambda *_, **__: False)
    monkeypatch.setattr(sample_runs.time, "sleep", lambda _: None)

    sample_runs.keep_alive([SimpleNamespace()], clock=lambda: later)  # type: ignore[list-item]

    environment.refresh_from_db()
    assert environment.last_seen_at == later
