"""Schemas of the worker incarnations API."""

from datetime import datetime

from msgspec import Struct

from web.rules.pages import Page


class AttemptRow(Struct, frozen=True, kw_only=True):
    """One incarnation of a worker, with the values of its last report."""

    id: int
    worker: int
    incarnation: str
    started_at: datetime
    """Time of its first report."""
    ended_at: datetime | None
    """End time; null while it is running."""
    reason: str
    """Reason of its end."""
    node: str
    pid: int | None
    env_steps: int
    fragments_sent: int
    lost_steps: int
    """Env steps in incomplete fragments."""
    unsent_fragments: int
    """Fragments in its spool, which another worker on its node sends."""


class Attempts(Page[AttemptRow], frozen=True, kw_only=True):
    """Incarnations of a fleet's workers, newest first."""
