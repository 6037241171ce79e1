"""Commands that pin, unpin or reload the weights of workers."""

from datetime import datetime

from django.db import transaction

from runs.events.services import record_event
from runs.lifecycle.models.runs import PolicyVersion, Run, RunKind
from runs.lifecycle.queries.runs import NoWeights, RunNotFound, weights_directory
from runs.lifecycle.rules.lifecycle import TERMINAL
from runs.lifecycle.rules.versions import NO_POLICY_STEP
from runs.lifecycle.services.registry import RunIsOver
from runs.lifecycle.services.run_settings import NoFleet
from runs.weights.models import WeightsCommand
from runs.weights.queries import newest_command, pinned_step
from runs.weights.services.weights import KEPT_FILES
from web.live.announcements import announce
from web.rules.errors import Conflict


class VersionEvicted(Conflict):
    """The file of the version has been evicted."""

    code = "version_evicted"
    title = "Its file is gone"
    field = "step"


class CannotGoBack(Conflict):
    """Workers of a language run accept only later versions."""

    code = "cannot_go_back"
    title = "Only later versions"
    field = "step"


class NotPinned(Conflict):
    """No version is pinned."""

    code = "not_pinned"
    title = "No version is pinned"


@transaction.atomic
def pin_weights(
    *, run_id: int, step: int, actor: str, reason: str, now: datetime
) -> WeightsCommand:
    """Pin the workers to a version; pinning the same version again changes nothing.

    Newer versions are still published, so data of the pinned version becomes staler and is refused
    from `max_staleness` + 1 versions on. The pin ends with the epoch.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If the run has no fleet.
        NoWeights: If the version was never published in this epoch.
        VersionEvicted: If its file has been evicted.
        CannotGoBack: If it is older than the version in use by a language run.
    """
    run = _steerable(run_id)
    newest = newest_command(run_id)
    kept = pinned_step(run, newest)
    if newest is not None and kept == step:
        return newest
    version = PolicyVersion.objects.filter(run=run, epoch=run.epoch, step=step).first()
    if version is None:
        raise NoWeights(f"{run.name} has no version {run.epoch}.{step}")
    _check_stored(run, version)
    acting = run.policy_step if kept is None else kept
    if run.kind == RunKind.LANGUAGE and step < acting:
        raise CannotGoBack(
            f"workers of a language run accept only versions after {acting}; "
            "publish the earlier weights as a new version"
        )
    return _record_command(run, kind="pin", step=step, actor=actor, reason=reason, now=now)


@transaction.atomic
def unpin_weights(*, run_id: int, actor: str, reason: str, now: datetime) -> WeightsCommand:
    """Unpin the workers; they follow the newest version again.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If the run has no fleet.
        NotPinned: If no version is pinned.
    """
    run = _steerable(run_id)
    if pinned_step(run, newest_command(run_id)) is None:
        raise NotPinned(f"no version of {run.name} is pinned")
    return _record_command(run, kind="unpin", step=None, actor=actor, reason=reason, now=now)


@transaction.atomic
def sync_weights(*, run_id: int, actor: str, reason: str, now: datetime) -> WeightsCommand:
    """Make the fleet fetch the current version again, and every worker reload it.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If it is completed, stopped or failed.
        NoFleet: If the run has no fleet.
        NoWeights: If no version was published in this epoch.
    """
    run = _steerable(run_id)
    if run.policy_step == NO_POLICY_STEP:
        raise NoWeights(f"{run.name} has no weights yet")
    step = pinned_step(run, newest_command(run_id))
    return _record_command(run, kind="sync", step=step, actor=actor, reason=reason, now=now)


def _steerable(run_id: int) -> Run:
    """Return the run, locked against publications and other commands."""
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
    if not run.has_fleet:
        raise NoFleet(f"{run.name} is an outside run without workers")
    if run.status in TERMINAL:
        raise RunIsOver(f"{run.name} is {run.status}: it has no workers")
    return run


def _check_stored(run: Run, version: PolicyVersion) -> None:
    if version.file:
        return
    # The trainer keeps as many files in the directory as the platform would.
    newer = PolicyVersion.objects.filter(run=run, pk__gt=version.pk)
    if not weights_directory(run) or newer.count() >= KEPT_FILES:
        raise VersionEvicted(
            f"the file of version {version.step} has been evicted; the newest {KEPT_FILES} are kept"
        )


def _record_command(
    run: Run, *, kind: str, step: int | None, actor: str, reason: str, now: datetime
) -> WeightsCommand:
    before = newest_command(run.pk)
    command = WeightsCommand.objects.create(
        run=run,
        number=before.number + 1 if before else 1,
        kind=kind,
        epoch=run.epoch,
        pinned_step=step,
        newest_step=run.policy_step,
        actor=actor,
        reason=reason,
        at=now,
    )
    words = {
        "pin": f"workers keep version {step}",
        "unpin": "workers follow the newest version again",
        "sync": f"workers reload version {run.policy_step if step is None else step}",
    }
    record_event(
        run_id=run.pk,
        kind={"pin": "weights_pinned", "unpin": "weights_unpinned", "sync": "weights_synced"}[kind],
        message=words[kind],
        actor=actor,
        reason=reason,
        details={"order": command.number, "pinned_step": step, "newest_step": run.policy_step},
        now=now,
    )
    announce(run.pk, "operator_requests", "weights", "fleet")
    return command
