"""Load weights into a running inference server, once per version across all workers.

`rolldeck serve` receives them over HTTP. vLLM and SGLang read them from a folder shared with the
workers. In that folder, a marker file holds the version of the weights, and a lock admits one
worker at a time.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import msgspec
from msgspec import Struct

from rolldeck import safetensors
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

UPDATE_SECONDS: Final = 600.0
NOTHING: Final[Version] = (0, -2)
WEIGHTS, MARKER, LOCK = "model.safetensors", "rolldeck_version.json", ".rolldeck_lock"

Post = Callable[[str, dict[str, Any] | None], None]
"""Post JSON to a path of the server; raises InferenceFailed when it refuses."""


class WeightsRoute(Protocol):
    """A way to load weights into a server."""

    def current(self) -> Version:
        """Return the version in use; the earlier one during a change."""

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server unless it already has this version or a later one.

        Raises:
            InferenceFailed: If the server refuses or cannot be reached.
            WeightsDoNotFit: If they do not match its model.
        """


class FixedWeights:
    """Weights of a server that is only evaluated; their version is unknown."""

    def current(self) -> Version:
        """Return the version of unknown weights."""
        return NOTHING

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Raise InferenceFailed: the weights are not replaced."""
        raise InferenceFailed(f"{len(tensors)} tensors of {version} for a server that is fixed")


class PutWeights:
    """Route for `rolldeck serve --accept-weights`."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def current(self) -> Version:
        """Return the version in use."""
        epoch, step = self._http.get("/health").json()["policy_version"]
        return epoch, step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server; see :class:`WeightsRoute`."""
        path = f"/v1/weights/{version[0]}/{version[1]}"
        try:
            response = self._http.put(path, content=encoded(tensors), timeout=UPDATE_SECONDS)
        except httpx.HTTPError as error:
            raise InferenceFailed(f"PUT {path}: {error}") from error
        if response.status_code == 404:
            raise InferenceFailed("the server was started without --accept-weights")
        if response.status_code == 400:
            raise WeightsDoNotFit(response.json()["error"]["message"])
        # 409: another worker has already loaded this version.
        if response.status_code not in {200, 409}:
            raise InferenceFailed(f"PUT {path}: {response.status_code} {response.text[:500]}")


class SharedFolder:
    """Route through a folder from which the server reads weights on request."""

    def __init__(self, folder: Path, post: Post, *, reload: Callable[[Post, Path], None]) -> None:
        """Prepare the route without replacing weights.

        Args:
            folder: Folder of the weights; the server sees it under the same path.
            post: Sends requests to the server.
            reload: Makes the server read the folder; generation is paused during that time.
        """
        self._folder, self._post, self._reload = folder, post, reload

    def current(self) -> Version:
        """Return the version in use."""
        try:
            marker = msgspec.json.decode((self._folder / MARKER).read_bytes(), type=_Marker)
        except FileNotFoundError:
            return NOTHING
        return marker.epoch, marker.step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server; see :class:`WeightsRoute`."""
        try:
            with self._locked():
                if self.current() >= version:
                    return
                self._check()
                _write_whole(self._folder / WEIGHTS, encoded(tensors))
                self._reload(self._post, self._folder)
                marker = _Marker(epoch=version[0], step=version[1])
                _write_whole(self._folder / MARKER, msgspec.json.encode(marker))
        except OSError as error:
            raise InferenceFailed(f"weights_directory: {error}") from error

    def _check(self) -> None:
        """Refuse a checkpoint in several files: the server would also read the other files."""
        others = sorted(p.name for p in self._folder.glob("*.safetensors") if p.name != WEIGHTS)
        if others:
            raise InferenceFailed(
                f"weights_directory contains {others[0]}; remove every file but {WEIGHTS}"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Marker(Struct, frozen=True):
    epoch: int
    step: int


def reload_vllm(post: Post, folder: Path) -> None:  # noqa: ARG001 vLLM reads the folder it was started with
    """Make vLLM reload its folder; needs ``VLLM_SERVER_DEV_MODE=1``.

    Requests in progress keep their tokens and continue. Source of the routes:
    ``vllm/entrypoints/serve/dev`` in vLLM.
    """
    post("/pause?mode=keep", None)
    try:
        post("/collective_rpc", {"method": "reload_weights"})
        post("/reset_prefix_cache?reset_running_requests=true", None)
    finally:
        post("/resume", None)


def reload_sglang(post: Post, folder: Path) -> None:
    """Make SGLang read the folder; requests in progress recompute their cache and continue."""
    post("/pause_generation", {"mode": "retract"})
    try:
        post("/update_weights_from_disk", {"model_path": str(folder), "flush_cache": True})
    finally:
        post("/continue_generation", {})


def encoded(tensors: Mapping[str, Any]) -> bytes:
    """Return torch or NumPy tensors as a safetensors file."""
    if all(hasattr(value, "__array_interface__") for value in tensors.values()):
        return safetensors.encode(tensors)
    import torch
    from safetensors.torch import save

    return save({name: torch.as_tensor(value).contiguous() for name, value in tensors.items()})


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
