"""A worker reports its time shares of the last minute, in its current situation only."""

import time
from collections.abc import Callable

from worker_bench import Bench, bench

from rollouts.fleet.process.settings import WorkerSettings
from tests.waiting import stays

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]


def test_the_wait_for_the_first_weights_ends_with_them(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    b = Bench(make_worker_settings(spec="odd:counting"))

    def waiting() -> float:
        return b.order().report.shares.get("waiting_weights", 0.0)

    try:
        b.order(credits=100_000)
        eventually(lambda: waiting() > 0.5, 60.0)
        waiting_since = time.monotonic()
        eventually(lambda: waiting() > 0.8 and time.monotonic() - waiting_since > 3.0, 60.0)
        b.publish(0)
        eventually(lambda: b.order().report.active_step == 0)
        active_since = time.monotonic()
        eventually(lambda: waiting() < 0.5, 60.0)
        waited, acted = active_since - waiting_since, time.monotonic() - active_since
    finally:
        b.worker.stop()

    # A window that covered the whole wait would need three quarters of its seconds.
    assert acted < waited / 2


def test_shares_do_not_jump_from_report_to_report(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    with bench(make_worker_settings(spec="odd:counting")) as b:
        eventually(lambda: len(b.fragments) > 40)
        before = b.order().report.shares
        after = b.order().report.shares

    # The two reports are close in time, and both cover the whole minute before.
    assert before.keys() == after.keys()
    assert all(abs(before[name] - after[name]) < 0.05 for name in before)


def test_worker_without_the_newest_version_waits_for_weights_and_not_for_room(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    with bench(make_worker_settings(spec="odd:counting"), room=3) as b:
        eventually(lambda: len(b.fragments) == 3)
        eventually(lambda: b.order().report.reason == "waiting for room in the buffer")
        before = b.order().report.shares.get("waiting_weights", 0.0)
        eventually(
            lambda: b.order(policy_step=2).report.reason == "waiting for version 2 of the weights"
        )
        eventually(lambda: b.order(policy_step=2).report.shares["waiting_weights"] > before)


def test_rate_of_a_worker_is_the_mean_of_the_minute(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    with bench(make_worker_settings(spec="odd:counting"), room=3) as b:
        eventually(lambda: len(b.fragments) == 3)
        eventually(lambda: b.order().report.reason == "waiting for room in the buffer")
        b.order()

        # No step was made since the report before.
        stays(lambda: b.order().report.env_steps_per_second > 0, 0.1)
