"""Timings and time shares of a worker's pipeline."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from worker_bench import Bench, bench

from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor, mean_shares, time_use
from tests.waiting import eventually, stays

MakeSettings = Callable[..., WorkerSettings]


def test_a_stage_is_summarized_in_milliseconds() -> None:
    monitor = PipelineMonitor(now=0.0)
    for milliseconds in range(1, 101):
        monitor.record("infer", milliseconds / 1000, now=1.0)
    timing = monitor.timings(now=2.0)["infer"]

    assert (timing.mean_ms, timing.p50_ms) == pytest.approx((50.5, 50.5))
    assert timing.p95_ms == pytest.approx(95.05)
    assert timing.count == 100


def test_old_measurements_leave_the_window() -> None:
    monitor = PipelineMonitor(now=0.0, window_seconds=10.0)
    monitor.record("infer", 1.0, now=0.0)
    monitor.record("act", 1.0, now=9.0)

    assert list(monitor.timings(now=11.0)) == ["act"]


def test_the_stage_that_takes_most_of_the_time_is_named() -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.record("env_step", 0.71, now=0.9)
    monitor.record("infer", 0.1, now=0.9)

    message = time_use(monitor.shares(now=1.0))

    assert message == "Stepping environments takes 71 % of its time."


def test_environments_that_step_side_by_side_count_once() -> None:
    monitor = PipelineMonitor(now=0.0, env_processes=4)
    for _ in range(4):
        monitor.record("env_step", 0.3, now=0.9)
    monitor.record("infer", 0.6, now=0.9)

    shares = monitor.shares(now=1.0)

    assert shares == {"infer": 0.6, "env_step": 0.3}
    assert time_use(shares) == "The policy takes 60 % of its time."


@pytest.mark.parametrize(
    ("wants", "sentence"),
    [
        ("room", "The staleness or queue limit pauses it 80 % of its time."),
        ("weights", "It waits for weights 80 % of its time."),
    ],
)
def test_waits_are_named(wants: Any, sentence: str) -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.wait(0.8, wants=wants)

    assert time_use(monitor.shares(now=1.0)) == sentence


def test_shares_are_means_over_the_window_and_do_not_jump_with_each_report() -> None:
    monitor = PipelineMonitor(now=0.0)
    results = []
    for second in range(1, 121):
        # Bursts: the loop is busy every other second.
        monitor.record("infer", 0.8 if second % 2 else 0.0, now=float(second))
        results.append(monitor.shares(now=float(second)).get("infer", 0.0))

    assert min(results[60:]) >= 0.38
    assert max(results[60:]) <= 0.42


def test_measurements_before_the_window_do_not_count() -> None:
    monitor = PipelineMonitor(now=0.0, window_seconds=10.0)
    monitor.record("infer", 5.0, now=5.0)
    monitor.shares(now=6.0)
    monitor.wait(4.0, wants="room")

    assert monitor.shares(now=16.0) == {"waiting_room": 0.4}


def test_a_state_change_starts_a_new_window() -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.wait(20.0, wants="weights")
    monitor.shares(now=20.0)
    monitor.record("infer", 0.5, now=21.0)

    assert monitor.shares(now=21.0, is_changed=True) == {"infer": 0.5}
    monitor.record("infer", 0.5, now=22.0)
    assert monitor.shares(now=22.0) == {"infer": 0.5}


def test_sending_is_a_bottleneck_only_when_always_busy() -> None:
    assert time_use({"send": 0.8, "infer": 0.3}).startswith("The policy takes")
    assert time_use({"send": 0.95, "infer": 0.3}).startswith("Sending fragments takes")


def test_an_idle_worker_has_no_message() -> None:
    shares = PipelineMonitor(now=0.0).shares(now=1.0)

    assert (shares, time_use(shares)) == ({}, "")


def test_a_restart_during_a_step_does_not_affect_other_stages() -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.record("act", 0.1, now=0.2)  # the environment died: no env_step follows
    monitor.record("infer", 0.2, now=0.5)
    monitor.record("act", 0.1, now=0.6)
    monitor.record("env_step", 0.3, now=0.9)

    assert monitor.shares(now=1.0) == {"infer": 0.2, "act": 0.2, "env_step": 0.3}
    assert monitor.shares(now=0.5) == {}, "a clock that is no later says nothing"


def test_a_fleet_is_measured_by_the_mean_of_those_workers_that_measured() -> None:
    fleet = mean_shares([{"infer": 0.8}, {"infer": 0.2, "env_step": 0.6}, {}])

    assert fleet == {"infer": 0.5, "env_step": 0.3}
    assert mean_shares([]) == {}


def test_unknown_stages_are_never_named() -> None:
    assert time_use({"sleeping": 1.0}) == ""
    assert mean_shares([{"sleeping": 1.0}]) == {}


def test_rates_cover_the_window_of_the_shares() -> None:
    monitor = PipelineMonitor(now=0.0, window_seconds=10.0)
    for second in range(1, 31):
        # Five units at once, every five seconds.
        monitor.count("env_steps", 5 * (second // 5))
        monitor.shares(now=float(second))

    assert monitor.rate("env_steps") == 1.0
    assert monitor.rate("tokens") == 0.0

    monitor.shares(now=31.0, is_changed=True)
    assert monitor.rate("env_steps") == 0.0


def test_the_wait_for_the_first_weights_ends_with_them(make_worker_settings: MakeSettings) -> None:
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


def test_shares_do_not_jump_from_report_to_report(make_worker_settings: MakeSettings) -> None:
    with bench(make_worker_settings(spec="odd:counting")) as b:
        eventually(lambda: len(b.fragments) > 40)
        before = b.order().report.shares
        after = b.order().report.shares

    # The two reports are close in time, and both cover the whole minute before.
    assert before.keys() == after.keys()
    assert all(abs(before[name] - after[name]) < 0.05 for name in before)


def test_worker_without_the_newest_version_waits_for_weights_and_not_for_room(
    make_worker_settings: MakeSettings,
) -> None:
    with bench(make_worker_settings(spec="odd:counting"), room=3) as b:
        eventually(lambda: len(b.fragments) == 3)
        eventually(lambda: b.order().report.reason == "waiting for room in the buffer")
        before = b.order().report.shares.get("waiting_weights", 0.0)
        eventually(
            lambda: b.order(policy_step=2).report.reason == "waiting for version 2 of the weights"
        )
        eventually(lambda: b.order(policy_step=2).report.shares["waiting_weights"] > before)


def test_rate_of_a_worker_is_the_mean_of_the_minute(make_worker_settings: MakeSettings) -> None:
    with bench(make_worker_settings(spec="odd:counting"), room=3) as b:
        eventually(lambda: len(b.fragments) == 3)
        eventually(lambda: b.order().report.reason == "waiting for room in the buffer")
        b.order()

        # No step was made since the report before.
        stays(lambda: b.order().report.env_steps_per_second > 0, 0.1)
