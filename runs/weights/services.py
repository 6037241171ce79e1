"""Store, hold and delete versions of the weights.

Store the weights that trainers publish.

A file is complete before any row names it, so a version is either fully readable or unpublished.
Only the newest files are kept; the rows stay.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import transaction

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    WeightsManifest,
)
from runs.events.services import record_event
from runs.lifecycle.models import PolicyVersion, Run, RunKind, Trainer
from runs.lifecycle.queries import NoWeights, current_run, weights_directory
from runs.lifecycle.rules import NO_POLICY_STEP, TERMINAL
from runs.lifecycle.services.deletion import remove_files, size_of_files
from runs.lifecycle.services.registry import RunIsOver
from runs.lifecycle.services.settings import NoFleet
from runs.weights.models import WeightsCommand
from runs.weights.queries import newest_command, pinned_step
from runs.weights.rules import differing_field
from web.disk_space import check_disk
from web.live.announcements import announce
from web.rules.errors import Conflict, FieldError, InvalidData, TooLarge

KEPT_FILES: Final = 4


class ManifestMismatch(FieldError, InvalidData):
    """The file differs from its manifest; `field` is the differing part."""

    code = "manifest_mismatch"
    title = "The file does not match the manifest"


class StaleEpoch(Conflict):
    """The trainer's session has been replaced by a newer one."""

    code = "stale_epoch"
    title = "Another trainer session is open"
    field = "manifest.epoch"


class VersionNotNewer(Conflict):
    """The run already has this step or a later one."""

    code = "version_not_newer"
    title = "Not a newer version"
    field = "manifest.step"


class WeightsTooLarge(TooLarge):
    """The file exceeds the size limit."""

    field = "weights"


def publish_weights(
    *,
    run_id: int,
    manifest: WeightsManifest,
    file: "File[bytes] | None",
    identity: str,
    now: datetime,
) -> tuple[PolicyVersion, bool]:
    """Store a new policy version and make it the run's current one.

    Uploading the same version again returns the same result. A version without a file is in the
    directory shared by trainer and fleet; readers verify it.

    Returns:
        The version, and whether it is new.

    Raises:
        RunNotFound: If there is no such current run.
        StaleEpoch: If the run is in another epoch than the manifest.
        VersionNotNewer: If the run has this step (with other bytes) or a later one.
        WeightsTooLarge: If the file exceeds the limit.
        ManifestMismatch: If the file differs from the manifest; `field` is the path.
        DiskFull: If a file is given and free disk space is below the minimum.
    """
    # Checked before reading the file, which may take long, and again with the run locked.
    known = _known_or_allowed(current_run(run_id), manifest)
    if known is not None:
        return known, False
    _check_size(manifest.size_bytes)
    name = ""
    if file is not None:
        check_disk()
        _check_file(file, manifest)
        file.seek(0)
        name = default_storage.save(
            f"weights/{run_id}/{manifest.epoch}-{manifest.step}.safetensors", file
        )
        # An announced version must survive a power loss; object stores guarantee that.
        with (
            contextlib.suppress(NotImplementedError),
            Path(default_storage.path(name)).open() as kept,
        ):
            os.fsync(kept.fileno())
    try:
        return _published(run_id=run_id, manifest=manifest, name=name, identity=identity, now=now)
    except BaseException:
        if name:
            default_storage.delete(name)
        raise


def _known_or_allowed(run: Run, manifest: WeightsManifest) -> PolicyVersion | None:
    """Return the version if it is already published; None if it may be published."""
    known = PolicyVersion.objects.filter(
        run=run, epoch=manifest.epoch, step=manifest.step, sha256=manifest.sha256
    ).first()
    if known is not None:
        return known
    if manifest.epoch != run.epoch:
        raise StaleEpoch(
            f"{run.name} is in epoch {run.epoch}, the weights have epoch {manifest.epoch}"
        )
    if manifest.step <= run.policy_step:
        raise VersionNotNewer(
            f"{run.name} is at step {run.policy_step}; step {manifest.step} is not newer"
        )
    return None


def _check_size(size_bytes: int) -> None:
    most = settings.ROLLDECK_MAX_WEIGHTS_BYTES
    if size_bytes > most:
        raise WeightsTooLarge(f"{size_bytes} bytes exceed the limit {most}")


