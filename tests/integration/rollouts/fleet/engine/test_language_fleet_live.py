"""A language fleet with a real web server: tasks, groups, outcomes and evaluations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolldeck.trainer import Trainer
from rollouts.control.models import FleetWorker
from rollouts.curriculum.models import Evaluation, LessonOutcome
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import named_tensors
from runs.config.rules import run_config
from runs.events.models import RunEvent
from runs.lifecycle.rules import RunVerb
from tests.factories import make_token
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet
from tests.integration.rollouts.report_factories import change_status, draft, reconcile_run
from tests.live_server import serving
from tests.unit.rollouts.fleet.groups.conftest import SHAPES
from tests.waiting import within

CONFIG: dict[str, Any] = {
    "language": {
        "lessons": {
            "reverse": {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}},
            "sort": {"spec": "task:sort", "kwargs": {"length": 2}},
        },
        "model": SHAPES,
        "group_size": 4,
        "prompts_per_batch": 4,
        "keeps_zero_variance": True,
        "evaluation": {"examples": 64, "every_train_steps": 1},
    },
    "fleet": {"num_workers": 2},
    "buffer": {"max_staleness": 1000, "batch_size": 8},
}


@pytest.fixture
def platform(transactional_db: None) -> Iterator[Platform]:
    with serving() as url, Platform(url) as platform:
        yield platform


def test_a_trainer_receives_groups_of_lessons_and_every_lesson_is_evaluated(
    platform: Platform, tmp_path: Path
) -> None:
    language = run_config.parse(CONFIG).language
    assert language is not None
    weights = dict(named_tensors(build(language).model))
    run = draft(name="words", config=CONFIG)
    change_status(run, RunVerb.START)
    cluster = FakeCluster()
    reconcile_run(run, cluster)
    token = make_token("trainer", run=run)[1]
    with (
        local_fleet(platform, cluster.orders[-1], tmp_path),
        Trainer(platform.url, "words", token) as trainer,
    ):
        trainer.register()
        trainer.publish_weights(weights, step=0)
        batch = trainer.next_batch(wait_seconds=120)
        assert batch is not None
        trainer.ack(batch)
        trainer.publish_weights(weights, step=1)
        trained = LessonOutcome.objects.filter(run=run, mode="train")
        assert within(120, lambda: trained.filter(counted=True).exists())
        done = Evaluation.objects.filter(run=run, state="done")
        assert within(
            120, lambda: set(done.values_list("lesson", flat=True)) >= {"reverse", "sort"}
        )
        assert within(120, lambda: FleetWorker.objects.filter(active_step=1).count() == 2)

    assert {group.lesson for group in trained} <= {"reverse", "sort"}
    assert not RunEvent.objects.filter(run=run, kind__in=["loop_crashed", "outcome_lost"])
