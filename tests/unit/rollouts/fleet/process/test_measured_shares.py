"""A worker reports its time shares of the last minute, in its current situation only."""

from collections.abc import Callable

from worker_bench import Bench, bench

from rollouts.fleet.process.settings import WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]


def test_the_wait_for_the_first_weights_ends_with_them(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    b = Bench(make_worker_settings(spec="odd:counting"))
    try:
        b.order(credits=100_000)
        eventually(lambda: b.order().report.shares.get("waiting_weights", 0.0) > 0.5, 60.0)
        b.publish(0)
        eventually(lambda: b.order().report.active_step == 0)
        b.order()

        assert b.order().report.shares.get("waiting_weights", 0.0) < 0.5
    finally:
        b.worker.stop()


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
