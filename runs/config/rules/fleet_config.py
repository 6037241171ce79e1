"""Fleet settings of a run, and those of the evaluations of a step fleet."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from runs.config.rules.config_field import NO_LANGUAGE, none_of, one_of
from runs.config.rules.config_field import described as _field

_EVALUATED: Final = (none_of("evaluation.every_train_steps", 0),)


class StepEvaluationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedule and size of the evaluations of a step fleet."""

    every_train_steps: Annotated[
        int,
        _field(
            "Evaluate every",
            "Train steps between evaluations of the newest weights; 0 for none. Not for language "
            "runs.",
            unit="steps",
            ge=0,
            le=1 << 31,
        ),
    ] = 0
    episodes: Annotated[
        int, _field("Episodes", "Episodes per evaluation.", when=_EVALUATED, ge=1, le=10_000)
    ] = 20
    envs: Annotated[
        int,
        _field(
            "Environments",
            "Environments that the evaluation steps concurrently, in a process of their own.",
            when=_EVALUATED,
            ge=1,
            le=256,
        ),
    ] = 4
    deterministic: Annotated[
        bool,
        _field(
            "Deterministic",
            "Take the most likely action instead of sampling actions.",
            when=_EVALUATED,
        ),
    ] = True
    timeout_seconds: Annotated[
        float,
        _field(
            "Time limit",
            "An evaluation that takes longer fails.",
            unit="s",
            when=_EVALUATED,
            gt=0,
            le=86_400,
        ),
    ] = 600.0


class FleetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Workers of a fleet and how they roll out."""

    num_workers: Annotated[
        int,
        _field(
            "Workers",
            "Rollout workers, each a Ray actor with a policy.",
            essential=True,
            ge=1,
            le=4096,
        ),
    ] = 1
    envs_per_worker: Annotated[
        int,
        _field(
            "Environments per worker",
            "Env slots of one worker.",
            essential=True,
            when=(NO_LANGUAGE,),
            ge=1,
            le=1024,
        ),
    ] = 8
    envs_per_process: Annotated[
        int,
        _field(
            "Environments per process",
            "Env slots that share one operating-system process; raise it for cheap environments.",
            when=(NO_LANGUAGE, one_of("fleet.envs_in_worker", False)),
            ge=1,
            le=1024,
        ),
    ] = 8
    envs_in_worker: Annotated[
        bool,
        _field(
            "Environments in the worker",
            "Step all environments in the worker's own process: faster for those that cost a few "
            "microseconds a step; a hang or a crash affects the whole worker.",
            when=(NO_LANGUAGE,),
        ),
    ] = False
    inference_batch_size: Annotated[
        int,
        _field(
            "Inference batch",
            "Observations that start an inference immediately.",
            when=(NO_LANGUAGE,),
            ge=1,
            le=1024,
        ),
    ] = 8
    batch_timeout_ms: Annotated[
        float,
        _field(
            "Inference timeout",
            "Start an inference with fewer observations after this long.",
            unit="ms",
            when=(NO_LANGUAGE,),
            gt=0,
            le=60_000,
        ),
    ] = 20.0
    fragment_length: Annotated[
        int,
        _field(
            "Fragment length",
            "Env steps in one fragment.",
            unit="steps",
            essential=True,
            when=(NO_LANGUAGE,),
            ge=1,
            le=65_536,
        ),
    ] = 128
    to_send_queue_size: Annotated[
        int, _field("Send queue", "Fragments a worker queues before it blocks.", ge=1, le=4096)
    ] = 16
    num_cpus_per_worker: Annotated[
        float, _field("CPUs per worker", "Ray CPUs one worker reserves.", ge=0, le=1024)
    ] = 0.25
    num_gpus_per_worker: Annotated[
        float,
        _field(
            "GPUs per worker",
            "Share of one GPU that a worker reserves with Ray: 1 for a whole GPU, 0.25 for a GPU "
            "shared by four workers, 0 for none.",
            ge=0,
            le=64,
        ),
    ] = 0.0
    weights_transport: Annotated[
        Literal["http", "directory"],
        _field(
            "Weights transport",
            "http: the trainer uploads them. directory: the trainer writes them to a directory "
            "that the administrator shares between trainers and fleets.",
        ),
    ] = "http"
    weights_timeout_seconds: Annotated[
        float,
        _field(
            "Weights timeout",
            "A worker that takes longer to load a version is replaced.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 300.0
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        _field(
            "Device",
            "Device of the policy. auto: the GPU that the worker reserves, otherwise the CPU. "
            "cuda: the worker must reserve a GPU.",
        ),
    ] = "auto"
    placement: Annotated[
        Literal["auto", "spread", "pack"],
        _field(
            "Placement",
            "auto: each worker is placed where resources are free; a fleet runs with those that "
            "fit. spread, pack: resources for all are reserved together, over many nodes or few.",
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
            "Discount per env step of the returns shown in statistics; trainers use their own.",
            when=(NO_LANGUAGE,),
            ge=0,
            le=1,
        ),
    ] = 0.99

    @property
    def slots(self) -> int:
        """Number of env slots of all workers."""
        return self.num_workers * self.envs_per_worker

    @property
    def env_processes(self) -> int:
        """Number of processes that step one worker's environments; 1 for in-worker steps."""
        return 1 if self.envs_in_worker else -(-self.envs_per_worker // self.envs_per_process)

    @property
    def policy_device(self) -> str:
        """Device of a worker's policy: ``cpu``, ``cuda`` or ``auto`` (a GPU if there is one).

        Without a reservation ``auto`` is the CPU: Ray shows all GPUs of a machine to a worker that
        reserves none.
        """
        return "cpu" if self.device == "auto" and not self.num_gpus_per_worker else self.device

    @property
    def worker_resources(self) -> dict[str, float]:
        """Resources that one worker reserves, by Ray's names, without zero amounts."""
        resources = {"CPU": self.num_cpus_per_worker, "GPU": self.num_gpus_per_worker}
        return {name: amount for name, amount in {**resources, **self.resources}.items() if amount}


_RESOURCE_NAME: Final = re.compile(r"[A-Za-z][\w.:-]{0,63}")
_NOT_CUSTOM: Final = {
    "cpu": "fleet.num_cpus_per_worker",
    "gpu": "fleet.num_gpus_per_worker",
    "memory": "",
    "object_store_memory": "",
    "bundle": "",
}


def contradictions(config: FleetConfig) -> Iterator[tuple[str, str]]:
    """Return each field that contradicts the others, and the reason."""
    if config.inference_batch_size > config.envs_per_worker:
        most = f"{config.inference_batch_size} observations can never be pending"
        yield "inference_batch_size", f"{most}: a worker has {config.envs_per_worker} environments"
    gpus = config.num_gpus_per_worker
    if gpus > 1:
        yield (
            "num_gpus_per_worker",
            f"{gpus:g} GPUs: a worker computes on at most 1; use more workers",
        )
    if config.device == "cuda" and not gpus:
        yield "device", "cuda needs a GPU: set fleet.num_gpus_per_worker above 0, at most 1"
    wrong = []
    for name in config.resources:
        instead = _NOT_CUSTOM.get(name.lower())
        if instead is not None:
            hint = f"; set {instead}" if instead else ""
            wrong.append(f"{name!r} is not a custom resource{hint}")
        elif not _RESOURCE_NAME.fullmatch(name):
            rule = "a letter, then letters, digits, . : _ -"
            wrong.append(f"{name!r} is not a valid resource name: {rule}")
    if wrong:
        yield "resources", "; ".join(wrong)
    if config.placement != "auto" and not config.worker_resources:
        yield "placement", "must be auto for workers that reserve no CPU, GPU or custom resource"
