"""API schemas of queues, push rates, environment mixes and batch items."""

from datetime import datetime

from msgspec import Struct


class LimitSetter(Struct, frozen=True, kw_only=True):
    """Author of the current limits."""

    actor: str
    at: datetime
    reason: str
    is_initial: bool
    """True if the limits have not changed since the run was created."""


class EnvironmentQueueRow(Struct, frozen=True, kw_only=True):
    """Queued and waiting items of one environment."""

    env_id: int | None
    name: str
    queued: int
    queued_sequences: int
    waiting: int
    """Number of groups or fragments that wait for others to complete a group or chunk."""
    waiting_sizes: dict[int, int]
    """Number of waiting groups by size in sequences."""
    group_size: int | None
    """Sequences to which waiting groups must sum; null if not registered."""
    oldest_at: datetime | None
    """Arrival time of the head of its queue."""
    waiting_since: datetime | None
    """Arrival time of the oldest waiting group."""


class EnvironmentPushRate(Struct, frozen=True, kw_only=True):
    """Push rate of one environment within the last minute."""

    env_id: int | None
    """Null for groups without an environment, and for fragments."""
    environment: str
    """Name of the environment, for fragments."""
    per_second: float
    """Groups or fragments, including those dropped on arrival; measured over a shorter period
    if there are very many."""
    newest_at: datetime


class BatchItem(Struct, frozen=True, kw_only=True):
    """A group or fragment of a batch without its bytes."""

    id: int
    position: int
    environment: str
    env_id: int | None
    policy_step: int | None
    """Policy version that sampled it; the oldest one for a fragment."""
    staleness: int | None
    """Policy versions by which it was behind the run when the batch was leased."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int | None
    """Null for fragments."""
    longest_tokens: int | None
    score_mean: float | None
    steps: int | None
    """Environment steps; null for groups."""
    state: str
    drop_reason: str


class EnvironmentMixing(Struct, frozen=True, kw_only=True):
    """Target share, served share and debt of one environment; sizes count sequences.

    `env_id` is null for groups without an environment. `target` is its share by weight,
    `realised` its share of all batches so far. `debt` is what it is still owed; negative if it
    received more. `blocks_since` is the time since which a batch waits for its minimum.
    """

    env_id: int | None
    name: str | None
    connected: bool
    weight: float
    minimum: float
    target: float
    realised: float
    sequences: int
    debt: float
    queued_sequences: int
    blocks_since: datetime | None
