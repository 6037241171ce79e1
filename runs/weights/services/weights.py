"""Store the weights that trainers publish.

A file is complete before any row names it, so a version is either fully readable or unpublished.
Only the newest files are kept; the rows stay.
"""

import contextlib
import hashlib
import os
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
from rolldeck.wire import InvalidMessage, WeightsManifest
from runs.events.services import record_event
from runs.lifecycle.models.runs import PolicyVersion, Run, Trainer
from runs.lifecycle.queries.runs import RunNotFound
from runs.weights.queries import newest_command
from runs.weights.rules.manifests import differing_field
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
    run = Run.objects.current().filter(pk=run_id).first()
    known = _known_or_allowed(run, run_id, manifest)
    if known is not None:
        return known, False
    _check_size(manifest.size_bytes)
    name = ""
    if file is not None:
        check_disk()
        _check_file(file, manifest)
        name = _stored(run_id, manifest, file)
    try:
        return _published(run_id=run_id, manifest=manifest, name=name, identity=identity, now=now)
    except BaseException:
        if name:
            default_storage.delete(name)
        raise


def _known_or_allowed(
    run: Run | None, run_id: int, manifest: WeightsManifest
) -> PolicyVersion | None:
    """Return the version if it is already published; None if it may be published."""
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
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
    _check_header(file, manifest)


def _check_header(file: "File[bytes]", manifest: WeightsManifest) -> None:
    file.seek(0)
    try:
        header = safetensors.read_header(file, file_bytes=file.size)
    except InvalidMessage as error:
        raise ManifestMismatch("weights", str(error)) from error
    differing = differing_field(
        header,
        expected=[(spec.name, spec.dtype, tuple(spec.shape)) for spec in manifest.tensors],
    )
    if differing is not None:
        raise ManifestMismatch(f"manifest.{differing[0]}", differing[1])


def _stored(run_id: int, manifest: WeightsManifest, file: "File[bytes]") -> str:
    """Store the file under a unique name and return the name."""
    file.seek(0)
    name = default_storage.save(
        f"weights/{run_id}/{manifest.epoch}-{manifest.step}.safetensors", file
    )
    # An announced version must survive a power loss; object stores guarantee that.
    with contextlib.suppress(NotImplementedError), Path(default_storage.path(name)).open() as kept:
        os.fsync(kept.fileno())
    return name


@transaction.atomic
def _published(
    *, run_id: int, manifest: WeightsManifest, name: str, identity: str, now: datetime
) -> tuple[PolicyVersion, bool]:
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    known = _known_or_allowed(run, run_id, manifest)
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