def _check_file(file: "File[bytes]", manifest: WeightsManifest) -> None:
    _check_size(file.size)
    if file.size != manifest.size_bytes:
        raise ManifestMismatch("manifest.size_bytes", f"the file has {file.size} bytes")
    digest = hashlib.sha256()
    for chunk in file.chunks():
        digest.update(chunk)
    if digest.hexdigest() != manifest.sha256:
        raise ManifestMismatch("manifest.sha256", f"the file has {digest.hexdigest()}")
    file.seek(0)
    try:
        header = safetensors.read_header(file, file_bytes=file.size)
    except InvalidMessageError as error:
        raise ManifestMismatch("weights", str(error)) from error
    differing = differing_field(
        header, expected=[(spec.name, spec.dtype, tuple(spec.shape)) for spec in manifest.tensors]
    )
    if differing is not None:
        raise ManifestMismatch(f"manifest.{differing[0]}", differing[1])


@transaction.atomic
def _published(
    *, run_id: int, manifest: WeightsManifest, name: str, identity: str, now: datetime
) -> tuple[PolicyVersion, bool]:
    known = _known_or_allowed(current_run(run_id, lock=True), manifest)
    if known is not None:
        # A concurrent upload of the same version was first.
        if name:
            transaction.on_commit(partial(default_storage.delete, name))
        return known, False
    version = PolicyVersion.objects.create(
        run_id=run_id,
        epoch=manifest.epoch,
        step=manifest.step,
        trainer=Trainer.objects.filter(run_id=run_id, identity=identity).first(),
        manifest=msgspec.to_builtins(manifest),
        sha256=manifest.sha256,
        size_bytes=manifest.size_bytes,
        file=name,
        published_at=now,
    )
    Run.objects.filter(pk=run_id).update(policy_step=manifest.step)
    # Record only the first version: an event per version would bury all others.
    is_first = not PolicyVersion.objects.filter(
        run_id=run_id, epoch=manifest.epoch, step__lt=manifest.step
    ).exists()
    if is_first:
        record_event(
            run_id=run_id,
            kind="weights_published",
            message=f"first weights of epoch {manifest.epoch}: version {manifest.step}",
            actor=identity,
            details={"epoch": manifest.epoch, "step": manifest.step, "sha256": manifest.sha256},
            now=now,
        )
    announce(run_id, "weights", "run")
    _delete_old_files(run_id)
    return version, True


def _delete_old_files(run_id: int) -> None:
    kept = PolicyVersion.objects.filter(run_id=run_id).exclude(file="").order_by("-id")
    command = newest_command(run_id)
    if command is not None and command.pinned_step is not None:
        # A restarted manager needs the pinned version.
        kept = kept.exclude(epoch=command.epoch, step=command.pinned_step)
    for version in kept[KEPT_FILES:]:
        transaction.on_commit(partial(default_storage.delete, str(version.file.name)))
        PolicyVersion.objects.filter(pk=version.pk).update(file="")


def remove_weights(run_id: int, version_ids: Sequence[int]) -> int:
    """Remove the files of versions of a deleted run; return their size in bytes."""
    return remove_files(PolicyVersion.objects.filter(run_id=run_id, pk__in=version_ids))


def stored_weights_bytes(run_id: int) -> int:
    """Return the size of the stored weights of a run."""
    return size_of_files(PolicyVersion.objects.filter(run_id=run_id))


def remove_weights_directory(run_id: int, _ids: Sequence[int]) -> int:
    """Remove the folder of weights that a deleted run shared with its fleet; return its size."""
    run = Run.with_deleted.filter(pk=run_id).first()
    folder = weights_directory(run) if run else ""
    if not folder:
        return 0
    size = _bytes_below(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)
    return size


def weights_directory_bytes(run_id: int) -> int:
    """Return the size of the folder of weights that a run shares with its fleet."""
    folder = weights_directory(Run.objects.get(pk=run_id))
    return _bytes_below(Path(folder)) if folder else 0


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# Commands that pin, unpin or reload the weights of workers.


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
    # The trainer keeps as many files in the directory as the platform would.
    newer = PolicyVersion.objects.filter(run=run, pk__gt=version.pk)
    if not version.file and (not weights_directory(run) or newer.count() >= KEPT_FILES):
        raise VersionEvicted(
            f"the file of version {version.step} has been evicted; the newest {KEPT_FILES} are kept"
        )
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
    run = current_run(run_id, lock=True)
    if not run.has_fleet:
        raise NoFleet(f"{run.name} is an outside run without workers")
    if run.status in TERMINAL:
        raise RunIsOver(f"{run.name} is {run.status}: it has no workers")
    return run


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
