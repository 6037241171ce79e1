"""Operators pin, unpin and resync versions; running and new workers follow.

The same manager serves a cluster; only the source of workers differs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from small_platform import SmallPlatform, served

from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.manager.workers import LocalWorkers
from rollouts.fleet.process.settings import FleetSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., FleetSettings]


@contextmanager
def managed(settings: FleetSettings) -> Iterator[RolloutManager]:
    manager = RolloutManager(settings, LocalWorkers())
    try:
        yield manager
    finally:
        manager.shutdown()


def active(platform: SmallPlatform) -> list[int]:
    return [worker.active_step for worker in platform.reports[-1].workers]


def orders(platform: SmallPlatform) -> list[int]:
    return [worker.transfers.order for worker in platform.reports[-1].workers]


def test_workers_and_new_managers_keep_the_pinned_version(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=2, max_staleness=100)
        with managed(settings):
            platform.publish(0)
            eventually(lambda: platform.reports and active(platform) == [0, 0])
            platform.command(pinned=0)
            eventually(lambda: orders(platform) == [1, 1])
            platform.publish(1)
            platform.publish(2)
            seen = len(platform.reports)
            eventually(lambda: len(platform.reports) > seen + 3)
            assert active(platform) == [0, 0]
        platform.reports.clear()
        with managed(settings):
            eventually(lambda: platform.reports and active(platform) == [0, 0])
            assert orders(platform) == [1, 1]
            platform.command(pinned=None)
            eventually(lambda: active(platform) == [2, 2])
            assert orders(platform) == [2, 2]

    assert {fragment.version_max for fragment in platform.fragments.values()} <= {0, 2}


def test_workers_load_and_label_an_older_pinned_version(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with (
        served(platform) as url,
        managed(make_settings(url=url, num_workers=2, max_staleness=100)),
    ):
        platform.publish(3)
        platform.publish(5)
        eventually(lambda: platform.reports and active(platform) == [5, 5])
        platform.command(pinned=3)
        eventually(lambda: active(platform) == [3, 3])
        count = len(platform.fragments)
        eventually(lambda: len(platform.fragments) > count + 8)
        newest = [platform.fragments[key] for key in platform.order[-4:]]

    assert {fragment.version_max for fragment in newest} == {3}


def test_a_sync_reloads_the_same_version_in_every_worker(
    make_settings: MakeSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    with (
        served(platform) as url,
        managed(make_settings(url=url, num_workers=2, max_staleness=100)),
    ):
        platform.publish(0)
        eventually(lambda: platform.reports and active(platform) == [0, 0])
        platform.command(pinned=None)
        eventually(lambda: orders(platform) == [1, 1])
        taken = [worker.transfers.adopted for worker in platform.reports[-1].workers]

    assert taken == [2, 2]
    assert active(platform) == [0, 0]
