"""Schemas of the machine cordons API."""

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
