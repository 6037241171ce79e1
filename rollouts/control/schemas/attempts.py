"""Shape what the API tells of the processes that a worker has been."""

from datetime import datetime

from msgspec import Struct


class AttemptRow(Struct, frozen=True, kw_only=True):
    """One incarnation of a worker; figures are those of its last report."""

    id: int
    worker: int
    incarnation: str
    started_at: datetime
    """When it was first reported."""
    ended_at: datetime | None
    """Null: it lives."""
    reason: str
    """Why it ended."""
    node: str
    pid: int | None
    env_steps: int
    fragments_sent: int
    lost_steps: int
    """Env steps in fragments that were not full."""
    unsent_fragments: int
    """Fragments in its spool, which another worker on its node sends."""


class Attempts(Struct, frozen=True, kw_only=True):
    """Incarnations of a fleet's workers, newest first."""

    results: list[AttemptRow]
