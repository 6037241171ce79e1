"""The monitor measures stages and names the slowest."""

import pytest

from rollouts.core.pipeline import PipelineMonitor


def test_a_stage_is_summed_up_in_milliseconds() -> None:
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


def test_the_verdict_names_the_stage_that_takes_most_of_the_time() -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.record("env_step", 0.71, now=0.9)
    monitor.record("infer", 0.1, now=0.9)

    verdict = monitor.verdict(now=1.0)

    assert verdict == "Environment-bound: 71% of the time goes to stepping environments."


def test_the_verdict_is_about_the_time_since_the_last_one() -> None:
    monitor = PipelineMonitor(now=0.0)
    monitor.record("env_step", 0.9, now=0.9)
    monitor.verdict(now=1.0)
    monitor.wait(0.8)

    assert monitor.verdict(now=2.0).startswith("Trainer-bound: 80% of the time")


def test_an_idle_worker_has_no_bottleneck() -> None:
    assert PipelineMonitor(now=0.0).verdict(now=1.0) == ""
