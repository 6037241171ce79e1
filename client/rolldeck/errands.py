"""Shape what people ask of a fleet through the platform, and what the fleet answers."""

from typing import Annotated

from msgspec import Meta, Struct


class LogRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants to read the end of a log; answered by its id."""

    id: str
    worker: int | None
    """Null: the manager."""
    slot: int | None
    """Null: the worker itself, else the env process that holds the slot."""
    lines: int


class LogLines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/fleet/logs/{request}``: the end of a log, oldest first."""

    lines: Annotated[list[Annotated[str, Meta(max_length=2100)]], Meta(max_length=1000)]
    node: Annotated[str, Meta(max_length=200)] = ""
    path: Annotated[str, Meta(max_length=500)] = ""
    """Of the file on that node."""
    note: Annotated[str, Meta(max_length=4000)] = ""
    """Why there is no more."""
