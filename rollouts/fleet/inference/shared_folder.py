"""Load weights into vLLM or SGLang through a folder shared with the workers.

A marker file in the folder names the run and the version of the weights, and a lock admits one
worker at a time. A server and its folder belong to one run.
"""

import fcntl
import os
import re
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, Any, Final, NamedTuple

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    ReplicaReport,
)
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import NOTHING, InferenceFailed, encoded, label_of
from rollouts.fleet.inference.reloading import FolderServer, post
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind
from rollouts.fleet.policies.policy_protocol import Shape, WeightsDoNotFit

MARKER: Final = "rolldeck_version.json"
LOCK: Final = ".rolldeck_lock"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
WRITTEN: Final = re.compile(r"model-[0-9a-f]{8}-\d{5}-of-\d{5}\.safetensors(\.part)?")
"""Names of files that are written for a folder with an index."""
IN_USE: Final = ".rolldeck_in_use"
ASLEEP: Final = "rolldeck_asleep"
"""File that exists while the engines may be asleep."""


class _Metadata(Struct, frozen=True):
    total_size: int | float = 0


class _Index(Struct, frozen=True):
    weight_map: dict[str, str]
    metadata: _Metadata = _Metadata()


class CheckpointFiles:
    """Files of the weights in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shapes(self) -> dict[str, Shape]:
        """Return the shapes by name in the headers of the current files.

        Raises:
            InferenceFailed: If a file is missing, invalid or superfluous.
        """
        index = self._index()
        if index is None:
            # Servers read each file of a folder without an index.
            others = sorted(p.name for p in self._folder.glob("*.safetensors") if p.name != WEIGHTS)
            if others:
                raise InferenceFailed(
                    f"weights_directory contains {others[0]} and no {INDEX}; remove every file but "
                    f"{WEIGHTS}"
                )
            return self._shapes_in(WEIGHTS)
        found: dict[str, Shape] = {}
        for name in sorted(set(index.weight_map.values())):
            found |= self._shapes_in(name)
        if missing := sorted(index.weight_map.keys() - found):
            raise InferenceFailed(f"weights_directory: {INDEX}: no file contains {missing[0]}")
        return {name: found[name] for name in index.weight_map}

    def write(self, tensors: Mapping[str, Any]) -> None:
        """Replace the weights; the number of files stays.

        The files of the version before are kept until the next one, for servers that read them.

        Args:
            tensors: Tensors with the names of the current files.

        Raises:
            OSError: If a file cannot be written; the earlier weights stay current.
        """
        index = self._index()
        if index is None:
            write_whole(self._folder / WEIGHTS, encoded(tensors))
            return
        current = set(index.weight_map.values())
        for path in self._folder.iterdir():
            if WRITTEN.fullmatch(path.name) and path.name not in current:
                path.unlink(missing_ok=True)
        shards = defaultdict[str, dict[str, Any]](dict)
        for name, tensor in tensors.items():
            shards[index.weight_map[name]][name] = tensor
        names = {
            file: f"model-{secrets.token_hex(4)}-{at:05}-of-{len(shards):05}.safetensors"
            for at, file in enumerate(sorted(shards), start=1)
        }
        size = 0
        for file, shard in shards.items():
            content = encoded(shard)
            write_whole(self._folder / names[file], content)
            size += len(content)
        weight_map = {name: names[file] for name, file in index.weight_map.items()}
        renewed = _Index(weight_map=weight_map, metadata=_Metadata(total_size=size))
        write_whole(self._folder / INDEX, msgspec.json.encode(renewed))

    def _index(self) -> _Index | None:
        """Return the index of several files; None for a single file."""
        try:
            index = msgspec.json.decode((self._folder / INDEX).read_bytes(), type=_Index)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, OSError) as error:
            raise InferenceFailed(f"weights_directory: {INDEX}: {error}") from error
        for name, file in index.weight_map.items():
            if PurePath(file).name != file or not file.endswith(".safetensors"):
                raise InferenceFailed(
                    f"weights_directory: {INDEX}: weight_map.{name}: {file!r} is not a "
                    "safetensors file of the folder"
                )
        return index

    def _shapes_in(self, name: str) -> dict[str, Shape]:
        """Return the shapes by name in the header of a safetensors file."""
        try:
            with (self._folder / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                header = safetensors.read_header(file, file_bytes=size)
        except FileNotFoundError:
            raise InferenceFailed(
                f"weights_directory contains no {name}; it must be the folder of the served model"
            ) from None
        except InvalidMessageError as error:
            raise InferenceFailed(f"weights_directory: {name}: {error}") from error
        return {tensor.name: tensor.shape for tensor in header.tensors}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that replaces an earlier one at once, and is on disk afterwards."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class SharedFolder:
    """Route through a folder from which the server's replicas read weights on request.

    The replicas see the folder under the same path.
    """

    def __init__(self, folder: Path, replicas: Mapping[str, FolderServer], *, run: str) -> None:
        self._folder, self._run = folder, run
        self._files = CheckpointFiles(folder)
        self._replicas = Replicas(replicas)

    def current(self) -> Version:
        return self._marker().version

    def oldest(self) -> Version:
        marker = self._marker()
        return marker.version if marker.oldest is None else marker.oldest

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        with locked(self._folder):
            marker = self._marker()
            if marker.version > version:
                return
            if version not in {marker.version, marker.written}:
                # Servers do not check names and shapes: vLLM keeps the earlier values of a missing
                # tensor, and unknown names and other shapes end its engine.
                expected = self._files.shapes()
                given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
                if given != expected:
                    raise WeightsDoNotFit.between(expected, given)
                self._replicas.ask(lambda server: server.check(given))
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
        """Return the marker; raise InferenceFailed if it is invalid or of another run."""
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


class Routes(NamedTuple):
    """Requests of a kind of server."""

    sleep: tuple[str, dict[str, Any] | None]
    wake: tuple[str, dict[str, Any] | None]


ROUTES: Final = {
    # Requests of other clients finish first.
    "vllm": Routes(sleep=("/sleep?level=1&mode=wait", None), wake=("/wake_up", None)),
    "sglang": Routes(
        sleep=("/release_memory_occupation", {}), wake=("/resume_memory_occupation", {})
    ),
}
"""Source: ``vllm/entrypoints/serve/dev/sleep`` in vLLM, and ``entrypoints/http_server.py`` in
SGLang."""


class SharedSleep:
    """Sleep of the engines that read weights from a folder; thread-safe."""

    def __init__(self, folder: Path, replicas: Mapping[str, httpx.Client], *, kind: str) -> None:
        self._folder, self._routes = folder, ROUTES[kind]
        self._replicas = Replicas(replicas)
        self._lock = threading.Lock()
        self._used: IO[bytes] | None = None
        self._requests = 0

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Wake the engines if they are asleep, for a request; they stay awake until `rest`.

        Raises:
            InferenceFailed: If an engine refuses, or none can be reached.
        """
        with self._lock:
            self._wake()
            self._requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._requests -= 1

    def _wake(self) -> None:
        if self._used is not None:
            return
        used = self._opened()
        try:
            fcntl.flock(used, fcntl.LOCK_SH)
            with locked(self._folder):
                if (self._folder / ASLEEP).exists():
                    self._replicas.ask(lambda http: _request(http, *self._routes.wake))
                    (self._folder / ASLEEP).unlink()
        except BaseException:
            used.close()
            raise
        self._used = used

    def rest(self) -> None:
        """Put the engines to sleep, unless another worker uses them.

        Nothing changes if this worker has not used them since its last rest, or while one of its
        threads does.

        Raises:
            InferenceFailed: If an engine refuses, or none can be reached.
        """
        with self._lock:
            if self._used is None or self._requests:
                return
            self._used.close()
            self._used = None
            with locked(self._folder), self._opened() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                # Before the request: an engine that is asleep must be woken after a crash, too.
                (self._folder / ASLEEP).touch()
                self._replicas.ask(lambda http: _request(http, *self._routes.sleep))

    def close(self) -> None:
        """End the use of the engines; they stay as they are."""
        if self._used is not None:
            self._used.close()

    def _opened(self) -> IO[bytes]:
        try:
            return (self._folder / IN_USE).open("ab")
        except OSError as error:
            raise InferenceFailed(f"weights_directory: {error}") from error


def _request(http: httpx.Client, path: str, body: dict[str, Any] | None) -> None:
    response = post(http, path, body)
    if response.status_code != 200:
        raise InferenceFailed(f"sleep: POST {path}: {response.status_code} {response.text[:500]}")
