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
from http import HTTPStatus
from operator import methodcaller
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import httpx
import msgspec

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import NOTHING, InferenceFailed, encoded, label_of
from rollouts.fleet.inference.reloading import check_model, post
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind
from rollouts.fleet.inference.shared_folder import CheckpointFiles, locked, write_whole
from rollouts.fleet.policies.policy_protocol import Shape, WeightsDoNotFit
from runs.config.rules.language_config import AdapterConfig

ADAPTERS: Final = "adapters"
IN_USE: Final = ".in_use"
"""File of a version on which its users hold a shared lock."""
WEIGHTS: Final = "adapter_model.safetensors"
CONFIG: Final = "adapter_config.json"
PREFIX: Final = "base_model.model."
"""Prefix of the names of tensors in PEFT's files."""
PATHS: Final = {
    "vllm": ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "sglang": ("/load_lora_adapter", "/unload_lora_adapter"),
}
"""Paths of the routes by kind of server."""
OPTIONS: Final = {
    "vllm": "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora",
    "sglang": "--enable-lora",
}
"""What a server must be started with, by kind."""


def adapter_shapes(base: Mapping[str, Shape], adapter: AdapterConfig) -> dict[str, Shape]:
    """Return the shapes by name of an adapter's tensors.

    Args:
        base: Shapes by name of the adapted checkpoint.
        adapter: Rank and adapted layers.

    Raises:
        WeightsDoNotFit: If the checkpoint lacks an adapted layer.
    """
    found: dict[str, Shape] = {}
    adapted = set[str]()
    for name, shape in base.items():
        module = name.removesuffix(".weight")
        layer = module.rpartition(".")[2]
        if module == name or layer not in adapter.target_modules or len(shape) != 2:
            continue
        rows, columns = shape
        found[f"{PREFIX}{module}.lora_A.weight"] = (adapter.rank, columns)
        found[f"{PREFIX}{module}.lora_B.weight"] = (rows, adapter.rank)
        adapted.add(layer)
    if missing := sorted(set(adapter.target_modules) - adapted):
        raise WeightsDoNotFit(
            f"language.model.adapter.target_modules: the served model has no layer {missing[0]}"
        )
    return found


def write_adapter(folder: Path, tensors: Mapping[str, Any], adapter: AdapterConfig) -> None:
    """Write an adapter that vLLM, SGLang and PEFT can load, unless the folder already has it.

    Args:
        folder: Folder of one version.
        tensors: Tensors with PEFT's names.
        adapter: Rank, alpha and adapted layers.

    Raises:
        OSError: If a file cannot be written.
    """
    if (folder / CONFIG).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, encoded(tensors))
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "target_modules": adapter.target_modules,
        "bias": "none",
    }
    write_whole(folder / CONFIG, msgspec.json.encode(described))


class AdapterServer:
    """A replica that loads adapters at run time."""

    def __init__(self, http: httpx.Client, *, kind: str, model: str = "") -> None:
        self._http, self._kind, self._model = http, kind, model
        self._load, self._unload = PATHS[kind]

    def load(self, name: str, folder: Path) -> bool:
        """Load an adapter; return whether it was missing.

        Raises:
            InferenceFailed: If the replica refuses it, or adapts another model.
            Unreachable: If it cannot be reached.
        """
        check_model(self._http, self._model)
        body = {"lora_name": name, "lora_path": str(folder)}
        response = post(self._http, self._load, body)
        text = response.text[:500]
        if response.status_code == HTTPStatus.OK:
            return True
        if response.status_code == HTTPStatus.BAD_REQUEST and "already" in text:
            return False
        refused = f"language.model.adapter: POST {self._load}: {response.status_code} {text}"
        if "No adapter found" in text:
            refused += f". The server must see weights_directory as {folder.parents[3]}"
        elif response.status_code == HTTPStatus.NOT_FOUND or "not enabled" in text:
            refused += f". Adapters require a server started with {OPTIONS[self._kind]}"
        raise InferenceFailed(refused)

    def unload(self, name: str) -> None:
        """Unload an adapter, if the replica has it.

        Raises:
            InferenceFailed: If the replica fails.
            Unreachable: If it cannot be reached.
        """
        response = post(self._http, self._unload, {"lora_name": name})
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            text = response.text[:500]
            raise InferenceFailed(f"POST {self._unload}: {response.status_code} {text}")


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
        expected = adapter_shapes(self._base.shapes(), self._adapter)
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if given != expected:
            raise WeightsDoNotFit.between(expected, given)
        with locked(self._folder):
            write_adapter(self._folder_of(version), tensors, self._adapter)
            with self._lock:
                if version not in self._uses:
                    lock = (self._folder_of(version) / IN_USE).open("wb")
                    fcntl.flock(lock, fcntl.LOCK_SH)
                    self._uses[version] = _Use(lock)
                self._uses[version].count += 1
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
        with locked(self._folder), self.used() as adapter:
            return adapter.version != NOTHING and self._load(adapter.version)

    def replicas(self) -> list[ReplicaReport]:
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
