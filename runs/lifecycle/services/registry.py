"""Registration of trainers and environments."""

import secrets
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction

from runs.access.models import ApiToken
from runs.config.rules.sections import search_terms
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import Environment, Run, RunKind, Trainer
from runs.lifecycle.queries import RunNotFound, current_run
from runs.lifecycle.rules import (
    NO_POLICY_STEP,
    SEEN_EVERY,
    TERMINAL,
    Registration,
    RunStatus,
    describe_differences,
    differences,
    opens_epoch,
    was_seen_recently,
)
from runs.lifecycle.services.lifecycle import DEFAULT_RUN_NAME, insert_run, move, open_epoch
from web.live.announcements import announce
from web.rules.errors import Conflict
from web.sql import first_row

# Environments that ask to register before a trainer has started.

KIND: Final = "environment_waits"
RECORDED_EVERY: Final = timedelta(minutes=1)
"""One environment asks once a second, and is recorded this often by one process."""
NAMES_AT_MOST: Final = 1000
SHOWN_AT_MOST: Final = 5
"""Maximum number of waiting environments in one answer."""
_recorded: dict[tuple[int, str], datetime] = {}
_lock = threading.Lock()


def record_waiting_environment(*, run_id: int, name: str, now: datetime) -> None:
    """Record an event of the run, at most once in :data:`RECORDED_EVERY` for each name."""
    with _lock:
        if len(_recorded) >= NAMES_AT_MOST:
            for key in [key for key, at in _recorded.items() if at < now - RECORDED_EVERY]:
                del _recorded[key]
        last = _recorded.get((run_id, name))
        if len(_recorded) >= NAMES_AT_MOST or (last is not None and now - last < RECORDED_EVERY):
            return
        _recorded[run_id, name] = now
    record_event(
        run_id=run_id,
        kind=KIND,
        message=f"environment {name} waits for a trainer to register and ask for a batch",
        actor=name,
        details={"name": name},
        now=now,
    )


def waiting_environments(run: Run, *, now: datetime) -> list[str]:
    """Return the environments that requested registration and wait for a trainer, by name."""
    if run.has_fleet or run.trainer_started_at is not None:
        return []
    events = RunEvent.objects.filter(run=run, kind=KIND, at__gte=now - 2 * RECORDED_EVERY)
    return list(events.order_by("actor").values_list("actor", flat=True).distinct()[:SHOWN_AT_MOST])


# Register trainers and environments, and manage the run at the server root.

# JSON clients read integers of up to 53 bits exactly.
UUID_BITS: Final = 53


class RunIsOver(Conflict):
    """The run has ended and accepts no registrations."""

    code = "run_over"
    title = "The run is over"


@transaction.atomic
def register_trainer(
    *,
    run_id: int,
    identity: str,
    name: str = "",
    resume: bool = False,
    registration: Registration | None = None,
    batch_size: int | None = None,
    now: datetime,
) -> Trainer:
    """Register a trainer; the first registration with settings configures an outside run.

    Args:
        run_id: A current run that has not ended.
        identity: Client that may take over the trainer's leases after a restart.
        name: Display name.
        resume: The trainer continues the current epoch.
        registration: Settings of a stock Atropos trainer.
        batch_size: Sequences per batch, for an outside run without a batch size.
        now: Time of registration.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If the run is completed, stopped or failed.
    """
    run = _open_run(run_id)
    known = Trainer.objects.filter(run=run, identity=identity).first()
    if opens_epoch(
        epoch=run.epoch,
        published=run.policy_step > NO_POLICY_STEP,
        known=known is not None,
        resume=resume,
        is_fleet=run.has_fleet,
        is_stock=registration is not None,
    ):
        open_epoch(run, actor=identity, now=now)
    _configure(run, registration, batch_size=batch_size, now=now)
    differing = None
    if registration is not None and not run.has_fleet:
        own = {field: getattr(run, field) for field in Registration.__slots__}
        differing = differences(registration, own)
    # A restarted trainer keeps its row, and with it its unacknowledged batch.
    trainer = known or Trainer(run=run, identity=identity)
    if known is None or not resume:
        trainer.uuid = secrets.randbits(UUID_BITS)
    trainer.name = name or trainer.name
    trainer.differences = differing
    trainer.epoch = run.epoch
    trainer.registered_at = trainer.last_seen_at = now
    trainer.save()
    if run.kind == RunKind.OUTSIDE and run.status == RunStatus.QUEUED:
        move(
            run_id=run.pk,
            target=RunStatus.RUNNING,
            actor=identity,
            reason="a trainer registered",
            now=now,
        )
    _record_registration(run, trainer, resume=resume, now=now)
    announce(run.pk, "run")
    return trainer


def _record_registration(run: Run, trainer: Trainer, *, resume: bool, now: datetime) -> None:
    name = trainer.name or trainer.identity
    record_event(
        run_id=run.pk,
        kind="trainer_registered",
        message=f"trainer {name} registered in epoch {run.epoch}",
        actor=trainer.identity,
        details={"uuid": trainer.uuid, "epoch": run.epoch, "resume": resume},
        now=now,
    )
    if trainer.differences:
        record_event(
            run_id=run.pk,
            kind="registration_differs",
            level="warning",
            message=f"the registration of {name} differs from the run: "
            + describe_differences(trainer.differences),
            actor=trainer.identity,
            details=trainer.differences,
            now=now,
        )


def _open_run(run_id: int) -> Run:
    run = current_run(run_id, lock=True)
    if run.status in TERMINAL:
        raise RunIsOver(f"{run.name} is {run.status}: registrations are closed")
    return run


