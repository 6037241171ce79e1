"""Schemas of the machines API: cordons, and usage over time."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct


class CordonMachine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/cluster/nodes/{node}/cordon``."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class MachineCordonRow(Struct, frozen=True, kw_only=True):
    """A cordoned machine, and the progress of its draining."""

    node: str
    """Ray's id of the node."""
    host: str
    reason: str
    cordoned_by: str
    cordoned_at: datetime
    workers: int
    """Workers of all runs still on the machine, as last reported."""
    managers: list[str]
    """Runs whose manager is on the machine, as last reported; managers stay until the machine
    stops.
    """


class MachineCordonAnswer(Struct, frozen=True, kw_only=True):
    """Whether a machine is cordoned."""

    node: str
    cordon: MachineCordonRow | None
    """Null: the machine is not cordoned."""


class MachinePoint(Struct, frozen=True, kw_only=True):
    """Usage of a machine in one interval: means; all null if nothing was measured."""

    at: datetime
    """Beginning of the interval."""
    cpu_cores: float | None
    """Busy cores."""
    memory_bytes: float | None
    """Memory that is not available to new processes."""
    gpu_percent: float | None
    """Utilization, mean over its GPUs."""
    gpu_memory_bytes: float | None
    """Used memory of all GPUs."""


class MachineHistory(Struct, frozen=True, kw_only=True):
    """Usage of a machine over time."""

    node: str
    """Ray's id of the node."""
    step_seconds: int
    """Length of an interval; each holds up to one sample per minute."""
    cpus: int | None
    """As of the newest sample in the range, as for all below; null without one."""
    memory_total_bytes: int | None
    gpus: int | None
    gpu_memory_total_bytes: int | None
    points: list[MachinePoint]
    """Intervals without a break, oldest first."""
