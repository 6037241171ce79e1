"""Describe how many workers a run has, and how they roll out."""

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from runs.core.config_field import described as _field


class FleetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many workers roll out, and how."""

    num_workers: Annotated[
        int, _field("Workers", "Rollout workers, each a Ray actor with a policy.", ge=1, le=4096)
    ] = 1
    envs_per_worker: Annotated[
        int, _field("Environments per worker", "Env slots of one worker.", ge=1, le=1024)
    ] = 8
    envs_per_process: Annotated[
        int,
        _field(
            "Environments per process",
            "Env slots that share one operating-system process; raise it for cheap environments.",
            ge=1,
            le=1024,
        ),
    ] = 8
    envs_in_worker: Annotated[
        bool,
        _field(
            "Environments in the worker",
            "Step all environments in the worker's own process: faster for those that cost a few "
            "microseconds a step; one that hangs or crashes takes its worker along.",
        ),
    ] = False
    inference_batch_size: Annotated[
        int,
        _field("Inference batch", "Observations that start an inference at once.", ge=1, le=1024),
    ] = 8
    batch_timeout_ms: Annotated[
        float,
        _field(
            "Inference timeout",
            "Start an inference with fewer observations after this long.",
            unit="ms",
            gt=0,
            le=60_000,
        ),
    ] = 20.0
    fragment_length: Annotated[
        int, _field("Fragment length", "Env steps in one fragment.", unit="steps", ge=1, le=65_536)
    ] = 128
    to_send_queue_size: Annotated[
        int, _field("Send queue", "Fragments a worker holds before it waits.", ge=1, le=4096)
    ] = 16
    num_cpus_per_worker: Annotated[
        float, _field("CPUs per worker", "Ray CPUs one worker reserves.", ge=0, le=1024)
    ] = 0.25
    num_gpus_per_worker: Annotated[
        float,
        _field(
            "GPUs per worker",
            "Ray GPUs one worker reserves; workers may share one: 0.25.",
            ge=0,
            le=64,
        ),
    ] = 0.0
    weights_transport: Annotated[
        Literal["http", "directory"],
        _field(
            "Weights by",
            "http: the trainer uploads them. directory: it writes them where this deck's "
            "administrator shares a directory between trainers and fleets.",
        ),
    ] = "http"
    weights_timeout_seconds: Annotated[
        float,
        _field(
            "Time to load weights",
            "A worker that takes longer to load a version is replaced.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 300.0
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        _field("Device", "Where the policy runs; auto takes a GPU if there is one."),
    ] = "auto"
    placement: Annotated[
        Literal["auto", "spread", "pack"],
        _field(
            "Placement",
            "auto: each worker where there is room; a fleet runs with those that fit. "
            "spread, pack: room for all is reserved together, over many nodes or few.",
        ),
    ] = "auto"
    resources: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=1_000_000)]],
        _field(
            "Custom resources",
            'Further Ray resources one worker reserves, by name: {"simulator": 1}.',
            max_length=16,
        ),
    ] = {}
    discount: Annotated[
        float,
        _field(
            "Discount",
            "Of the discounted return that statistics show, for each env step; "
            "trainers use their own.",
            ge=0,
            le=1,
        ),
    ] = 0.99

    @property
    def env_processes(self) -> int:
        """How many step the environments of one worker side by side; itself, if it does so."""
        return 1 if self.envs_in_worker else -(-self.envs_per_worker // self.envs_per_process)

    @property
    def worker_resources(self) -> dict[str, float]:
        """Everything one worker reserves, by Ray's names, without what it needs nothing of."""
        wanted = {"CPU": self.num_cpus_per_worker, "GPU": self.num_gpus_per_worker}
        return {name: amount for name, amount in {**wanted, **self.resources}.items() if amount}


_RESOURCE_NAME: Final = re.compile(r"[A-Za-z][\w.:-]{0,63}")
_NOT_CUSTOM: Final = {
    "cpu": "fleet.num_cpus_per_worker",
    "gpu": "fleet.num_gpus_per_worker",
    "memory": "",
    "object_store_memory": "",
    "bundle": "",
}


def contradiction(config: FleetConfig) -> tuple[str, str] | None:
    """Return a field that cannot be what it is beside the others, and why."""
    if config.inference_batch_size > config.envs_per_worker:
        never = f"{config.inference_batch_size} observations never wait at once"
        has = f"a worker has {config.envs_per_worker} environments"
        return "inference_batch_size", f"{never}: {has}"
    gpus = config.num_gpus_per_worker
    if gpus > 1 and gpus != int(gpus):
        return "num_gpus_per_worker", f"{gpus:g} GPUs: a share of one, or whole ones"
    for name in config.resources:
        if wrong := _wrong_name(name):
            return "resources", wrong
    if config.placement != "auto" and not config.worker_resources:
        return "placement", "nothing can be reserved for workers that need no CPU, GPU or resource"
    return None


def _wrong_name(name: str) -> str:
    instead = _NOT_CUSTOM.get(name.lower())
    if instead is not None:
        return f"{name!r} is no custom resource" + (f"; set {instead}" if instead else "")
    if not _RESOURCE_NAME.fullmatch(name):
        return f"{name!r} is no name of a resource: a letter, then letters, digits, . : _ -"
    return ""
