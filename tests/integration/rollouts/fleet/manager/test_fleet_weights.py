"""A fleet follows its trainer's weights through crashes, torn files and lost directories."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.files.storage import default_storage
from django.db import transaction

from buffer.items.models import FragmentChunk
from rolldeck import weights_directory
from rolldeck.replay import ReplayBufferInterface
from rolldeck.trainer import Trainer
from rolldeck.wire import WeightsManifest
from rollouts.control.models import Fleet, FleetWorker
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.policies.networks import MlpPolicy
from runs.events.models import RunEvent
from runs.lifecycle import queries
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.rules import RunVerb
from tests.factories import make_token
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet
from tests.integration.rollouts.local_fleets import publish as publish_inside
from tests.integration.rollouts.report_factories import change_status, draft, reconcile_run
from tests.live_server import serving
from tests.unit.client.batch_factories import make_fragment
from tests.waiting import within

SMALL = {"num_workers": 2, "envs_per_worker": 2, "envs_per_process": 2, "inference_batch_size": 2}


@pytest.fixture
def platform(transactional_db: None) -> Iterator[Platform]:
    with serving() as url, Platform(url) as platform:
        yield platform


class Scene:
    """A run, its fleet and its trainer."""

    def __init__(self, platform: Platform, folder: Path, **fleet: Any) -> None:
        self.url = platform.url
        config = {
            "fleet": {**SMALL, "fragment_length": 16, **fleet},
            "policy": {"hidden_sizes": [8]},
            "buffer": {"max_staleness": 1000, "batch_size": 8},
        }
        self.run = draft(config=config)
        change_status(self.run, RunVerb.START)
        cluster = FakeCluster()
        reconcile_run(self.run, cluster)
        self.fleet: LocalFleet = local_fleet(platform, cluster.orders[-1], folder)

    @contextmanager
    def trainer(self) -> Iterator[Trainer]:
        token = make_token("trainer", run=self.run)[1]
        with Trainer(self.url, "pole", token) as trainer:
            trainer.register()
            yield trainer

    def active(self) -> set[int]:
        return set(FleetWorker.objects.values_list("active_step", flat=True))

    def has_event(self, kind: str) -> bool:
        return RunEvent.objects.filter(run=self.run, kind=kind).exists()


@pytest.fixture
def play(platform: Platform, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def begin(**fleet: Any) -> Scene:
        scenes.append(Scene(platform, tmp_path, **fleet))
        return scenes[-1]

    yield begin
    for scene in scenes:
        scene.fleet.__exit__(None, None, None)


def publish(trainer: Trainer, step: int) -> None:
    trainer.publish_weights(MlpPolicy(4, 2, [8]).state_dict(), step=step)


def test_a_fleet_follows_a_restored_trainer_into_its_new_epoch(
    play: Callable[..., Scene],
) -> None:
    scene = play(fragment_length=512)
    with scene.trainer() as crashed:
        publish(crashed, 10)
        assert within(120, lambda: scene.active() == {10})
        assert within(120, lambda: FragmentChunk.objects.filter(epoch=1).count() > 4)

    with scene.trainer() as restored:
        publish(restored, 7)
        assert within(120, lambda: scene.active() == {7})
        assert within(120, lambda: FragmentChunk.objects.filter(epoch=2).exists())

        token = make_token("worker", run=scene.run)[1]
        with ReplayBufferInterface(scene.url, "pole", token) as late:
            receipt = late.add_fragment(make_fragment(epoch=1, policy_step=10))

    assert receipt.dropped == {"stale_epoch": 1}
    versions = FragmentChunk.objects.filter(epoch=2).values_list("version_min", "version_max")
    assert set(versions) == {(7, 7)}
    # Steps begun with the old weights are dropped, and counted.
    dropped = [worker.dropped_steps for worker in FleetWorker.objects.all()]
    assert all(reasons.get("new_epoch", 0) > 0 for reasons in dropped)


def test_a_changed_file_of_an_announced_version_is_never_loaded(
    play: Callable[..., Scene],
) -> None:
    scene = play()
    with scene.trainer() as trainer:
        publish(trainer, 0)
        assert within(120, lambda: scene.active() == {0})
        # The version is announced only after its file is changed.
        with transaction.atomic():
            publish_inside(scene.run, step=1)
            path = Path(default_storage.path(PolicyVersion.objects.get(step=1).file.name))
            whole = path.read_bytes()
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert within(60, lambda: scene.has_event("weights_torn"))
        assert scene.active() == {0}
        path.write_bytes(whole)
        assert within(60, lambda: scene.active() == {1})


def test_a_version_that_is_not_in_the_directory_is_reported_and_awaited(
    play: Callable[..., Scene], settings: Any, tmp_path: Path
) -> None:
    settings.ROLLDECK_WEIGHTS_DIRECTORY = str(tmp_path / "shared")
    scene = play(weights_transport="directory")
    elsewhere = tmp_path / "elsewhere"
    with scene.trainer() as trainer:
        publish(trainer, 0)
        assert within(120, lambda: scene.active() == {0})
        trainer._weights_directory = elsewhere
        publish(trainer, 1)
        assert within(60, lambda: scene.has_event("weights_unavailable"))
        assert scene.active() == {0}
        stored = PolicyVersion.objects.get(step=1).manifest
        manifest = msgspec.convert(stored, WeightsManifest)
        content = weights_directory.read(elsewhere, manifest)
        assert content is not None
        shared = Path(queries.weights_directory(Run.objects.get(pk=scene.run.pk)))
        weights_directory.write(shared, manifest, content)
        assert within(60, lambda: scene.active() == {1})


def test_weights_that_do_not_fit_are_an_event_until_the_next_valid_version(
    play: Callable[..., Scene],
) -> None:
    scene = play()
    with scene.trainer() as trainer:
        publish(trainer, 0)
        assert within(120, lambda: scene.active() == {0})
        trainer.publish_weights(MlpPolicy(4, 2, [16]).state_dict(), step=1)
        refusals = RunEvent.objects.filter(run=scene.run, kind="weights_refused")
        assert within(60, lambda: refusals.count() == 2)
        assert scene.active() == {0}
        publish(trainer, 2)
        assert within(60, lambda: scene.active() == {2})

    refusal_details = [event.details for event in refusals]
    assert sorted(details["worker"] for details in refusal_details) == [0, 1]
    for details in refusal_details:
        assert details["version"] == [1, 1]
        assert details["parameters"]["policy_net.0.weight"] == "is [16, 4], expected [8, 4]"
    assert not RunEvent.objects.filter(run=scene.run, kind="worker_respawned").exists()


def test_a_run_with_an_incompatible_policy_fails_once_with_the_reason(
    platform: Platform, settings: Any, tmp_path: Path
) -> None:
    # Only workers know what an administrator adds, so the run can be created.
    settings.ROLLDECK_ENVIRONMENTS = ["gymnasium:Taxi-v4"]
    config = {
        "fleet": SMALL,
        "environment": {"spec": "gymnasium:Taxi-v4"},
        "policy": {"kind": "cnn"},
    }
    run = draft(config=config)
    change_status(run, RunVerb.START)
    cluster = FakeCluster()
    reconcile_run(run, cluster)
    with local_fleet(platform, cluster.orders[-1], tmp_path):
        assert within(120, lambda: Fleet.objects.filter(run=run, observed="failed").exists())
        reconcile_run(run, cluster, now=datetime.now(UTC))

    run.refresh_from_db()
    assert run.status == "failed"
    assert "policy.kind: cnn needs images" in run.status_reason
    assert len(cluster.orders) == 1
