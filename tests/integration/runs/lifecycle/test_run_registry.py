import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from runs.access.services.tokens import authenticate
from runs.lifecycle.models import Environment, Run, Trainer
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import Registration, RunStatus
from runs.lifecycle.services.registry import (
    RunIsOver,
    default_run,
    disconnect_environment,
    register_environment,
    register_trainer,
    reset_run,
)
from tests.factories import NOON, make_run, make_token

STOCK = Registration(
    wandb_group="g",
    wandb_project="p",
    batch_size=8,
    max_token_len=512,
    checkpoint_dir="/c",
    save_checkpoint_interval=10,
    starting_step=3,
    num_steps=100,
)


def register(run: Run, identity: str = "token:1", **more: Any) -> Trainer:
    return register_trainer(run_id=run.pk, identity=identity, now=NOON, **more)


def join(run: Run, name: str = "gsm8k", **more: Any) -> Environment:
    fields = {
        "desired_name": name,
        "weight": 1.0,
        "max_token_length": 512,
        "group_size": 4,
        "min_batch_allocation": None,
    }
    return register_environment(run_id=run.pk, now=NOON, **(fields | more))


@pytest.mark.django_db
def test_the_first_trainer_opens_the_run_and_its_first_epoch() -> None:
    run = make_run(status=RunStatus.STARTING)

    trainer = register(run, name="ppo")

    run.refresh_from_db()
    assert (run.epoch, run.policy_step, run.registered_at) == (1, -2, NOON)
    assert (trainer.epoch, trainer.name) == (1, "ppo")
    assert run.status == RunStatus.STARTING


@pytest.mark.django_db
def test_the_first_stock_trainer_configures_the_run_for_later_ones() -> None:
    run = default_run(now=NOON)

    first = register(run, "address:a", registration=STOCK)
    second = register(run, "address:b", registration=Registration(batch_size=99, max_token_len=1))

    run.refresh_from_db()
    assert (run.batch_size, run.max_token_len, run.wandb_group) == (8, 512, "g")
    assert (run.starting_step, run.num_steps, run.checkpoint_dir) == (3, 100, "/c")
    assert (run.status, run.epoch) == (RunStatus.RUNNING, 1)
    assert first.uuid != second.uuid


@pytest.mark.django_db
def test_a_restarted_stock_trainer_keeps_its_row_gets_a_new_uuid_and_opens_no_epoch() -> None:
    run = default_run(now=NOON)

    first = register(run, registration=STOCK)
    again = register(run, registration=STOCK)

    run.refresh_from_db()
    assert first.pk == again.pk
    assert first.uuid != again.uuid
    assert run.epoch == 1


@pytest.mark.django_db
def test_a_restarted_trainer_opens_an_epoch_and_one_that_resumes_does_not() -> None:
    run = make_run()
    register(run)
    Run.objects.filter(pk=run.pk).update(policy_step=7)

    resumed = register(run, resume=True)
    run.refresh_from_db()
    assert (resumed.epoch, run.epoch, run.policy_step) == (1, 1, 7)

    restarted = register(run)
    run.refresh_from_db()
    assert (restarted.epoch, run.epoch, run.policy_step) == (2, 2, -2)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.FAILED])
def test_an_ended_run_refuses_trainers(status: RunStatus) -> None:
    run = make_run(status=status)

    with pytest.raises(RunIsOver, match=f"alpha is {status}"):
        register(run)
    with pytest.raises(RunIsOver):
        join(run)

    assert not Trainer.objects.exists()


@pytest.mark.django_db
def test_environments_count_from_zero_in_each_run_and_for_each_name() -> None:
    run, other = make_run(name="alpha"), make_run(name="beta")

    joined = [join(run), join(run, "math"), join(run), join(other)]

    assert [(e.env_id, e.wandb_name) for e in joined] == [
        (0, "gsm8k_0"),
        (1, "math_0"),
        (2, "gsm8k_1"),
        (0, "gsm8k_0"),
    ]


@pytest.mark.django_db
def test_a_disconnect_is_recorded_once_and_an_unknown_environment_is_false() -> None:
    run = make_run()
    join(run)

    for _ in range(2):
        assert disconnect_environment(run_id=run.pk, env_id=0, now=NOON)
    assert not disconnect_environment(run_id=run.pk, env_id=1, now=NOON)

    assert not Environment.objects.get(run=run).connected
    assert run.events.filter(kind="environment_disconnected").count() == 1


@pytest.mark.django_db(transaction=True)
def test_sixteen_simultaneous_environments_get_sixteen_ids() -> None:
    run = make_run()
    barrier = threading.Barrier(16)

    def one(_: int) -> int:
        barrier.wait()
        try:
            return join(run).env_id
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(one, range(16)))

    assert sorted(ids) == list(range(16))


@pytest.mark.django_db(transaction=True)
def test_sixteen_first_requests_at_once_share_one_default_run() -> None:
    barrier = threading.Barrier(16)

    def one(_: int) -> int:
        barrier.wait()
        try:
            return default_run(now=NOON).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        run_ids = set(pool.map(one, range(16)))

    run = Run.objects.get()
    assert run_ids == {run.pk}
    assert (run.name, run.kind, run.status) == ("default", "outside", RunStatus.QUEUED)
    assert run.events.count() == 1


@pytest.mark.django_db
def test_a_reset_archives_the_default_run_and_starts_another() -> None:
    old = default_run(now=NOON)
    register(old, registration=STOCK)
    join(old)
    later = NOON + timedelta(hours=1)

    fresh = reset_run(run_id=old.pk, actor="address:a", now=later)

    old.refresh_from_db()
    assert (old.archived_at, old.status) == (later, RunStatus.STOPPED)
    assert old.environments.count() == old.trainers.count() == 1
    assert default_run(now=later) == fresh
    assert (fresh.registered_at, fresh.status, fresh.is_default) == (None, RunStatus.QUEUED, True)


@pytest.mark.django_db
def test_a_named_outside_run_is_reset_like_the_default_one_and_a_fleet_run_is_not() -> None:
    outside, fleet = make_run(name="llm", kind="outside"), make_run()

    fresh = reset_run(run_id=outside.pk, actor="user:ada", now=NOON)

    assert (fresh.name, fresh.is_default) == ("llm", False)
    with pytest.raises(RunNotFound):
        reset_run(run_id=fleet.pk, actor="user:ada", now=NOON)


@pytest.mark.django_db
def test_tokens_of_a_run_stay_valid_over_a_reset() -> None:
    run, other = make_run(name="llm", kind="outside"), make_run(name="other", kind="outside")
    bound, text = make_token("env", run=run)
    elsewhere, _ = make_token("env", run=other)

    fresh = reset_run(run_id=run.pk, actor="user:ada", now=NOON)

    token = authenticate(text=text, address=None, now=NOON)
    assert token == bound
    assert token.run == fresh
    elsewhere.refresh_from_db()
    assert elsewhere.run == other


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("environment_id_is_one", {"env_id": 0}),
        ("environment_group_size_is_positive", {"group_size": 0}),
    ],
)
def test_the_database_refuses_invalid_environments(name: str, fields: dict[str, Any]) -> None:
    run = make_run()
    join(run)
    second = join(run)

    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Environment.objects.filter(pk=second.pk).update(**fields)
