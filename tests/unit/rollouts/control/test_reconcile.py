"""The reconciler's decisions, without a database or a cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rollouts.control.rules import Action, ActorState, FleetView, after_check, decide, desired_of
from runs.lifecycle.rules import RunStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seconds_ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def view(status: RunStatus = RunStatus.RUNNING, **known: Any) -> FleetView:
    defaults = {"launches_fleets": True, "has_manager": True, "observed": "running"}
    return FleetView(status=status, **{**defaults, **known})


def reporting(status: RunStatus = RunStatus.RUNNING, **known: Any) -> FleetView:
    return view(status, **{"launched_at": seconds_ago(300), "observed_at": seconds_ago(1), **known})


@pytest.mark.parametrize(
    ("status", "desired"),
    [
        (RunStatus.DRAFT, "stopped"),
        (RunStatus.QUEUED, "running"),
        (RunStatus.STARTING, "running"),
        (RunStatus.RUNNING, "running"),
        (RunStatus.PAUSED, "paused"),
        (RunStatus.DRAINING, "draining"),
        (RunStatus.COMPLETED, "stopped"),
        (RunStatus.STOPPED, "stopped"),
        (RunStatus.FAILED, "stopped"),
    ],
)
def test_the_desired_fleet_state_follows_from_the_status(status: RunStatus, desired: str) -> None:
    assert desired_of(status) == desired


def test_a_queued_run_gets_a_fleet() -> None:
    decision = decide(view(RunStatus.QUEUED, has_manager=False), now=NOON)

    assert decision.action is Action.LAUNCH


def test_a_restarted_run_has_a_new_launch_budget() -> None:
    spent = tuple(seconds_ago(s) for s in range(30))

    decision = decide(view(RunStatus.QUEUED, recent_launches_at=spent), now=NOON)

    assert decision.action is Action.LAUNCH


def test_an_outside_run_never_gets_a_fleet() -> None:
    decision = decide(view(launches_fleets=False, has_manager=False), now=NOON)

    assert decision.action is Action.WAIT


def test_a_draft_needs_no_action() -> None:
    assert decide(view(RunStatus.DRAFT, has_manager=False), now=NOON).action is Action.WAIT


@pytest.mark.parametrize("status", [RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED])
def test_a_reporting_fleet_needs_no_action(status: RunStatus) -> None:
    assert decide(reporting(status), now=NOON).action is Action.WAIT


@pytest.mark.parametrize("status", [RunStatus.STARTING, RunStatus.RUNNING])
def test_a_run_without_a_manager_gets_one(status: RunStatus) -> None:
    assert decide(view(status, has_manager=False), now=NOON).action is Action.LAUNCH


def test_a_run_that_was_paused_before_its_launch_waits_for_the_resume() -> None:
    decision = decide(view(RunStatus.PAUSED, has_manager=False), now=NOON)

    assert decision.action is Action.WAIT
    assert "paused" in decision.reason


def test_a_new_manager_has_time_to_start() -> None:
    fresh = view(RunStatus.STARTING, observed="none", launched_at=seconds_ago(5))

    assert decide(fresh, now=NOON).action is Action.WAIT


def test_a_silent_manager_is_probed_first() -> None:
    assert decide(reporting(observed_at=seconds_ago(9)), now=NOON).action is Action.CHECK


def test_a_manager_that_is_gone_is_replaced_at_once() -> None:
    silent = reporting(observed_at=seconds_ago(9))

    decision = after_check(silent, ActorState.MISSING, now=NOON)

    assert decision.action is Action.LAUNCH
    assert decision.reason == "its manager is gone from the cluster"


def test_a_manager_that_answers_survives_an_outage_of_the_platform() -> None:
    silent = reporting(observed_at=seconds_ago(60))

    decision = after_check(silent, ActorState.ALIVE, now=NOON)

    assert decision.action is Action.WAIT
    assert decision.reason == "its manager has not reported for 60 s"


def test_a_manager_that_answers_and_never_reports_is_replaced() -> None:
    silent = reporting(observed_at=seconds_ago(121))

    assert after_check(silent, ActorState.ALIVE, now=NOON).action is Action.LAUNCH


@pytest.mark.parametrize(("silence", "action"), [(14, Action.WAIT), (16, Action.LAUNCH)])
def test_a_hung_manager_is_replaced_after_fifteen_seconds(silence: int, action: Action) -> None:
    silent = reporting(observed_at=seconds_ago(silence))

    assert after_check(silent, ActorState.SILENT, now=NOON).action is action


@pytest.mark.parametrize(("age", "action"), [(44, Action.WAIT), (46, Action.LAUNCH)])
def test_a_manager_that_never_started_is_replaced_after_45_seconds(
    age: int, action: Action
) -> None:
    never = view(RunStatus.STARTING, observed="none", launched_at=seconds_ago(age))

    assert after_check(never, ActorState.SILENT, now=NOON).action is action


@pytest.mark.parametrize("observed", ["failed", "stopped", "drained"])
def test_an_ended_fleet_is_launched_again(observed: str) -> None:
    decision = decide(reporting(observed=observed), now=NOON)

    assert decision.action is Action.LAUNCH
    assert observed in decision.reason


def test_a_permanent_fleet_failure_fails_the_run_with_its_reason() -> None:
    hopeless = reporting(observed="failed", is_final=True, reason="policy.kind: cnn needs images")

    decision = decide(hopeless, now=NOON)

    assert decision.action is Action.FAIL
    assert decision.reason == "policy.kind: cnn needs images"


def test_too_many_launches_fail_the_run_with_the_last_reason() -> None:
    spent = tuple(seconds_ago(60 * s) for s in range(10))
    silent = reporting(observed_at=seconds_ago(9), recent_launches_at=spent)

    decision = after_check(silent, ActorState.MISSING, now=NOON)

    assert decision.action is Action.FAIL
    assert decision.reason == (
        "10 launches within 10 min; last: its manager is gone from the cluster"
    )


def test_old_launches_do_not_count() -> None:
    spent = tuple(seconds_ago(600 + 60 * s) for s in range(10))
    silent = reporting(observed_at=seconds_ago(9), recent_launches_at=spent)

    assert after_check(silent, ActorState.MISSING, now=NOON).action is Action.LAUNCH


def test_a_drain_waits_for_the_fleet() -> None:
    draining = reporting(RunStatus.DRAINING, observed="draining", buffer_is_drained=True)

    assert decide(draining, now=NOON).action is Action.WAIT


def test_a_drain_waits_for_the_buffer() -> None:
    draining = reporting(RunStatus.DRAINING, observed="drained", buffer_is_drained=False)

    assert decide(draining, now=NOON).action is Action.WAIT


def test_a_drain_is_over_when_fleet_and_buffer_are_drained() -> None:
    draining = reporting(RunStatus.DRAINING, observed="drained", buffer_is_drained=True)

    assert decide(draining, now=NOON).action is Action.FINISH_DRAIN


def test_an_outside_run_drains_without_a_fleet() -> None:
    draining = view(
        RunStatus.DRAINING,
        launches_fleets=False,
        has_manager=False,
        observed="none",
        buffer_is_drained=True,
    )

    assert decide(draining, now=NOON).action is Action.FINISH_DRAIN


def test_a_drain_is_cut_at_its_deadline() -> None:
    draining = reporting(RunStatus.DRAINING, observed="draining", drain_deadline_at=NOON)

    assert decide(draining, now=NOON).action is Action.END_DRAIN


def test_a_manager_that_dies_while_draining_is_not_replaced() -> None:
    draining = reporting(
        RunStatus.DRAINING, observed="draining", observed_at=seconds_ago(9), drain_deadline_at=None
    )

    assert decide(draining, now=NOON).action is Action.CHECK
    assert after_check(draining, ActorState.MISSING, now=NOON).action is Action.ABANDON


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.FAILED])
def test_a_run_that_ended_keeps_no_manager(status: RunStatus) -> None:
    decision = decide(reporting(status), now=NOON)

    assert decision.action is Action.END
    assert decision.reason == f"the run is {status}"


THRICE = tuple(seconds_ago(60 * s) for s in range(3))


@pytest.mark.parametrize(
    ("status", "launches", "action"),
    [
        (RunStatus.RUNNING, 2, Action.LAUNCH),
        (RunStatus.RUNNING, 3, Action.PAUSE),
        (RunStatus.STARTING, 3, Action.LAUNCH),  # it has never worked
    ],
)
def test_a_run_whose_workers_fail_three_times_is_paused(
    status: RunStatus, launches: int, action: Action
) -> None:
    failing = reporting(
        status, observed="failed", reason="no simulator", recent_launches_at=THRICE[:launches]
    )

    decision = decide(failing, now=NOON)

    assert decision.action is action
    assert "no simulator" in decision.reason or action is Action.LAUNCH


@pytest.mark.parametrize(("due", "action"), [(-1, Action.LAUNCH), (1, Action.WAIT)])
@pytest.mark.parametrize("has_manager", [True, False])
def test_an_outage_is_probed_by_a_launch(due: float, action: Action, has_manager: bool) -> None:
    paused = reporting(
        RunStatus.PAUSED,
        observed="failed",
        has_manager=has_manager,
        recent_launches_at=THRICE * 4,
        probe_at=seconds_ago(-due),
    )

    assert decide(paused, now=NOON).action is action


def test_a_fleet_that_samples_probes_needs_no_action() -> None:
    probing = reporting(RunStatus.PAUSED, probe_at=seconds_ago(1))

    assert decide(probing, now=NOON).action is Action.WAIT
    assert desired_of(RunStatus.PAUSED, is_probed=True) == "running"
