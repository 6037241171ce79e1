"""A policy version is unique within a run's name, regardless of how its run was renewed."""

from collections.abc import Callable, Iterator

import pytest
import requests
from django.db import connection

from buffer.items.models import TrajectoryGroup
from rolldeck.trainer import Trainer
from rollouts.fleet.engine.checkpoints import published_tensors
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.weights import BOOTSTRAP, WeightsFollower, WeightsSwap
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.weights.sources import source_for
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import archive, move, unarchive
from tests.buffer_factories import REGISTRATION, group
from tests.factories import NOON, bearer, make_run, make_token
from tests.live_server import serving
from tests.unit.rollouts.fleet.engine.small_models import small_model
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "alpha"


@pytest.fixture
def url() -> Iterator[str]:
    make_run(name=NAME, kind="outside")
    with serving() as base:
        yield base
    connection.close()


@pytest.fixture
def served(url: str) -> Iterator[EngineThread]:
    """An engine that follows the weights of the run's name, as `rolldeck inference --run` does."""
    thread = EngineThread(Engine(small_model(), rows=1, version=BOOTSTRAP), context=96)
    settings = FleetSettings(
        platform_url=url,
        token=make_token("worker")[1],
        run=NAME,
        run_config={},
        incarnation="serve",
    )
    platform = PlatformApi(settings)
    follower = WeightsFollower(
        thread,
        WeightsSwap(thread, small_model().config),
        source_for(platform, directory=""),
        close_source=platform.close,
    )
    yield thread
    follower.close()
    thread.close()


def trained(url: str, *, seed: int, steps: int) -> int:
    """Register a trainer, publish versions and return their epoch."""
    trainer = Trainer(url, NAME, make_token("trainer")[1])
    epoch = trainer.register(batch_size=4).epoch
    for step in range(steps):
        trainer.publish_weights(published_tensors(small_model(seed=seed)), step=step)
    trainer.close()
    return epoch


def ended(status: RunStatus) -> Run:
    run = Run.objects.current().get(name=NAME)
    move(run_id=run.pk, target=status, actor="tests", reason="", now=NOON)
    return run


def registers_after_the_end(url: str) -> None:
    ended(RunStatus.COMPLETED)
    answer = requests.post(f"{url}/atropos/{NAME}/register", json=REGISTRATION, timeout=60)
    assert answer.status_code == 200


def resets_by_the_protocol(url: str) -> None:
    assert requests.get(f"{url}/atropos/{NAME}/reset_data", timeout=60).status_code == 200


def resets_by_rest(url: str) -> None:
    body = {"reason": "again"}
    answer = requests.post(
        f"{url}/api/v1/runs/{NAME}/reset", json=body, headers=bearer("admin"), timeout=60
    )
    assert answer.status_code == 200, answer.text


def creates_a_run_of_the_name(_: str) -> None:
    archive(run_id=ended(RunStatus.STOPPED).pk, actor="tests", now=NOON)
    make_run(name=NAME, kind="outside")


def restores_the_run_after_another(url: str) -> None:
    first = archive(run_id=ended(RunStatus.STOPPED).pk, actor="tests", now=NOON)
    make_run(name=NAME, kind="outside")
    trained(url, seed=3, steps=5)
    archive(run_id=ended(RunStatus.STOPPED).pk, actor="tests", now=NOON)
    unarchive(run_id=first.pk, actor="tests", now=NOON)
    move(run_id=first.pk, target=RunStatus.QUEUED, actor="tests", reason="", now=NOON)


def trains_again(_: str) -> None:
    """A second trainer registers in the same run."""


@pytest.mark.parametrize(
    "renew",
    [
        registers_after_the_end,
        resets_by_the_protocol,
        resets_by_rest,
        creates_a_run_of_the_name,
        restores_the_run_after_another,
        trains_again,
    ],
)
def test_a_renewed_run_is_served_with_its_own_weights(
    url: str, served: EngineThread, renew: Callable[[str], None]
) -> None:
    first = trained(url, seed=1, steps=3)
    eventually(lambda: served.progress.version == (first, 2), 30)

    renew(url)
    second = trained(url, seed=2, steps=1)

    assert second > first
    eventually(lambda: served.progress.version == (second, 0), 30)


def test_groups_of_the_previous_run_of_a_name_are_dropped_before_and_after_new_weights(
    url: str,
) -> None:
    first = trained(url, seed=1, steps=3)
    resets_by_the_protocol(url)
    label = {"epoch": first, "policy_step": 0}
    root = f"{url}/atropos/{NAME}"

    requests.post(f"{root}/scored_data", json=group(**label), timeout=60)
    trained(url, seed=2, steps=1)
    requests.post(f"{root}/scored_data", json=group(mark=2, **label), timeout=60)

    run = Run.objects.current().get(name=NAME)
    stored = TrajectoryGroup.objects.filter(run=run).order_by("pk")
    assert (
        list(stored.values_list("state", "drop_reason", "epoch"))
        == [("dropped", "stale_epoch", first)] * 2
    )
