"""Rules of fleets: desired state, last reports, counters, resource usage and weight syncs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolldeck.fleet_wire import InfoDrops, InfoSum, InfoWindow
from rolldeck.wire import FleetReport, SlotReport, WorkerReport
from rollouts.control.rules import (
    NONE_STEP,
    STARTS_WITHIN,
    UNKNOWN_AFTER,
    InvalidReport,
    LastReports,
    LaunchRequest,
    Steps,
    absence_of,
    actor_name,
    added,
    advances,
    check_report,
    env_steps_since,
    fingerprint,
    info_figures,
    message_of,
    valid_usage,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
seconds = st.none() | st.floats(0, 1000)
CHANGES = [
    {"desired": "paused"},
    {"epoch": 2},
    {"policy_step": 4},
    {"admission_remaining": 7},
    {"num_workers": 2},
]
FULL: dict[str, Any] = {
    "cpu_percent": 250.0,
    "memory_bytes": 7 << 30,
    "gpu_percent": 40.0,
    "gpu_memory_bytes": 2 << 30,
}
ABSENT = dict.fromkeys(FULL)
NONE = Steps(NONE_STEP, NONE_STEP, NONE_STEP)


def ago(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOON - timedelta(seconds=seconds)


def last_reports(**known: Any) -> LastReports:
    """Return the reports of a running fleet, the last one a second ago."""
    values: dict[str, Any] = {"observed": "running", "has_manager": True}
    times = {"reported_at": 1, "heard_at": 1, "launched_at": 300}
    given = times | {name: known.pop(name) for name in times if name in known}
    return LastReports(**values | known, **{name: ago(at) for name, at in given.items()})


@pytest.mark.parametrize(
    ("known", "state", "why"),
    [
        ({}, "running", ""),
        ({"reported_at": 6, "heard_at": 6}, "unknown", "its manager does not report"),
        (
            {"observed": "none", "reported_at": None, "heard_at": 20, "launched_at": 2},
            "unknown",
            "its manager stopped reporting; another was launched and has not reported yet",
        ),
        (
            {"observed": "none", "reported_at": None, "heard_at": None, "launched_at": 30},
            "starting",
            "",
        ),
        (
            {"observed": "none", "reported_at": None, "heard_at": None, "launched_at": 50},
            "unknown",
            "its manager was launched and has not reported yet",
        ),
        ({"observed": "stopped", "has_manager": False, "reported_at": 900}, "stopped", ""),
        ({"observed": "failed", "reported_at": 900, "heard_at": 900}, "failed", ""),
        ({"observed": "none", "has_manager": False, "heard_at": None}, "none", ""),
    ],
)
def test_a_fleet_has_the_state_of_its_last_report_until_that_expires(
    known: dict[str, Any], state: str, why: str
) -> None:
    reports = last_reports(**known)

    assert (reports.state(now=NOON), reports.doubt(now=NOON)) == (state, why)


def test_a_new_manager_has_the_heartbeat_of_the_one_before() -> None:
    replaced = last_reports(observed="none", reported_at=None, heard_at=20, launched_at=2)

    assert replaced.confirmed_at == ago(20)


@given(
    observed=st.sampled_from(["none", "starting", "running", "paused", "draining", "stopped"]),
    has_manager=st.booleans(),
    reported=seconds,
    heard_before=st.floats(0, 1000),
    launched=st.floats(0, 1000),
)
def test_a_known_state_has_a_report_within_its_deadline(
    observed: str, has_manager: bool, reported: float | None, heard_before: float, launched: float
) -> None:
    last = reported if reported is not None else heard_before
    reports = last_reports(
        observed=observed,
        has_manager=has_manager,
        reported_at=reported,
        heard_at=last,
        launched_at=launched,
    )
    state = reports.state(now=NOON)

    if reports.confirmed_at is not None and state != "unknown":
        assert NOON - reports.confirmed_at <= max(UNKNOWN_AFTER, STARTS_WITHIN)
    assert bool(reports.doubt(now=NOON)) == (state == "unknown")


def print_of(**changed: Any) -> str:
    orders = {"desired": "running", "epoch": 1, "policy_step": 3, "admission_remaining": 8}
    return fingerprint(**{**orders, **changed})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_the_fingerprint_changes_with_each_of_its_parts(change: dict[str, Any]) -> None:
    assert print_of(**change) != print_of()


def test_the_same_commands_have_the_same_fingerprint() -> None:
    assert print_of() == print_of()


def window(
    *sums: tuple[str, str, int, float], dropped: list[InfoDrops] | None = None
) -> InfoWindow:
    return InfoWindow(
        sums=[
            InfoSum(name=name, scope=scope, count=count, total=total)  # type: ignore[arg-type]
            for name, scope, count, total in sums
        ],
        dropped=dropped or [],
    )


def test_metrics_cover_the_time_between_two_measurements() -> None:
    before = added({}, window(("speed", "step", 2, 2.0), ("won", "episode", 1, 1.0))).totals
    after = added(before, window(("speed", "step", 2, 6.0), ("speed", "episode", 1, 9.0))).totals

    assert info_figures({}, before) == {
        "info/speed/step_mean": 1.0,
        "info/speed/step_count": 2.0,
        "info/won/mean": 1.0,
        "info/won/count": 1.0,
    }
    assert info_figures(before, after) == {
        "info/speed/step_mean": 3.0,
        "info/speed/step_count": 2.0,
        "info/speed/mean": 9.0,
        "info/speed/count": 1.0,
    }
    assert info_figures(after, after) == {}


def test_the_first_64_names_of_a_run_are_kept() -> None:
    first = added({}, window(*((f"n{number}", "step", 1, 1.0) for number in range(64))))
    second = added(first.totals, window(("late", "step", 5, 5.0), ("n3", "step", 1, 1.0)))
    third = added(second.totals, window(("later", "step", 1, 1.0)))

    assert first.first_drops == []
    assert second.totals["sums"]["n3"] == {"step": [2, 2.0]}
    assert "late" not in second.totals["sums"]
    [drops] = second.first_drops
    assert (drops.problem, drops.count, drops.example) == ("too_many_names", 5, "late")
    assert (
        message_of(drops) == "Values of info are dropped: more than 64 names; the first is 'late'"
    )
    assert third.first_drops == []
    assert third.totals["dropped"] == {"too_many_names": 6}
    assert info_figures(second.totals, third.totals) == {"info_dropped/too_many_names": 1.0}


def test_steps_without_a_number_are_a_share_of_the_steps() -> None:
    before = added({}, window(("cost", "missing", 10, 10.0))).totals
    after = added(before, window(("cost", "missing", 40, 10.0))).totals

    assert info_figures({}, before) == {"info/cost/missing_share": 1.0, "info/cost/steps": 10.0}
    assert info_figures(before, after) == {"info/cost/missing_share": 0.25, "info/cost/steps": 40.0}


def test_a_key_without_numbers_is_reported_once_after_1000_steps_and_an_episode() -> None:
    early = added({}, window(("cost", "missing", 999, 999.0)), has_ended_episodes=True)
    first = window(
        ("cost", "missing", 1, 1.0),
        ("won", "missing", 5000, 4999.0),
        ("speed", "step", 2000, 2000.0),
    )
    unended = added(early.totals, first)
    ended = added(early.totals, first, has_ended_episodes=True)
    again = added(ended.totals, window(("cost", "missing", 500, 500.0)), has_ended_episodes=True)

    assert (early.newly_absent, unended.newly_absent) == ({}, {})
    assert ended.newly_absent == {"cost": 1000}
    assert absence_of("cost", 1000) == (
        "environment.info: 'cost' has had no number in 1,000 env steps"
    )
    assert again.newly_absent == {}


def test_a_report_without_values_changes_nothing() -> None:
    assert added({}, InfoWindow()).totals == {}


def usage(**fields: Any) -> dict[str, Any]:
    return valid_usage(WorkerReport(index=0, incarnation="a", state="running", **fields))


def test_a_valid_measurement_stays_as_reported() -> None:
    assert usage(**FULL) == FULL


def test_a_worker_without_a_gpu_keeps_its_other_values() -> None:
    without = FULL | {"gpu_percent": None, "gpu_memory_bytes": None}

    assert usage(**without) == without


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_percent", float("nan")),
        ("cpu_percent", float("inf")),
        ("cpu_percent", -1.0),
        ("memory_bytes", -1),
        ("gpu_percent", float("nan")),
        ("gpu_percent", -0.5),
        ("gpu_percent", 101.0),
        ("gpu_memory_bytes", -1),
    ],
)
def test_one_invalid_value_discards_the_whole_measurement(name: str, value: float) -> None:
    assert usage(**FULL | {name: value}) == ABSENT


def test_each_stage_is_reached_once() -> None:
    assert advances(NONE, Steps(0, -2, -2)) == [(0, "announced")]
    assert advances(Steps(0, -2, -2), Steps(0, 0, -2)) == [(0, "staged")]
    assert advances(Steps(0, 0, -2), Steps(1, 0, 0)) == [(1, "announced"), (0, "active")]


def test_a_report_without_versions_has_no_changes() -> None:
    assert advances(Steps(3, 3, 3), NONE) == []


@given(steps=st.tuples(*[st.integers(-2, 9)] * 3))
def test_nothing_is_reached_twice(steps: tuple[int, int, int]) -> None:
    assert advances(Steps(*steps), Steps(*steps)) == []


def worker(index: int, *slots: int) -> WorkerReport:
    return WorkerReport(
        index=index,
        incarnation="a",
        state="running",
        slots=[SlotReport(slot=slot, state="stepping") for slot in slots],
    )


def report(*workers: WorkerReport) -> FleetReport:
    return FleetReport(incarnation="1-a", sequence=0, state="running", workers=list(workers))


def test_a_report_may_name_each_worker_and_slot_once() -> None:
    check_report(report(worker(0, 0, 1), worker(1, 0, 1)))


def test_a_worker_named_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidReport) as caught:
        check_report(report(worker(0), worker(0)))

    assert caught.value.field == "workers[1].index"


def test_a_slot_named_twice_is_refused_by_name() -> None:
    with pytest.raises(InvalidReport) as caught:
        check_report(report(worker(0, 1), worker(1, 2, 2)))

    assert caught.value.field == "workers[1].slots[1].slot"


@pytest.mark.parametrize(
    ("before", "steps"),
    [(None, 100), (("a", 60), 40), (("b", 60), 100), (("a", 130), 0)],
    ids=["first report", "same worker", "restarted worker", "counter went back"],
)
def test_env_steps_are_counted_through_restarts(before: tuple[str, int] | None, steps: int) -> None:
    assert env_steps_since(before=before, incarnation="a", env_steps=100) == steps


def test_the_repr_of_a_launch_omits_its_token() -> None:
    order = LaunchRequest(
        actor_name=actor_name(run="pole", attempt=2),
        incarnation="2-ff",
        run="pole",
        config={},
        platform_url="http://localhost",
        token="rd_secret",
    )

    assert order.actor_name == "rolldeck-pole-2"
    assert "rd_secret" not in repr(order)