def _configure(
    run: Run, registration: Registration | None, *, batch_size: int | None, now: datetime
) -> None:
    """Apply the settings of a registration that an outside run does not have yet."""
    settings: dict[str, Any] = {}
    if not run.has_fleet:
        # Every stock registration sets `max_token_len`; without it there was none.
        if registration is not None and run.max_token_len is None:
            settings = {name: getattr(registration, name) for name in Registration.__slots__}
        elif batch_size is not None:
            settings = {"batch_size": batch_size}
        if run.batch_size is not None:  # it is final
            settings.pop("batch_size", None)
    if run.registered_at is None and (settings or run.has_fleet):
        settings["registered_at"] = now
    if settings:
        for field, value in settings.items():
            setattr(run, field, value)
        run.save(update_fields=list(settings))


@transaction.atomic
def register_environment(
    *,
    run_id: int,
    desired_name: str,
    weight: float,
    max_token_length: int,
    group_size: int,
    min_batch_allocation: float | None,
    spec: str = "",
    now: datetime,
) -> Environment:
    """Register an environment; `env_id` counts from 0, `wandb_name` numbers equal names.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If the run is completed, stopped or failed.
    """
    run = _open_run(run_id)
    namesakes = run.environments.filter(desired_name=desired_name).count()
    environment = Environment.objects.create(
        run=run,
        env_id=run.environments.count(),
        desired_name=desired_name,
        wandb_name=f"{desired_name}_{namesakes}",
        spec=spec,
        weight=weight,
        max_token_length=max_token_length,
        group_size=group_size,
        min_batch_allocation=min_batch_allocation,
        registered_at=now,
        last_seen_at=now,
    )
    known = sorted({*run.environment_words, *search_terms([desired_name, spec])})
    if known != run.environment_words:
        Run.objects.filter(pk=run.pk).update(environment_words=known)
    record_event(
        run_id=run.pk,
        kind="environment_registered",
        message=f"environment {environment.wandb_name} registered",
        actor=environment.wandb_name,
        details={"env_id": environment.env_id},
        now=now,
    )
    announce(run.pk, "run")
    return environment


def renew_environments_seen(*, run_id: int, env_ids: Iterable[int], now: datetime) -> None:
    """Renew `last_seen_at` of environments; rows locked by other transactions are skipped."""
    rows = Environment.objects.filter(run_id=run_id, env_id__in=list(env_ids)).order_by("pk")
    with transaction.atomic():
        stale = rows.filter(last_seen_at__lt=now - SEEN_EVERY).select_for_update(skip_locked=True)
        found = list(stale.values_list("pk", "last_seen_at"))
        Environment.objects.filter(pk__in=[pk for pk, _ in found]).update(last_seen_at=now)
    if any(not was_seen_recently(seen_at, now=now) for _, seen_at in found):
        announce(run_id, "run")


def record_hold(environment: Environment, *, is_held: bool, now: datetime) -> None:
    """Record whether the status of an environment holds it back; writes only changes."""
    if is_held is (environment.held_at is not None):
        return
    changed = Environment.objects.filter(pk=environment.pk, held_at__isnull=is_held)
    if changed.update(held_at=now if is_held else None):
        announce(environment.run_id, "run")


@transaction.atomic
def disconnect_environment(*, run_id: int, env_id: int, now: datetime) -> bool:
    """Mark an environment as disconnected; return False if the run does not have it."""
    environment = Environment.objects.filter(run_id=run_id, env_id=env_id).first()
    if environment is None:
        return False
    if Environment.objects.filter(pk=environment.pk, connected=True).update(
        connected=False, last_seen_at=now
    ):
        record_event(
            run_id=run_id,
            kind="environment_disconnected",
            message=f"environment {environment.wandb_name} disconnected",
            actor=environment.wandb_name,
            details={"env_id": env_id},
            now=now,
        )
        announce(run_id, "run")
    return True


def default_run(*, now: datetime) -> Run:
    """Return the run at the server root, created on first use; it waits for a trainer."""
    run = first_row(Run, "is_default AND archived_at IS NULL", [])
    if run is not None:
        return run
    try:
        with transaction.atomic():
            return _new_outside_run(
                name=DEFAULT_RUN_NAME, is_default=True, actor="platform", now=now
            )
    except IntegrityError:
        # A concurrent request created the run first.
        return Run.objects.current().get(is_default=True)


def _new_outside_run(*, actor: str, now: datetime, **fields: Any) -> Run:
    return insert_run(
        kind=RunKind.OUTSIDE,
        status=RunStatus.QUEUED,
        started_at=now,
        actor=actor,
        now=now,
        **fields,
    )


@transaction.atomic
def reset_run(*, run_id: int, actor: str, reason: str = "reset", now: datetime) -> Run:
    """Archive an outside run and return a new one of the same name; no row is deleted.

    Tokens bound to the run are rebound to the new one.

    Raises:
        RunNotFound: If there is no such current outside run.
    """
    run = Run.objects.current().select_for_update().filter(pk=run_id, kind=RunKind.OUTSIDE).first()
    if run is None:
        raise RunNotFound(f"no current outside run with id {run_id}")
    target = RunStatus.COMPLETED if run.awaits_next_training else RunStatus.STOPPED
    move(run_id=run.pk, target=target, actor=actor, reason=reason, now=now)
    Run.objects.filter(pk=run.pk).update(archived_at=now)
    record_event(
        run_id=run.pk,
        kind="archived",
        message="archived by a reset",
        actor=actor,
        reason=reason,
        now=now,
    )
    fresh = _new_outside_run(
        name=run.name,
        is_default=run.is_default,
        project_id=run.project_id,
        on_second_registration=run.on_second_registration,
        actor=actor,
        now=now,
    )
    # Clients address a run by name: their tokens stay valid for the new one.
    ApiToken.objects.filter(run=run).update(run=fresh)
    return fresh
