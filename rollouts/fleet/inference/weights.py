"""Hand weights to a running inference server, once for each version, whoever is first.

`rolldeck serve` takes them over HTTP. vLLM and SGLang read them from a folder that they and the
workers share; there a marker beside the weights says which version they are, and a lock lets one
worker at a time replace them.
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
"""Posts JSON to a path of the server; raises InferenceFailed when it refuses."""


class WeightsRoute(Protocol):
    """One way to hand weights to a server."""

    def current(self) -> Version:
        """Return the version that draws at present; during a change the earlier one."""

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Let the server draw with `tensors`, unless it already does, or with later ones.

        Raises:
            InferenceFailed: If it refuses, or cannot be reached.
            WeightsDoNotFit: If they are not its model's.
        """


class PutWeights:
    """`rolldeck serve --accept-weights`."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def current(self) -> Version:
        """Return the version that draws at present."""
        epoch, step = self._http.get("/health").json()["policy_version"]
        return epoch, step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Let the server draw with `tensors`; see :class:`WeightsRoute`."""
        path = f"/v1/weights/{version[0]}/{version[1]}"
        try:
            said = self._http.put(path, content=encoded(tensors), timeout=UPDATE_SECONDS)
        except httpx.HTTPError as error:
            raise InferenceFailed(f"PUT {path}: {error}") from error
        if said.status_code == 404:
            raise InferenceFailed("the server was started without --accept-weights")
        if said.status_code == 400:
            raise WeightsDoNotFit(said.json()["error"]["message"])
        # 409: another worker was faster.
        if said.status_code not in {200, 409}:
            raise InferenceFailed(f"PUT {path}: {said.status_code} {said.text[:500]}")


class SharedFolder:
    """A folder that the server reads weights from when it is told to."""

    def __init__(self, folder: Path, post: Post, *, reload: Callable[[Post, Path], None]) -> None:
        """Replace nothing yet.

        Args:
            folder: Of the weights, seen by the server under the same path.
            post: Reaches the server.
            reload: Tells it to read them; nothing is drawn meanwhile.
        """
        self._folder, self._post, self._reload = folder, post, reload

    def current(self) -> Version:
        """Return the version that draws at present."""
        try:
            marker = msgspec.json.decode((self._folder / MARKER).read_bytes(), type=_Marker)
        except FileNotFoundError:
            return NOTHING
        return marker.epoch, marker.step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Let the server draw with `tensors`; see :class:`WeightsRoute`."""
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
        """Refuse a checkpoint in several files: the server would read those beside ours."""
        others = sorted(p.name for p in self._folder.glob("*.safetensors") if p.name != WEIGHTS)
        if others:
            raise InferenceFailed(f"weights_directory: besides {WEIGHTS} there is {others[0]}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Marker(Struct, frozen=True):
    epoch: int
    step: int


def reload_vllm(post: Post, folder: Path) -> None:  # noqa: ARG001 it reads what it was started on
    """Tell vLLM to read its folder anew; needs ``VLLM_SERVER_DEV_MODE=1``.

    What is under way keeps its tokens and goes on. Source of the routes:
    ``vllm/entrypoints/serve/dev`` in vLLM.
    """
    post("/pause?mode=keep", None)
    try:
        post("/collective_rpc", {"method": "reload_weights"})
        post("/reset_prefix_cache?reset_running_requests=true", None)
    finally:
        post("/resume", None)


def reload_sglang(post: Post, folder: Path) -> None:
    """Tell SGLang to read the folder; what is under way computes its cache anew and goes on."""
    post("/pause_generation", {"mode": "retract"})
    try:
        post("/update_weights_from_disk", {"model_path": str(folder), "flush_cache": True})
    finally:
        post("/continue_generation", {})


def encoded(tensors: Mapping[str, Any]) -> bytes:
    """Return tensors, of torch or of numpy, as a safetensors file."""
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
