"""An alert is raised once, acknowledged by people, and cleared with its condition."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from runs.alerts.models import Alert
from runs.alerts.queries.alert_lists import AlertNotFound, alert_summary
from runs.alerts.rules import SEEN_AT_MOST, AlertKind, AlertState, Condition, Severity
from runs.alerts.services import alerts
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from runs.lifecycle.services.registry import record_waiting_environment
from tests.alert_evaluation import evaluate_alerts
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def raised(**fields: object) -> Alert:
    given = {"kind": AlertKind.DISK_LOW, "message": "little room", **fields}
    alert_id = alerts.raise_alert(Condition(**given), now=NOON)  # type: ignore[arg-type]
    return Alert.objects.get(pk=alert_id)


def test_repeated_conditions_are_counted_and_not_notified_again() -> None:
    first = raised()
    again = alerts.raise_alert(
        Condition(kind=AlertKind.DISK_LOW, message="less room"), now=NOON + later(9)
    )

    alert = Alert.objects.get()
    assert again == first.pk == alert.pk
    assert (alert.times_seen, alert.message, alert.state) == (2, "less room", "open")
    assert (alert.first_seen_at, alert.last_seen_at) == (NOON, NOON + later(9))


@pytest.mark.django_db(transaction=True)
def test_simultaneous_evaluations_raise_one_alert() -> None:
    begin = threading.Barrier(8)

    def see() -> None:
        begin.wait()
        raised()
        connection.close()

    threads = [threading.Thread(target=see) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Alert.objects.get().times_seen == 8


def test_the_same_condition_of_another_run_is_another_alert() -> None:
    runs = [make_run(name="one"), make_run(name="two")]
    for run in runs:
        raised(kind=AlertKind.RUN_STALLED, run_id=run.pk)

    assert {*Alert.objects.values_list("run__name", flat=True)} == {"one", "two"}


def test_an_acknowledgement_has_actor_and_reason_and_is_audited() -> None:
    alert = raised()
    for actor in ("user:ada", "user:bob"):
        alerts.acknowledge(alert_id=alert.pk, actor=actor, reason="I am at it", now=NOON)

    alert.refresh_from_db()
    assert (alert.state, alert.acknowledged_by) == (AlertState.ACKNOWLEDGED, "user:ada")
    event = RunEvent.objects.get(kind="alert_acknowledged")
    assert (event.run, event.actor, event.reason) == (None, "user:ada", "I am at it")
    summary = alert_summary(now=NOON)
    assert (summary.errors, summary.acknowledged) == (0, 1)


def test_a_resolved_alert_needs_no_attention() -> None:
    alert = raised()
    for actor in ("user:ada", "user:bob"):
        alerts.resolve(alert_id=alert.pk, actor=actor, now=NOON)

    with pytest.raises(alerts.AlertResolved):
        alerts.acknowledge(alert_id=alert.pk, actor="user:ada", now=NOON)
    with pytest.raises(AlertNotFound):
        alerts.resolve(alert_id=alert.pk + 1, actor="user:ada", now=NOON)
    alert.refresh_from_db()
    assert alert.resolved_by == "user:ada"
    assert RunEvent.objects.filter(kind="alert_resolved").count() == 1


def test_a_condition_that_returns_after_its_resolution_is_another_alert() -> None:
    first = raised(kind=AlertKind.ITEMS_CORRUPT)
    alerts.resolve(alert_id=first.pk, actor="user:ada", now=NOON)

    second = raised(kind=AlertKind.ITEMS_CORRUPT)

    assert second.pk != first.pk
    assert Alert.objects.filter(cleared_at=None).get() == second


def test_a_failed_run_raises_an_alert_until_it_is_started_again() -> None:
    run = make_run(status=RunStatus.FAILED, status_reason="no seat on the cluster")

    assert alerts.watch(now=NOON) == 1
    assert alerts.watch(now=NOON + later(5)) == 0
    alert = Alert.objects.get()
    assert (alert.kind, alert.severity, alert.run_id) == ("run_failed", Severity.ERROR, run.pk)
    assert alert.message == "alpha failed: no seat on the cluster"
    assert (alert.times_seen, alert.last_seen_at) == (1, NOON)

    change_status(run_id=run.pk, verb=RunVerb.START, actor="user:ada", now=NOON + later(40))
    assert alerts.watch(now=NOON + later(45)) == 1
    alert.refresh_from_db()
    assert (alert.state, alert.resolved_by) == (AlertState.RESOLVED, "platform")
    assert alert.cleared_at == NOON + later(45)


def test_a_lasting_condition_updates_its_last_time() -> None:
    make_run(status=RunStatus.FAILED)
    alerts.watch(now=NOON)
    for seconds in (10, 20, 31):
        alerts.watch(now=NOON + later(seconds))

    assert Alert.objects.get().last_seen_at == NOON + later(31)


def test_manually_resolved_alerts_notify_again_only_when_they_return() -> None:
    run = make_run(status=RunStatus.FAILED)
    alerts.watch(now=NOON)
    alerts.resolve(alert_id=Alert.objects.get().pk, actor="user:ada", now=NOON)

    assert alerts.watch(now=NOON + later(5)) == 0
    Run.objects.filter(pk=run.pk).update(status=RunStatus.STOPPED)
    alerts.watch(now=NOON + later(10))
    Run.objects.filter(pk=run.pk).update(status=RunStatus.FAILED)
    alerts.watch(now=NOON + later(15))

    first, second = Alert.objects.order_by("pk")
    assert (first.state, first.resolved_by) == (AlertState.RESOLVED, "user:ada")
    assert (first.cleared_at, second.state) == (NOON + later(10), AlertState.OPEN)


def test_a_run_that_does_not_start_has_a_reason() -> None:
    make_run(status=RunStatus.STARTING, status_reason="the cluster has no GPU")

    evaluate_alerts(now=NOON + later(170))
    assert not Alert.objects.exists()
    evaluate_alerts(now=NOON + later(190))
    assert Alert.objects.get().message.endswith("3 min: the cluster has no GPU")


def test_an_outside_run_that_does_not_start_waits_for_its_trainer() -> None:
    run = make_run(kind="outside", status=RunStatus.QUEUED)
    for name in ("math", "code"):
        record_waiting_environment(run_id=run.pk, name=name, now=NOON + later(180))

    evaluate_alerts(now=NOON + later(190))
    assert Alert.objects.get().message == (
        "alpha has waited for its trainer for more than 3 min; waiting environments: code, math"
    )
    evaluate_alerts(now=NOON + later(900))
    assert Alert.objects.get().message == "alpha has waited for its trainer for more than 3 min"


def test_a_run_that_does_not_start_because_its_weights_are_refused_names_them() -> None:
    run = make_run(status=RunStatus.STARTING)
    problem = "The weights of version 0 do not fit: body.0.weight is missing"
    record_event(run_id=run.pk, kind="weights_refused", message=problem, actor="fleet", now=NOON)

    evaluate_alerts(now=NOON + later(190))

    assert Alert.objects.get().message == (
        f"alpha has been starting for more than 3 min: {problem}"
    )


def test_a_ledger_that_does_not_balance_raises_an_alert_until_it_does() -> None:
    run = make_run(status=RunStatus.COMPLETED, ledger_problem="2 groups too many")
    alerts.watch(now=NOON)
    assert Alert.objects.get().kind == "ledger_unbalanced"

    Run.objects.filter(pk=run.pk).update(ledger_problem="")
    alerts.watch(now=NOON)
    assert Alert.objects.get().state == AlertState.RESOLVED


@pytest.fixture
def sights() -> Iterator[list[Condition]]:
    """Conditions returned by the check of corrupt items, filled by the tests."""
    kinds = frozenset({AlertKind.ITEMS_CORRUPT})
    seen: list[Condition] = []
    alerts.register(kinds, lambda _now: list(seen))
    yield seen
    del alerts._evaluators[kinds]


def test_conditions_beyond_the_limit_of_an_evaluation_are_not_resolved(
    sights: list[Condition],
) -> None:
    first, other = (
        Condition(kind=AlertKind.ITEMS_CORRUPT, message=name, subject=name) for name in "ab"
    )
    sights.append(first)
    alerts.watch(now=NOON)

    sights[:] = [other] * SEEN_AT_MOST
    alerts.watch(now=NOON + later(5))
    assert {*Alert.objects.values_list("subject", "state")} == {("a", "open"), ("b", "open")}

    sights[:] = [other]
    alerts.watch(now=NOON + later(10))
    assert Alert.objects.get(subject="a").state == AlertState.RESOLVED


@pytest.fixture
def broken_look() -> Iterator[None]:
    """A failing check, of a kind that has an alert."""
    kinds = frozenset({AlertKind.ITEMS_CORRUPT})

    def look(_now: object) -> list[Condition]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")
        return []

    alerts.register(kinds, look)
    yield
    del alerts._evaluators[kinds]


def test_a_failed_check_keeps_its_alerts_and_blocks_no_other(broken_look: None) -> None:
    corrupt = raised(kind=AlertKind.ITEMS_CORRUPT)
    make_run(status=RunStatus.FAILED)

    alerts.watch(now=NOON)

    corrupt.refresh_from_db()
    assert corrupt.state == AlertState.OPEN
    assert Alert.objects.filter(kind="run_failed").exists()


@pytest.mark.django_db(transaction=True)
def test_simultaneous_passes_run_once() -> None:
    make_run(status=RunStatus.FAILED)
    counts: list[int] = []
    begin = threading.Barrier(4)

    def look() -> None:
        begin.wait()
        counts.append(alerts.watch(now=NOON))
        connection.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(counts) == 1
    assert Alert.objects.get().times_seen == 1
