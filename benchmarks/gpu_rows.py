"""Rows of the GPU check, and the outcome of each. See :mod:`benchmarks.gpu_check`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

PRECISIONS: Final = ("float32", "bfloat16", "float16")
POLICIES: Final = ("mlp", "cnn", "gru", "registered")
Figures = Mapping[str, float]
Measure = Callable[[str, float], Figures]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a row on a device."""

    state: Literal["ok", "failed", "not available"]
    reason: str = ""
    """Why it is not ok."""
    figures: dict[str, float] = {}


class Row(NamedTuple):
    """One check of a device."""

    name: str
    checks: str
    measure: Measure
    """Returns the figures on a device within about the given seconds."""


def run(row: Row, device: str, seconds: float) -> Outcome:
    """Return the outcome of a row; exceptions become its reason."""
    from benchmarks.gpu_cluster import Unavailable
    from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit

    try:
        return Outcome(state="ok", figures=dict(row.measure(device, seconds)))
    except Unavailable as missing:
        return Outcome(state="not available", reason=str(missing))
    except ModuleNotFoundError as missing:
        return Outcome(state="not available", reason=f"{missing.name} is not installed")
    except Exception as error:  # noqa: BLE001 the other rows are still measured
        if isinstance(error, PolicyDoesNotFit) and error.field == "policy.precision":
            return Outcome(state="not available", reason=str(error))
        return Outcome(state="failed", reason=f"{type(error).__name__}: {error}")


def rows() -> list[Row]:
    """Return all rows, in the order of their measurement."""
    policies = [
        Row(
            f"{kind} {precision}",
            f"`{kind}` policy in {precision}: values as in float32 on the CPU, one copy from the "
            "device per inference; a worker, and inferences alone",
            partial(_policy, kind, precision),
        )
        for kind in POLICIES
        for precision in PRECISIONS
    ]
    engines = [
        Row(
            f"engine {precision}",
            f"engine of language runs in {precision}: log probabilities as in float32 on the CPU, "
            "one copy per step, a new version between two tokens",
            partial(_engine, precision),
        )
        for precision in PRECISIONS
    ]
    return [
        *policies,
        *engines,
        Row("weights", "100 MB of weights to the device and back without a changed bit", _weights),
        Row(
            "language weights",
            "bfloat16 weights of a language model from the device, and back to it",
            _language_weights,
        ),
        Row(
            "adapter",
            "LoRA adapter of a bfloat16 model: two training steps on the device leave the model "
            "unchanged; published, restored and merged without a changed bit",
            _adapter,
        ),
        Row(
            "batch tensors",
            "arrays of a padded batch as tensors of the device, unchanged",
            _batch_tensors,
        ),
        Row(
            "local fleet",
            "`LocalFleet` of two workers over HTTP, with published tensors of the device",
            _fleet,
        ),
        Row(
            "ray",
            "Ray fleet of two workers with half of a GPU each, reserved together",
            _ray,
        ),
        Row("nvml", "the driver's readings that workers report", _nvml),
    ]


def _policy(kind: str, precision: str, device: str, seconds: float) -> Figures:
    from benchmarks import gpu_measures

    return gpu_measures.policy(device, kind, precision, seconds)


def _engine(precision: str, device: str, seconds: float) -> Figures:
    from benchmarks import gpu_engine

    return gpu_engine.engine(device, precision, seconds)


def _weights(device: str, _: float) -> Figures:
    from benchmarks import gpu_measures

    return gpu_measures.weights(device)


def _language_weights(device: str, _: float) -> Figures:
    from benchmarks import gpu_engine

    return gpu_engine.language_weights(device, "bfloat16")


def _adapter(device: str, _: float) -> Figures:
    from benchmarks import gpu_adapter

    return gpu_adapter.adapter(device, "bfloat16")


def _batch_tensors(device: str, _: float) -> Figures:
    from benchmarks import gpu_measures

    return gpu_measures.batch_tensors(device)


def _fleet(device: str, seconds: float) -> Figures:
    from benchmarks import gpu_measures

    return gpu_measures.fleet(device, seconds)


def _ray(device: str, _: float) -> Figures:
    from benchmarks import gpu_cluster

    return gpu_cluster.ray_fleet(device)


def _nvml(device: str, _: float) -> Figures:
    from benchmarks import gpu_cluster

    return gpu_cluster.nvml(device)
