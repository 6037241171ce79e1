"""A deck is filled with runs of every kind, and its counts stay true."""

from io import StringIO

import pytest
from django.core.management import call_command

from buffer import selectors as buffer_selectors
from buffer.models import Batch, TrajectoryGroup
from config.seed import deck
from rollouts.models import Evaluation, Lesson, LogRequest, Recording
from runs.models import Alert, Run, RunEvent

pytestmark = pytest.mark.django_db


def test_a_small_deck_has_runs_in_every_state_and_its_ledgers_balance() -> None:
    said = StringIO()
    call_command("seed", "--small", "--exit", stdout=said)

    states = dict(Run.objects.values_list("name", "status"))
    assert states == {
        "seed-atropos-mix": "running",
        "seed-cartpole-draft": "draft",
        "seed-cartpole-failed": "failed",
        "seed-cartpole-live": "stopped",  # nobody plays its fleet after --exit
        "seed-cartpole-paused": "paused",
        "seed-cartpole-sweep-0": "completed",
        "seed-cartpole-sweep-1": "completed",
        "seed-hostile-text": "paused",
        "seed-reverse-lessons": "completed",
    }
    assert [
        wrong for run in Run.objects.all() for wrong in buffer_selectors.miscounts(run.pk)
    ] == []
    mix = Batch.objects.filter(run__name="seed-atropos-mix")
    assert {*mix.values_list("state", flat=True)} == {
        *("confirmed", "dropped", "leased", "quarantined", "returned")
    }
    assert Lesson.objects.filter(status="graduated").exists()
    assert Evaluation.objects.filter(state="done").exists()
    assert {*Recording.objects.values_list("state", flat=True)} == {"ready", "failed"}
    assert LogRequest.objects.exclude(answered_at=None).count() == 4
    assert {*Alert.objects.values_list("state", flat=True)} == {"open", "acknowledged", "resolved"}
    told = {*Alert.objects.exclude(state="resolved").values_list("kind", flat=True)}
    assert {"run_failed", "batch_quarantined", "lease_lapsed", "items_corrupt"} <= told
    told_at = list(RunEvent.objects.order_by("id").values_list("at", flat=True))
    assert len(told_at) > 50
    assert told_at == sorted(told_at)
    equal = TrajectoryGroup.objects.filter(run__name="seed-atropos-mix", score_std=0)
    assert equal.exists()

    again = StringIO()
    call_command("seed", stdout=again)
    assert again.getvalue().startswith("already seeded: seed-atropos-mix")
    assert deck.present() == sorted(states)
