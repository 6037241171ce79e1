"""Load LoRA adapters into vLLM or SGLang, one name for each version of a run.

A request names the adapter, so the version of its answer is known. A version stays loaded while a
worker uses it: each worker holds a shared lock of the version's folder, which ends with its
process. The next update unloads the versions without a lock, of ended runs too, and deletes their
folders. Runs with adapters may share a server.
"""

import fcntl
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import methodcaller
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.adapter_files import adapter_shapes, write_adapter
from rollouts.fleet.inference.adapter_requests import AdapterServer
from rollouts.fleet.inference.checkpoint_files import CheckpointFiles
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.labels import label_of
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind
from rollouts.fleet.inference.shared_folder import locked
from rollouts.fleet.inference.weights import NOTHING
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from runs.config.rules.language_config import AdapterConfig

ADAPTERS: Final = "adapters"
IN_USE: Final = ".in_use"
"""File of a version on which its users hold a shared lock."""


class Adapter(NamedTuple):
    """Adapter in use; without a name before the first version."""

    name: str
    version: Version


class Adapters:
    """Route through a folder with one adapter for each version."""

    def __init__(
        self,
        folder: Path,
        replicas: Mapping[str, AdapterServer],
        *,
        run: str,
        adapter: AdapterConfig,
    ) -> None:
        """Prepare the route without loading an adapter.

        Args:
            folder: Folder of the adapted checkpoint; the replicas see it under the same path.
            replicas: Replicas by address.
            run: Name or key of the run that trains the adapters.
            adapter: Rank, alpha and adapted layers.
        """
        self._folder, self._run, self._adapter = folder, run, adapter
        self._base = CheckpointFiles(folder)
        self._replicas = Replicas(replicas)
        self._lock = threading.Lock()
        self._version = NOTHING
        self._uses: dict[Version, _Use] = {}

    def current(self) -> Version:
        """Return the version that new requests use; each worker has its own."""
        return self._version

    oldest = current

    @contextmanager
    def used(self) -> Iterator[Adapter]:
        """Yield the adapter of a request, which stays loaded until the request ends."""
        with self._lock:
            version = self._version
            if version != NOTHING:
                self._uses[version].count += 1
        try:
            yield Adapter("" if version == NOTHING else label_of(self._run, version), version)
        finally:
            if version != NOTHING:
                self._release(version)

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Load `tensors` into the replicas; see :class:`rollouts.fleet.inference.weights`.

        New requests then use them; requests in progress keep their adapter.
        """
        expected = adapter_shapes(self._base.shapes(), self._adapter)
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if given != expected:
            raise WeightsDoNotFit.between(expected, given)
        with locked(self._folder):
            write_adapter(self._folder_of(version), tensors, self._adapter)
            self._hold(version)
            try:
                self._load(version)
            except ReplicasBehind:
                self._switch(version)
                raise
            except BaseException:
                self._release(version)
                raise
            self._switch(version)
            self._unload_unused()

    def repair(self) -> bool:
        """Load the adapter in use into replicas without it; return whether there were any."""
        with locked(self._folder), self.used() as adapter:
            return adapter.version != NOTHING and self._load(adapter.version)

    def replicas(self) -> list[ReplicaReport]:
        """Return version and last contact of each replica."""
        return self._replicas.reports()

    def close(self) -> None:
        """End the use of all versions."""
        with self._lock:
            for use in self._uses.values():
                use.lock.close()
            self._uses, self._version = {}, NOTHING

    def _load(self, version: Version) -> bool:
        """Load a version into the replicas without it; return whether there were any."""
        name, folder = label_of(self._run, version), self._folder_of(version)
        found: list[bool] = []
        self._replicas.roll(version, lambda replica: found.append(replica.load(name, folder)))
        return any(found)

    def _folder_of(self, version: Version) -> Path:
        return self._folder / ADAPTERS / label_of(self._run, version)

    def _hold(self, version: Version) -> None:
        with self._lock:
            if version not in self._uses:
                lock = (self._folder_of(version) / IN_USE).open("wb")
                fcntl.flock(lock, fcntl.LOCK_SH)
                self._uses[version] = _Use(lock)
            self._uses[version].count += 1

    def _release(self, version: Version) -> None:
        with self._lock:
            use = self._uses.get(version)
            if use is None:  # closed meanwhile
                return
            use.count -= 1
            if not use.count:
                use.lock.close()
                del self._uses[version]

    def _switch(self, version: Version) -> None:
        """Use a held version for new requests, and release the one before."""
        with self._lock:
            before, self._version = self._version, version
        if before != NOTHING:
            self._release(before)

    def _unload_unused(self) -> None:
        """Unload the adapters that no worker uses, and delete their folders."""
        root = self._folder / ADAPTERS
        for folder in root.glob("*/*/*"):
            with (folder / IN_USE).open("ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                # A replica that cannot be reached may still have it; the next update tries again.
                unload = methodcaller("unload", folder.relative_to(root).as_posix())
                with suppress(InferenceFailed):
                    self._replicas.ask_all(unload)
                    shutil.rmtree(folder)


class _Use:
    """Requests that use a version, and the shared lock of its folder."""

    def __init__(self, lock: IO[bytes]) -> None:
        self.lock, self.count = lock, 0
