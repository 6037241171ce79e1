"""Load weights into vLLM or SGLang through a folder shared with the workers.

A marker file in the folder names the run and the version of the weights, and a lock admits one
worker at a time. A server and its folder belong to one run.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from rolldeck import safetensors_header
from rolldeck.wire import InvalidMessage
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.labels import label_of
from rollouts.fleet.inference.reloading import FolderServer
from rollouts.fleet.inference.weights import NOTHING, encoded
from rollouts.fleet.policies.policy_protocol import Shape, WeightsDoNotFit

WEIGHTS, MARKER, LOCK = "model.safetensors", "rolldeck_version.json", ".rolldeck_lock"
LENGTH_BYTES: Final = safetensors_header.LENGTH_BYTES


class SharedFolder:
    """Route through a folder from which the server reads weights on request."""

    def __init__(self, folder: Path, server: FolderServer, *, run: str) -> None:
        """Prepare the route without replacing weights.

        Args:
            folder: Folder of the weights; the server sees it under the same path.
            server: The server.
            run: Name or key of the run that trains the weights.
        """
        self._folder, self._server, self._run = folder, server, run

    def current(self) -> Version:
        """Return the version in use.

        Raises:
            InferenceFailed: If the weights belong to another run, or the marker is invalid.
        """
        try:
            marker = msgspec.json.decode((self._folder / MARKER).read_bytes(), type=_Marker)
        except FileNotFoundError:
            return NOTHING
        except (msgspec.MsgspecError, OSError) as error:
            raise InferenceFailed(f"weights_directory: {MARKER}: {error}") from error
        if marker.run != self._run:
            raise InferenceFailed(
                f"weights_directory holds version {marker.epoch}/{marker.step} of run "
                f"{marker.run!r}, and a server serves one run at a time. Use another server, or "
                f"delete {MARKER} after that run has ended"
            )
        return marker.epoch, marker.step

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the server; see :class:`rollouts.fleet.inference.weights`."""
        try:
            with self._locked():
                if self.current() >= version:
                    return
                self._check(tensors)
                _write_whole(self._folder / WEIGHTS, encoded(tensors))
                self._server.reload(self._folder, label_of(self._run, version))
                marker = _Marker(run=self._run, epoch=version[0], step=version[1])
                _write_whole(self._folder / MARKER, msgspec.json.encode(marker))
        except OSError as error:
            raise InferenceFailed(f"weights_directory: {error}") from error

    def _check(self, tensors: Mapping[str, Any]) -> None:
        """Compare names and shapes with the folder's weights, as servers do not check them.

        vLLM keeps the earlier values of a missing tensor. Unknown names and other shapes end its
        engine. It reads every safetensors file of the folder.
        """
        others = sorted(p.name for p in self._folder.glob("*.safetensors") if p.name != WEIGHTS)
        if others:
            raise InferenceFailed(
                f"weights_directory contains {others[0]}; remove every file but {WEIGHTS}"
            )
        expected = _shapes_in(self._folder / WEIGHTS)
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if given != expected:
            raise WeightsDoNotFit.between(expected, given)
        self._server.check(given)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Marker(Struct, frozen=True):
    epoch: int
    step: int
    run: str = ""


def _shapes_in(path: Path) -> dict[str, Shape]:
    """Return the shapes by name in the header of a safetensors file."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = safetensors_header.header_length(file.read(LENGTH_BYTES), file_bytes=size)
            header = safetensors_header.parse(file.read(length), file_bytes=size)
    except FileNotFoundError:
        raise InferenceFailed(
            f"weights_directory contains no {WEIGHTS}; it must be the folder of the served model"
        ) from None
    except InvalidMessage as error:
        raise InferenceFailed(f"weights_directory: {WEIGHTS}: {error}") from error
    return {tensor.name: tensor.shape for tensor in header.tensors}


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
