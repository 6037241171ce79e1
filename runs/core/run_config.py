"""Describe and check what a run is asked to do.

The JSON Schema of :class:`RunConfig` is the launch form, the API reference and the check of
every stored configuration: there is no second list of fields anywhere.
"""

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from runs.core.config_field import described as _field
from runs.core.replay_config import ReplayConfig, contradiction


class InvalidRunConfig(ValueError):
    """A field of the configuration cannot be what it is; the message names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class EnvironmentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which environment the fleet steps."""

    spec: Annotated[
        str,
        _field(
            "Environment",
            "A registered environment, as gymnasium:<id>.",
            pattern=r"^[a-z_]+:[\w./:-]{1,120}$",
        ),
    ] = "gymnasium:CartPole-v1"
    kwargs: Annotated[
        dict[str, Any], _field("Arguments", "Keyword arguments for the environment.")
    ] = {}
    restart_interval_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        _field(
            "Restart interval",
            "Restart an environment's process between episodes after this long; empty for never.",
            unit="s",
        ),
    ] = None


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
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        _field("Device", "Where the policy runs; auto takes a GPU if there is one."),
    ] = "auto"


class PolicyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy that fleet and trainer agree on."""

    kind: Annotated[Literal["mlp"], _field("Policy", "Network architecture.")] = "mlp"
    hidden_sizes: Annotated[
        list[Annotated[int, Meta(ge=1, le=8192)]],
        _field("Hidden layers", "Units of each hidden layer.", min_length=1, max_length=8),
    ] = msgspec.field(default_factory=lambda: [64, 64])


class BufferConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a train step consumes, and how old it may be."""

    batch_size: Annotated[
        int,
        _field(
            "Batch size", "Fragments one train step consumes.", unit="fragments", ge=1, le=1 << 20
        ),
    ] = 16
    max_staleness: Annotated[
        int,
        _field(
            "Maximum staleness",
            "Versions by which data may trail the policy it trains.",
            unit="versions",
            ge=0,
            le=1024,
        ),
    ] = 1
    off_policy_tolerance: Annotated[
        float,
        _field(
            "Off-policy tolerance",
            "Batches that may wait in the queue before producers pause.",
            unit="batches",
            gt=0,
            le=1024,
        ),
    ] = 3.0
    lease_seconds: Annotated[
        float,
        _field("Lease", "How long a trainer may hold a batch.", unit="s", ge=1, le=86_400),
    ] = 60.0
    replay: ReplayConfig = ReplayConfig()


class RunConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a fleet run needs; immutable once the run is created."""

    environment: EnvironmentConfig = EnvironmentConfig()
    fleet: FleetConfig = FleetConfig()
    policy: PolicyConfig = PolicyConfig()
    buffer: BufferConfig = BufferConfig()
    num_steps: Annotated[
        int, _field("Train steps", "Train steps the run is planned for.", ge=1, le=1 << 31)
    ] = 1000
    seed: Annotated[int, _field("Seed", "Base of every random number.", ge=0, le=(1 << 31) - 1)] = 0


PRESETS: Final[dict[str, tuple[str, RunConfig]]] = {
    "cartpole": (
        "CartPole-v1 with PPO: learns within minutes on two cores",
        # 2 × 8 slots give each train step one fragment of every slot: 2,048 env steps. Simulated
        # with these values, data one version old throughout and the example's PPO settings, the
        # mean return reaches 450 after some 40,000 env steps, whatever the seed.
        RunConfig(
            fleet=FleetConfig(num_workers=2, envs_per_worker=8, fragment_length=128),
            buffer=BufferConfig(batch_size=16, max_staleness=1, off_policy_tolerance=3.0),
        ),
    ),
}


def parse(raw: object) -> RunConfig:
    """Return the configuration that `raw` (decoded JSON) describes, defaults filled in.

    Raises:
        InvalidRunConfig: If a field is unknown, of the wrong type or out of range, or if two
            fields contradict each other; `field` is its dotted path.
    """
    try:
        config = msgspec.convert(raw, RunConfig)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        place = path.strip("`").removeprefix("$").lstrip(".")
        unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
        if unknown:
            place = ".".join(part for part in (place, unknown[1]) if part)
            message = "there is no such field"
        raise InvalidRunConfig(place, message) from error
    fleet = config.fleet
    if fleet.inference_batch_size > fleet.envs_per_worker:
        raise InvalidRunConfig(
            "fleet.inference_batch_size",
            f"{fleet.inference_batch_size} observations never wait at once: "
            f"a worker has {fleet.envs_per_worker} environments",
        )
    wrong = contradiction(config.buffer.replay, batch_size=config.buffer.batch_size)
    if wrong is not None:
        raise InvalidRunConfig(f"buffer.replay.{wrong[0]}", wrong[1])
    return config


def to_builtins(config: RunConfig) -> dict[str, Any]:
    """Return `config` as plain JSON values, every default written out."""
    return msgspec.to_builtins(config)  # type: ignore[no-any-return]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a run configuration."""
    return msgspec.json.schema(RunConfig)
