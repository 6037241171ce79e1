"""Load weights into vLLM or SGLang through a folder shared with the workers.

A marker file in the folder names the run and the version of the weights, and a lock admits one
worker at a time. A server and its folder belong to one run.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.checkpoint_files import CheckpointFiles, write_whole
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.labels import label_of
from rollouts.fleet.inference.reloading import FolderServer
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind
from rollouts.fleet.inference.weights import NOTHING
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

MARKER: Final = "rolldeck_version.json"
LOCK: Final = ".rolldeck_lock"


class SharedFolder:
    """Route through a folder from which the server's replicas read weights on request."""

    def __init__(self, folder: Path, replicas: Mapping[str, FolderServer], *, run: str) -> None:
        """Prepare the route without replacing weights.

        Args:
            folder: Folder of the weights; the replicas see it under the same path.
            replicas: Replicas by address.
            run: Name or key of the run that trains the weights.
        """
        self._folder, self._run = folder, run
        self._files = CheckpointFiles(folder)
        self._replicas = Replicas(replicas)

    def current(self) -> Version:
        """Return the newest version in use.

        Raises:
            InferenceFailed: If the weights belong to another run, or the marker is invalid.
        """
        return self._marker().version

    def oldest(self) -> Version:
        """Return the oldest version that a replica may use; raises like `current`."""
        marker = self._marker()
        return marker.version if marker.oldest is None else marker.oldest

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the replicas; see :class:`rollouts.fleet.inference.weights`."""
        with locked(self._folder):
            marker = self._marker()
            if marker.version > version:
                return
            if version not in {marker.version, marker.written}:
                self._check(tensors)
                self._files.write(tensors)
                marker = replace(marker, written=version)
                self._mark(marker)
            self._roll(marker, version)

    def repair(self) -> bool:
        """Load the folder's weights into replicas without their label.

        Returns:
            Whether there were any, such as replicas that were started again.
        """
        with locked(self._folder):
            marker = self._marker()
            if marker.version == NOTHING:
                return False
            return self._roll(marker, marker.written or marker.version)

    def replicas(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica."""
        return self._replicas.reports()

    def _roll(self, marker: "_Marker", version: Version) -> bool:
        """Load the folder's weights into replicas without their label; return whether any were.

        The marker then names `version`, if at least one replica has it.
        """
        label, is_new = label_of(self._run, version), version != marker.version
        loaded = False

        def load(server: FolderServer) -> None:
            nonlocal loaded
            reported = server.label()
            # A release without labels has the version of the marker.
            if reported == label or (reported is None and not is_new):
                return
            server.reload(self._folder, label)
            loaded = True

        done = _Marker(run=self._run, epoch=version[0], step=version[1])
        try:
            self._replicas.roll(version, load)
        except ReplicasBehind:
            oldest = marker.version if marker.oldest is None else marker.oldest
            self._mark(replace(done, oldest=oldest))
            raise
        if marker != done:
            self._mark(done)
        return loaded

    def _marker(self) -> "_Marker":
        try:
            marker = msgspec.json.decode((self._folder / MARKER).read_bytes(), type=_Marker)
        except FileNotFoundError:
            return _Marker(run=self._run, epoch=NOTHING[0], step=NOTHING[1])
        except (msgspec.MsgspecError, OSError) as error:
            raise InferenceFailed(f"weights_directory: {MARKER}: {error}") from error
        if marker.run != self._run:
            epoch, step = marker.written or marker.version
            raise InferenceFailed(
                f"weights_directory holds version {epoch}/{step} of run {marker.run!r}, and a "
                f"server serves one run at a time. Use another server, or delete {MARKER} after "
                "that run has ended"
            )
        return marker

    def _mark(self, marker: "_Marker") -> None:
        write_whole(self._folder / MARKER, msgspec.json.encode(marker))

    def _check(self, tensors: Mapping[str, Any]) -> None:
        """Compare names and shapes with the folder's weights, as servers do not check them.

        vLLM keeps the earlier values of a missing tensor. Unknown names and other shapes end its
        engine.
        """
        expected = self._files.shapes()
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if given != expected:
            raise WeightsDoNotFit.between(expected, given)
        self._replicas.ask(lambda server: server.check(given))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Admit one worker at a time to a folder.

    Raises:
        InferenceFailed: If a file cannot be read or written meanwhile.
    """
    try:
        with (folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise InferenceFailed(f"weights_directory: {error}") from error


class _Marker(Struct, frozen=True, omit_defaults=True):
    epoch: int
    step: int
    run: str = ""
    oldest: Version | None = None
    """Oldest version that a replica may use; None if each has the newest."""
    written: Version | None = None
    """Version of the files; None if it is the newest in use."""

    @property
    def version(self) -> Version:
        """Newest version in use."""
        return self.epoch, self.step
