"""Sources of weights: the platform, or a directory shared with the trainer.

In both cases the platform announces the current version and its manifest, so the bytes are
checked against a manifest that was transferred separately.
"""

from pathlib import Path

from rolldeck import weights_directory
from rolldeck.errors import NotFoundError, RolldeckError
from rolldeck.wire import WeightsManifest
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.weights.records import (
    Version,
    WeightsRecord,
    WeightsSource,
    WeightsUnavailable,
    record_of,
)


def source_for(api: PlatformApi, *, directory: str) -> WeightsSource:
    """Return the source of a run's weights: `directory` if set, otherwise the platform."""
    return DirectoryWeights(api, Path(directory)) if directory else PlatformWeights(api)


class PlatformWeights:
    """Weights uploaded to the platform and downloaded over HTTP."""

    def __init__(self, api: PlatformApi) -> None:
        self._api = api

    def receive(self, version: Version) -> WeightsRecord | None:
        manifest = announced(self._api, version)
        if manifest is None:
            return None
        try:
            return record_of(manifest, self._api.weights(manifest))
        except NotFoundError:
            # A newer version has replaced it; the next call finds that one.
            return None
        except RolldeckError as failure:
            raise WeightsUnavailable(str(failure)) from failure


class DirectoryWeights:
    """Weights that the trainer wrote into a directory shared with this machine."""

    def __init__(self, api: PlatformApi, folder: Path) -> None:
        self._api = api
        self._folder = folder

    def receive(self, version: Version) -> WeightsRecord | None:
        manifest = announced(self._api, version)
        if manifest is None:
            return None
        try:
            content = weights_directory.read(self._folder, manifest)
        except OSError as failure:
            raise WeightsUnavailable(str(failure)) from failure
        if content is None:
            path = weights_directory.file_path(self._folder, manifest)
            raise WeightsUnavailable(f"{path} or its marker file does not exist")
        return record_of(manifest, content)


def announced(api: PlatformApi, version: Version) -> WeightsManifest | None:
    """Return the manifest of the current version; None if it is older than `version`.

    Raises:
        WeightsUnavailable: If the platform cannot be reached.
    """
    try:
        manifest = api.current_weights()
    except RolldeckError as failure:
        raise WeightsUnavailable(str(failure)) from failure
    if manifest is None or (manifest.epoch, manifest.step) < version:
        return None
    return manifest
