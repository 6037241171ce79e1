"""Shape what waits of each environment, what each pushes and gets, and what a batch is made of."""

from datetime import datetime

from msgspec import Struct


class LimitSetter(Struct, frozen=True, kw_only=True):
    """Who made the limits what they are."""

    actor: str
    at: datetime
    reason: str
    was_created_so: bool
    """Nobody has changed them since the run was created."""


class EnvironmentQueueRow(Struct, frozen=True, kw_only=True):
    """What waits of one environment."""

    env_id: int | None
    name: str
    queued: int
    queued_sequences: int
    waiting: int
    """Groups that are smaller than the environment's, or fragments of a chunk, until complete."""
    waiting_sizes: dict[int, int]
    """Of groups that wait: how many there are of each size in sequences."""
    group_size: int | None
    """Sequences to which waiting groups have to add up; null where nobody said so."""
    oldest_at: datetime | None
    """When the head of its queue came in."""
    waiting_since: datetime | None
    """When the oldest of the groups that wait came in."""


class EnvironmentArrivals(Struct, frozen=True, kw_only=True):
    """What one environment pushed within the last minute."""

    env_id: int | None
    """Of groups; null where they came without one, and for fragments."""
    environment: str
    """Of fragments, by name."""
    per_second: float
    """Groups or fragments, those that were dropped as they came in too; of less than a minute
    where very many came."""
    newest_at: datetime


class BatchItem(Struct, frozen=True, kw_only=True):
    """A group or fragment of a batch without its bytes."""

    id: int
    position: int
    environment: str
    env_id: int | None
    policy_step: int | None
    """Version that sampled it, the oldest one of a fragment."""
    staleness: int | None
    """Versions by which it trailed the run when the batch was handed out."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int | None
    """Of groups."""
    longest_tokens: int | None
    score_mean: float | None
    steps: int | None
    """Env steps, of fragments."""
    state: str
    drop_reason: str


class EnvironmentMixing(Struct, frozen=True, kw_only=True):
    """What one environment may claim of batches, and what it got; sizes count sequences.

    `env_id` is null for groups that were pushed without an environment. `target` is its share by
    weight, `realised` its share of all batches so far, `debt` what it is owed (negative: it got
    ahead). `blocks_since`: since when a batch waits for its minimum.
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
