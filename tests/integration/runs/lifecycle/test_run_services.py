import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from runs.config.rules.run_config import InvalidRunConfig
from runs.config.services import UnknownPreset
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound, event_series
from runs.lifecycle.rules import MoveNotAllowed, RunStatus, RunVerb
from runs.lifecycle.services import lifecycle
from runs.lifecycle.services.lifecycle import (
    InvalidRunName,
    RunExists,
    UnexpectedConfig,
    create,
    move,
)
from tests.factories import NOON, make_run, make_user

LATER = NOON + timedelta(minutes=1)


def apply_verb(run: Run, verb: RunVerb, **more: Any) -> Run:
    return lifecycle.change_status(run_id=run.pk, verb=verb, actor="user:alice", now=LATER, **more)


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Run `act` in threads that start simultaneously, each with its own connection."""
    barrier = threading.Barrier(count)

    def create_default(index: int) -> Any:
        barrier.wait()
        try:
            return act(index)
        except Exception as error:  # noqa: BLE001 the test checks the exception
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(create_default, range(count)))


@pytest.mark.django_db
def test_a_fleet_run_begins_as_a_draft_with_its_whole_configuration() -> None:
    run = create(
        name="alpha",
        preset="cartpole",
        config={"buffer": {"batch_size": 4}},
        created_by=make_user(),
        now=NOON,
    )

    assert run.status == RunStatus.DRAFT
    assert run.batch_size == run.config["buffer"]["batch_size"] == 4
    assert run.config["environment"]["spec"] == "gymnasium:CartPole-v1"
    assert run.lease_seconds == run.config["buffer"]["lease_seconds"]
    event = RunEvent.objects.get(run=run)
    assert (event.kind, event.actor, event.at) == ("created", "user:alice", NOON)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": ""}, InvalidRunName),
        ({"name": "a b"}, InvalidRunName),
        ({"name": "default"}, InvalidRunName),
        ({"name": "new"}, InvalidRunName),
        ({"preset": "nope"}, UnknownPreset),
        ({"config": {"buffer": {"batch_size": 0}}}, InvalidRunConfig),
        ({"config": {"environment": {"spec": "gymnasium:Nope-v1"}}}, InvalidRunConfig),
        ({"config": {"environment": {"kwargs": {"a": "\x00"}}}}, InvalidRunConfig),
        ({"config": {"environment": {"kwargs": {"a": float("inf")}}}}, InvalidRunConfig),
        ({"kind": "outside", "config": {"seed": 1}}, UnexpectedConfig),
    ],
    ids=str,
)
def test_an_invalid_run_is_refused_and_not_stored(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        create(**({"name": "alpha", "now": NOON} | fields))

    assert not Run.objects.exists()
    assert not RunEvent.objects.exists()


@pytest.mark.django_db
def test_a_name_is_taken_once_among_current_runs_and_free_again_after_the_archive() -> None:
    first = make_run()
    with pytest.raises(RunExists):
        make_run()

    Run.objects.filter(pk=first.pk).update(archived_at=NOON)

    assert make_run().pk != first.pk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        (RunVerb.START, RunStatus.DRAFT, RunStatus.QUEUED),
        (RunVerb.START, RunStatus.STOPPED, RunStatus.QUEUED),
        (RunVerb.PAUSE, RunStatus.RUNNING, RunStatus.PAUSED),
        (RunVerb.RESUME, RunStatus.PAUSED, RunStatus.RUNNING),
        (RunVerb.DRAIN, RunStatus.RUNNING, RunStatus.DRAINING),
        (RunVerb.STOP, RunStatus.PAUSED, RunStatus.DRAINING),
        (RunVerb.KILL, RunStatus.DRAINING, RunStatus.STOPPED),
        (RunVerb.KILL, RunStatus.DRAFT, RunStatus.STOPPED),
    ],
)
def test_a_verb_changes_the_state_and_the_event_has_actor_time_and_reason(
    verb: RunVerb, before: RunStatus, after: RunStatus
) -> None:
    run = make_run(status=before)

    moved = apply_verb(run, verb, reason="because")

    assert (moved.status, moved.status_reason, moved.status_changed_at) == (after, "because", LATER)
    event = RunEvent.objects.filter(run=run, kind="status").get()
    assert (event.actor, event.at, event.reason) == ("user:alice", LATER, "because")
    assert event.details == {"from": before, "to": after, "verb": verb}


@pytest.mark.django_db
def test_a_started_outside_run_is_running_at_once() -> None:
    run = make_run(kind="outside", status=RunStatus.DRAFT)

    assert apply_verb(run, RunVerb.START).status == RunStatus.RUNNING


@pytest.mark.django_db
def test_a_second_start_names_the_present_status_and_writes_nothing() -> None:
    run = make_run(status=RunStatus.RUNNING)

    with pytest.raises(MoveNotAllowed, match="alpha is running"):
        apply_verb(run, RunVerb.START)

    assert not RunEvent.objects.filter(run=run, kind="status").exists()


@pytest.mark.django_db
def test_a_drain_ends_as_completed_without_a_deadline_and_a_stop_with_one() -> None:
    drained = apply_verb(make_run(name="a"), RunVerb.DRAIN)
    stopped = apply_verb(make_run(name="b"), RunVerb.STOP, deadline_seconds=5)

    assert (drained.drain_target, drained.drain_deadline_at) == (RunStatus.COMPLETED, None)
    assert stopped.drain_target == RunStatus.STOPPED
    assert stopped.drain_deadline_at == LATER + timedelta(seconds=5)


@pytest.mark.django_db
def test_a_late_transition_changes_nothing() -> None:
    run = make_run(status=RunStatus.STOPPED)

    moved = move(run_id=run.pk, target=RunStatus.RUNNING, actor="fleet", now=LATER)

    assert not moved
    assert Run.objects.get(pk=run.pk).status == RunStatus.STOPPED


@pytest.mark.django_db
def test_a_transition_ends_its_drain() -> None:
    run = apply_verb(make_run(), RunVerb.STOP)

    assert move(run_id=run.pk, target=RunStatus.STOPPED, actor="fleet", now=LATER)

    run.refresh_from_db()
    assert (run.status, run.drain_target, run.drain_deadline_at) == (RunStatus.STOPPED, "", None)


@pytest.mark.django_db
def test_an_archived_run_refuses_verbs() -> None:
    run = make_run(archived_at=NOON)

    with pytest.raises(RunNotFound):
        apply_verb(run, RunVerb.KILL)


@pytest.mark.django_db(transaction=True)
def test_of_eight_starts_at_once_one_starts_the_run() -> None:
    run = make_run(status=RunStatus.DRAFT)

    answers = together(8, lambda _: apply_verb(run, RunVerb.START))

    assert [type(answer) for answer in answers].count(MoveNotAllowed) == 7
    assert RunEvent.objects.filter(run=run, kind="status").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_eight_creations_of_one_name_at_once_one_succeeds() -> None:
    answers = together(8, lambda _: create(name="alpha", now=NOON))

    assert [type(answer) for answer in answers].count(RunExists) == 7
    assert Run.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("run_status_is_known", {"status": "dancing"}),
        ("run_batch_size_is_positive", {"batch_size": 0}),
        ("run_draining_has_a_target", {"status": "draining", "drain_target": ""}),
    ],
)
def test_the_database_refuses_invalid_runs(name: str, fields: dict[str, Any]) -> None:
    run = make_run()

    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**fields)


@pytest.mark.django_db
def test_the_event_series_is_read_oldest_first_from_either_end() -> None:
    run = make_run()
    for number in range(5):
        record_event(run_id=run.pk, kind="note", message=str(number), actor="tests", now=NOON)

    newest = event_series(run.pk, None, 3)
    older = event_series(run.pk, newest[0].id, 1)

    assert [row.message for row in newest] == ["2", "3", "4"]
    assert [row.message for row in older] == ["3"]


@pytest.mark.django_db
def test_the_event_of_a_rolled_back_transition_is_not_stored() -> None:
    run = make_run()

    with transaction.atomic():
        apply_verb(run, RunVerb.PAUSE)
        transaction.set_rollback(True)

    run.refresh_from_db()
    assert run.status == RunStatus.RUNNING
    assert not RunEvent.objects.filter(kind="status").exists()


@pytest.mark.django_db
def test_a_run_has_the_time_of_its_last_start() -> None:
    run = make_run(kind="outside", status=RunStatus.DRAFT)
    assert run.started_at is None

    started = apply_verb(run, RunVerb.START)
    paused = lifecycle.change_status(
        run_id=run.pk, verb=RunVerb.PAUSE, actor="user:alice", now=LATER + timedelta(hours=1)
    )

    assert started.started_at == paused.started_at == LATER
