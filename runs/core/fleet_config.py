"""Describe how many workers a run has, and how they roll out."""

from typing import Annotated, Literal

from msgspec import Struct

from runs.core.config_field import described as _field


class FleetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many workers roll out, and how."""

    num_workers: Annotated[
        int, _field("Workers", "Rollout workers, each a Ray actor with a policy.", ge=1, le=1024)
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
        float, _field("GPUs per worker", "Ray GPUs one worker reserves.", ge=0, le=64)
    ] = 0.0
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
