"""Weights arrive complete and with the right version over every transport."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from django.core.files.storage import default_storage
from pytest_django.live_server_helper import LiveServer

from rolldeck import safetensors, weights_directory
from rolldeck.errors import InvalidMessageError
from rolldeck.http import Connection
from rolldeck.trainer import Trainer
from rolldeck.wire import WeightsManifest
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.ray_internals import disconnect_from_ray
from rollouts.fleet.weights.records import Version, WeightsRecord, WeightsSource, WeightsUnavailable
from rollouts.fleet.weights.sources import DirectoryWeights, source_for
from runs.lifecycle.models import PolicyVersion, Run
from runs.lifecycle.queries import weights_directory as folder_of
from tests.factories import make_run, make_token
from tests.ray_head import RayHead

pytestmark = pytest.mark.django_db(transaction=True)


class Way(Protocol):
    """A transport of weights with both of its ends."""

    def publish(self, tensors: dict[str, Any], *, step: int) -> None:
        """Publish a version."""

    def source(self) -> WeightsSource:
        """Return the receiving end."""


class OverThePlatform:
    """Transport over HTTP or a directory: both ends use the platform."""

    def __init__(self, run: Run, url: str) -> None:
        self.run = run
        tokens = {scope: make_token(scope, run=run)[1] for scope in ("trainer", "worker")}
        self.connection = Connection(url, tokens["trainer"], retry_for_seconds=0)
        self.trainer = Trainer("", run.name, connection=self.connection)
        self.trainer.register()
        settings = FleetSettings(
            platform_url=url, token=tokens["worker"], run=run.name, run_config={}, incarnation="1"
        )
        self.api = PlatformApi(settings)

    def publish(self, tensors: dict[str, Any], *, step: int) -> None:
        self.trainer.publish_weights(tensors, step=step)

    def source(self) -> WeightsSource:
        return source_for(self.api, directory=folder_of(self.run))

    def lose(self) -> None:
        self.path().unlink()

    def path(self) -> Path:
        version = PolicyVersion.objects.latest("id")
        if version.file:
            return Path(default_storage.path(str(version.file.name)))
        manifest = WeightsManifest(**version.manifest)
        return weights_directory.file_path(Path(folder_of(self.run)), manifest)

    def close(self) -> None:
        self.connection.close()
        self.api.close()


class OverTheCluster:
    """Transport by a reference into the object store, resolved by another process."""

    def __init__(self) -> None:
        self.newest: Any = None

    def publish(self, tensors: dict[str, Any], *, step: int) -> None:
        from rollouts.fleet.weights.object_references import RefWeights

        self.newest = RefWeights.put(WeightsRecord(epoch=1, step=step, tensors=tensors))

    def source(self) -> WeightsSource:
        return self

    def receive(self, version: Version) -> WeightsRecord | None:
        import ray

        from rollouts.fleet.weights.object_references import RefWeights

        elsewhere = ray.remote(RefWeights.receive)
        try:
            return ray.get(elsewhere.remote(self.newest, version), timeout=60)  # type: ignore[no-any-return]
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error


@pytest.fixture(
    params=["http", "directory", pytest.param("refs", marks=pytest.mark.ray)],
)
def way(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Iterator[Way]:
    if request.param == "refs":
        yield from over_the_cluster(request.getfixturevalue("ray_head"))
        return
    settings.ROLLDECK_WEIGHTS_DIRECTORY = str(tmp_path / "shared")
    live_server: LiveServer = request.getfixturevalue("live_server")
    run = make_run(name="alpha", config={"fleet": {"weights_transport": request.param}})
    way = OverThePlatform(run, live_server.url)
    yield way
    way.close()


def over_the_cluster(head: RayHead) -> Iterator[Way]:
    import ray

    ray.init(address=head.address, log_to_driver=False, configure_logging=False)
    yield OverTheCluster()
    disconnect_from_ray()


def filled(step: int) -> dict[str, Any]:
    return {name: np.full(50_000, step, dtype=np.float32) for name in ("a", "b")}


def steps_in(record: WeightsRecord) -> set[float]:
    return {float(step) for tensor in record.tensors.values() for step in np.unique(tensor)}


def test_a_version_arrives_complete_with_its_label(way: Way) -> None:
    way.publish(filled(3), step=3)

    record = way.source().receive((1, 3))

    assert record is not None
    assert record.version == (1, 3)
    assert sorted(record.tensors) == ["a", "b"]
    assert steps_in(record) == {3.0}
    assert not any(tensor.flags.writeable for tensor in record.tensors.values())


def test_dtypes_that_numpy_lacks_arrive_bit_by_bit(way: Way) -> None:
    # All values of bfloat16 and of the 8-bit floats, including infinities and NaNs.
    expected = {
        kind: np.arange(256**dtype.itemsize, dtype=dtype[0]).view(dtype)
        for kind, dtype in safetensors.BITS.items()
    }
    way.publish(expected, step=3)

    record = way.source().receive((1, 3))

    assert record is not None
    assert record.version == (1, 3)
    for kind, array in expected.items():
        assert record.tensors[kind].dtype == array.dtype
        assert record.tensors[kind].tobytes() == array.tobytes()


def test_a_missing_version_is_none_and_never_an_older_one(way: Way) -> None:
    way.publish(filled(3), step=3)

    assert way.source().receive((1, 4)) is None
    assert way.source().receive((2, 0)) is None


def test_versions_do_not_mix_while_new_ones_are_published(way: Way) -> None:
    way.publish(filled(0), step=0)
    publishing = threading.Thread(
        target=lambda: [way.publish(filled(step), step=step) for step in range(1, 15)]
    )
    publishing.start()
    seen: list[Version] = [(1, -1)]
    while seen[-1] < (1, 14):
        try:
            record = way.source().receive(seen[-1])
        except WeightsUnavailable:
            continue
        if record is not None:
            assert steps_in(record) == {float(record.step)}
            seen.append(record.version)
    publishing.join()

    assert seen == sorted(seen)


@pytest.mark.parametrize("way", ["http", "directory"], indirect=True)
def test_a_lost_version_is_not_replaced_by_another(way: OverThePlatform) -> None:
    way.publish(filled(3), step=3)
    way.publish(filled(4), step=4)
    way.lose()

    try:
        record = way.source().receive((1, 4))
    except WeightsUnavailable:
        record = None
    assert record is None


@pytest.mark.parametrize("way", ["http", "directory"], indirect=True)
def test_bytes_that_were_changed_are_refused(way: OverThePlatform) -> None:
    way.publish(filled(3), step=3)
    content = bytearray(way.path().read_bytes())
    content[-1] ^= 1
    way.path().write_bytes(content)

    with pytest.raises(InvalidMessageError, match="checksum"):
        way.source().receive((1, 3))


@pytest.mark.parametrize("way", ["directory"], indirect=True)
def test_a_file_without_its_marker_is_ignored(way: OverThePlatform) -> None:
    way.publish(filled(3), step=3)
    way.path().with_suffix(".json").unlink()

    with pytest.raises(WeightsUnavailable, match="marker"):
        way.source().receive((1, 3))
    assert not list(way.path().parent.glob(".*")), "unfinished files are cleaned up"


@pytest.mark.parametrize("way", ["directory"], indirect=True)
def test_a_trainer_that_resumes_finds_its_weights_in_the_directory(way: OverThePlatform) -> None:
    for step in range(8):
        way.publish(filled(step), step=step)

    manifest, tensors = way.trainer.current_weights()

    assert manifest.step == 7
    assert set(tensors["a"]) == {7.0}
    assert isinstance(way.source(), DirectoryWeights)
    assert len(list(way.path().parent.iterdir())) == 2 * weights_directory.KEPT_VERSIONS
    assert not PolicyVersion.objects.exclude(file="").exists()


@pytest.mark.parametrize("way", ["directory"], indirect=True)
def test_a_refused_version_does_not_damage_announced_ones(
    way: OverThePlatform,
) -> None:
    way.publish(filled(3), step=3)
    with pytest.raises(Exception, match="step 3 is not newer"):
        way.publish(filled(99), step=3)

    record = way.source().receive((1, 3))

    assert record is not None
    assert steps_in(record) == {3.0}


def test_a_run_uses_a_directory_only_if_the_server_shares_one(
    settings: Any,
) -> None:
    from runs.config.rules.run_config import InvalidRunConfig
    from runs.config.services import configured

    config = {"fleet": {"weights_transport": "directory"}}
    settings.ROLLDECK_WEIGHTS_DIRECTORY = ""
    with pytest.raises(InvalidRunConfig, match="weights_transport"):
        configured(preset="", config=config)
    settings.ROLLDECK_WEIGHTS_DIRECTORY = "/srv/weights"
    assert configured(preset="", config=config).fleet.weights_transport == "directory"
