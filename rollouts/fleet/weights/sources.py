"""Fetch weights from where the trainer left them: the platform, or a shared directory.

Either way the platform says which version is current and what it holds, so the bytes are checked
against a manifest that did not travel with them.
"""

from pathlib import Path
from typing import Protocol

from rolldeck import weights_directory
from rolldeck.errors import NotFound, RolldeckError
from rolldeck.wire import WeightsManifest
from rollouts.fleet.weights.records import (
    Version,
    WeightsRecord,
    WeightsSource,
    WeightsUnavailable,
    record_of,
)


class WeightsApi(Protocol):
    """What sources ask of the platform."""

    def current_weights(self) -> WeightsManifest | None:
        """Return the manifest of the current version; None if there is none."""

    def weights(self, manifest: WeightsManifest) -> memoryview:
        """Return the file that `manifest` describes."""


def source_for(api: WeightsApi, *, directory: str) -> WeightsSource:
    """Return where a manager gets its run's weights: `directory`, or the platform without one."""
    return DirectoryWeights(api, Path(directory)) if directory else PlatformWeights(api)


class PlatformWeights:
    """Weights that were uploaded to the platform, downloaded over HTTP."""

    def __init__(self, api: WeightsApi) -> None:
        self._api = api

    def receive(self, wanted: Version) -> WeightsRecord | None:
        """Return the current version if it is `wanted` or later; see :class:`WeightsSource`."""
        manifest = announced(self._api, wanted)
        if manifest is None:
            return None
        try:
            return record_of(manifest, self._api.weights(manifest))
        except NotFound:
            # Newer versions pushed it out in the meantime; the next look finds one of them.
            return None
        except RolldeckError as failure:
            raise WeightsUnavailable(str(failure)) from failure


class DirectoryWeights:
    """Weights that the trainer wrote into a directory which this machine shares."""

    def __init__(self, api: WeightsApi, folder: Path) -> None:
        self._api = api
        self._folder = folder

    def receive(self, wanted: Version) -> WeightsRecord | None:
        """Return the current version if it is `wanted` or later; see :class:`WeightsSource`."""
        manifest = announced(self._api, wanted)
        if manifest is None:
            return None
        try:
            content = weights_directory.read(self._folder, manifest)
        except OSError as failure:
            raise WeightsUnavailable(str(failure)) from failure
        if content is None:
            path = weights_directory.file_path(self._folder, manifest)
            raise WeightsUnavailable(f"{path} is not there, or has no marker beside it")
        return record_of(manifest, content)


def announced(api: WeightsApi, wanted: Version) -> WeightsManifest | None:
    """Return the manifest of the current version, None while it is older than `wanted`.

    Raises:
        WeightsUnavailable: If the platform cannot be asked.
    """
    try:
        manifest = api.current_weights()
    except RolldeckError as failure:
        raise WeightsUnavailable(str(failure)) from failure
    if manifest is None or (manifest.epoch, manifest.step) < wanted:
        return None
    return manifest
