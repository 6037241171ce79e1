"""A fleet's state is only shown as long as a report proves it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.control.rules import STARTS_WITHIN, UNKNOWN_AFTER, LastReports

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


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


seconds = st.none() | st.floats(0, 1000)


@given(
    observed=st.sampled_from(["none", "starting", "running", "paused", "draining", "stopped"]),
    has_manager=st.booleans(),
    reported=seconds,
    heard_before=st.floats(0, 1000),
    launched=st.floats(0, 1000),
)
def test_a_known_state_has_a_report_within_its_deadline(
    observed: str,
    has_manager: bool,
    reported: float | None,
    heard_before: float,
    launched: float,
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
