"""Shape what people ask of a machine of the cluster."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct


class MachineCordonWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/cluster/nodes/{node}/cordon``."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class MachineCordonRow(Struct, frozen=True, kw_only=True):
    """A machine that shall be empty, and how far that is."""

    node: str
    """As Ray calls it."""
    host: str
    reason: str
    cordoned_by: str
    cordoned_at: datetime
    workers: int
    """Workers of all runs that are still there, as they last said."""
    managers: list[str]
    """Runs whose manager is there, as it last said: it stays as long as its machine."""


class MachineCordonAnswer(Struct, frozen=True, kw_only=True):
    """Whether a machine is cordoned."""

    node: str
    cordon: MachineCordonRow | None
    """Null: it is not."""
