import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from safetensors.numpy import load, save

from rolldeck.wire import TensorSpec, WeightsManifest
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.queries import (
    NoWeights,
    WeightsMissing,
    current_weights,
    weights,
    weights_file,
)
from runs.weights.services import (
    KEPT_FILES,
    ManifestMismatch,
    StaleEpoch,
    VersionNotNewer,
    WeightsTooLarge,
    publish_weights,
)
from tests.factories import NOON, make_run

FILE = save({"w": np.ones((2, 3), np.float32)})


def manifest(**fields: Any) -> WeightsManifest:
    described = {
        "epoch": 1,
        "step": 0,
        "sha256": hashlib.sha256(FILE).hexdigest(),
        "size_bytes": len(FILE),
        "tensors": [TensorSpec(name="w", dtype="F32", shape=[2, 3])],
    }
    return WeightsManifest(**(described | fields))


def publish(run: Run, file: bytes = FILE, **fields: Any) -> tuple[PolicyVersion, bool]:
    return publish_weights(
        run_id=run.pk,
        manifest=manifest(**fields),
        file=ContentFile(file, name="weights"),
        identity="token:1",
        now=NOON,
    )


@pytest.fixture
def run(db: None) -> Run:
    return make_run(epoch=1)


def stored_files(run: Run) -> set[str]:
    folder = f"weights/{run.pk}"
    return set(default_storage.listdir(folder)[1]) if default_storage.exists(folder) else set()


def test_published_weights_are_current_complete_and_an_event(run: Run) -> None:
    version, is_new = publish(run)

    run.refresh_from_db()
    assert is_new
    assert run.policy_step == 0
    assert current_weights(run=run) == version
    with weights_file(version) as file:
        assert file.read() == FILE
    assert RunEvent.objects.get(kind="weights_published").details["step"] == 0


def test_later_versions_of_an_epoch_add_no_events(run: Run) -> None:
    publish(run)
    publish(run, step=1)

    assert RunEvent.objects.filter(kind="weights_published").count() == 1
    assert PolicyVersion.objects.filter(run=run).count() == 2


def test_a_repeated_version_is_answered_as_before(run: Run) -> None:
    first, _ = publish(run)
    publish(run, step=1)

    again, is_new = publish(run)

    assert (again.pk, is_new) == (first.pk, False)
    assert PolicyVersion.objects.count() == 2
    run.refresh_from_db()
    assert run.policy_step == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"size_bytes": len(FILE) + 1}, "manifest.size_bytes"),
        ({"sha256": "0" * 64}, "manifest.sha256"),
        (
            {"tensors": [TensorSpec(name="v", dtype="F32", shape=[2, 3])]},
            "manifest.tensors[0].name",
        ),
        (
            {"tensors": [TensorSpec(name="w", dtype="F16", shape=[2, 3])]},
            "manifest.tensors[0].dtype",
        ),
        ({"tensors": [TensorSpec(name="w", dtype="F32", shape=[6])]}, "manifest.tensors[0].shape"),
        ({"tensors": []}, "manifest.tensors"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_contradicts_its_manifest_is_refused_with_its_field(
    run: Run, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ManifestMismatch) as caught:
        publish(run, **fields)

    assert caught.value.field == field
    assert not PolicyVersion.objects.exists()
    assert not stored_files(run)


def test_a_file_of_another_format_is_refused(run: Run) -> None:
    noise = b"\xff" * 64

    with pytest.raises(ManifestMismatch) as caught:
        publish(run, noise, sha256=hashlib.sha256(noise).hexdigest(), size_bytes=len(noise))

    assert caught.value.field == "weights"


def test_weights_of_another_epoch_are_refused(run: Run) -> None:
    with pytest.raises(StaleEpoch, match="epoch 1"):
        publish(run, epoch=2)


def test_an_older_step_or_other_bytes_for_the_same_step_are_refused(run: Run) -> None:
    other = save({"w": np.zeros((2, 3), np.float32)})
    publish(run, step=5)

    with pytest.raises(VersionNotNewer):
        publish(run, step=4)
    with pytest.raises(VersionNotNewer):
        publish(run, other, step=5, sha256=hashlib.sha256(other).hexdigest())

    run.refresh_from_db()
    assert current_weights(run=run).step == 5


def test_a_file_over_the_limit_is_refused(run: Run, settings: Any) -> None:
    settings.ROLLDECK_MAX_WEIGHTS_BYTES = len(FILE) - 1

    with pytest.raises(WeightsTooLarge):
        publish(run)


@pytest.mark.django_db(transaction=True)
def test_only_the_newest_files_are_kept_and_every_row() -> None:
    run = make_run(epoch=1)
    for step in range(KEPT_FILES + 2):
        publish(run, step=step)

    assert len(stored_files(run)) == KEPT_FILES
    assert PolicyVersion.objects.count() == KEPT_FILES + 2
    with pytest.raises(NoWeights, match="evicted"):
        weights_file(weights(run=run, epoch=1, step=0))
    run.refresh_from_db()
    with weights_file(current_weights(run=run)) as file:
        assert file.read() == FILE


def test_a_lost_file_is_not_called_evicted(run: Run) -> None:
    version, _ = publish(run, step=0)
    Path(version.file.path).unlink()

    with pytest.raises(WeightsMissing, match="was not evicted, but is not in") as lost:
        weights_file(version)

    assert (lost.value.status, lost.value.code) == (404, "weights_missing")


def test_a_file_evicted_since_the_row_was_read_is_called_evicted(run: Run) -> None:
    version, _ = publish(run, step=0)
    Path(version.file.path).unlink()
    PolicyVersion.objects.filter(pk=version.pk).update(file="")

    with pytest.raises(NoWeights, match="evicted"):
        weights_file(version)


@pytest.mark.django_db(transaction=True)
def test_the_same_upload_twice_at_once_is_one_version_and_one_file() -> None:
    run = make_run(epoch=1)
    barrier = threading.Barrier(6)

    def attempt(_: int) -> bool:
        barrier.wait()
        try:
            return publish(run)[1]
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        fresh = list(pool.map(attempt, range(6)))

    assert sum(fresh) == 1
    assert PolicyVersion.objects.count() == len(stored_files(run)) == 1


def test_a_version_that_was_never_published_has_no_weights(run: Run) -> None:
    with pytest.raises(NoWeights):
        current_weights(run=run)


def test_stored_weights_are_readable_with_safetensors(run: Run) -> None:
    version, _ = publish(run)

    with weights_file(version) as file:
        np.testing.assert_array_equal(load(file.read())["w"], np.ones((2, 3)))
