"""A weights follower closes its source only when no request is in progress."""

import threading
from collections.abc import Iterator

import pytest
from small_models import small_model

from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.weights import BOOTSTRAP, WeightsFollower, WeightsSwap
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.weights.sources import source_for
from tests.unit.client.failing_server import Planned, Seen, serving
from tests.waiting import eventually


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    thread = EngineThread(Engine(small_model(), rows=1, version=BOOTSTRAP), context=96)
    yield thread
    thread.close()


def test_a_follower_that_ends_in_the_middle_of_a_request_closes_its_source_after_it(
    engine: EngineThread,
) -> None:
    requested, answered, closed = threading.Event(), threading.Event(), threading.Event()

    def plan(_: Seen) -> Planned:
        requested.set()
        answered.wait(30)
        return Planned(503)

    with serving(plan) as server:
        settings = FleetSettings(
            platform_url=server.url, token="rd", run="demo", run_config={}, incarnation="serve"
        )
        platform = PlatformApi(settings)

        def close() -> None:
            platform.close()
            closed.set()

        follower = WeightsFollower(
            engine,
            WeightsSwap(engine, small_model().config),
            source_for(platform, directory=""),
            close_source=close,
        )
        assert requested.wait(30)

        follower.close()
        assert not closed.wait(0.2)
        answered.set()

        assert closed.wait(30)
        eventually(lambda: "weights" not in {thread.name for thread in threading.enumerate()})
