"""API schemas of ledgers and limits."""

from datetime import datetime
from typing import Literal

from msgspec import Struct


class KindLedger(Struct, frozen=True, kw_only=True):
    """Items of one kind by state; `dropped` counts by reason."""

    accepted: int
    queued: int
    waiting: int
    leased: int
    """Items in unacknowledged batches: leased by a trainer, or with an expired lease."""
    served: int
    quarantined: int
    dropped: dict[str, int]
    balanced: bool


class LedgerPart(Struct, frozen=True, kw_only=True):
    """The ledger of a run; all counts are of one moment."""

    groups: KindLedger
    fragments: KindLedger
    sequences: KindLedger
    """The same groups, counted in sequences: the unit of batches and thresholds."""
    expired: int
    """Sequences or fragments of expired leases. They are a part of `leased`, held by no trainer
    and leased again first."""
    truncated: int
    """Groups accepted with sequences truncated to `max_token_len`; dropped ones are `overlong`."""
    failed: dict[str, int]
    """Rollouts of lessons and environments that failed or have no score, by kind. They were never
    accepted."""
    refilled: int
    """Rollouts that took the place of failed ones, by the policy `refill`."""
    lost_siblings: int
    """Complete rollouts of groups that were dropped because others of the group failed."""
    refused: int
    """Refused pushes of environments and refused fragments of a fleet, not part of `accepted`."""
    problem: str
    """Mismatch found by the last comparison of the counts with the rows; empty if none."""


class EnvironmentLedger(KindLedger, frozen=True, kw_only=True):
    """Ledger of one environment."""

    kind: Literal["groups", "fragments"]
    env_id: int | None
    """Null for groups without an environment, and for fragments."""
    environment: str
    """Name of the environment, for fragments."""
    sequences: KindLedger
    """The same items in sequences; a fragment counts as one."""


class LedgerAnswer(LedgerPart, frozen=True, kw_only=True):
    """Ledger of a run: its accepted items by state, all of one moment."""

    environments: list[EnvironmentLedger]
    """Ledgers by environment; they add up to `groups` and `fragments`."""
    audited_at: datetime | None
    """Time of the last comparison of the counts with the rows."""


class LimitsAnswer(Struct, frozen=True, kw_only=True):
    """Limits of the server; names contain the units."""

    max_body_bytes: int
    max_decompressed_bytes: int
    max_decompression_ratio: int
    max_weights_bytes: int
    max_header_bytes: int
    max_header_seconds: int
    max_idle_seconds: int
    max_wait_seconds: int
    max_json_depth: int
    max_json_values: int
    max_groups_per_push: int
    max_sequences_per_group: int
    max_tokens_per_sequence: int
    max_tokens_per_group: int
    max_values_per_group: int
    max_queued_groups: int
    max_queued_fragments: int
    max_run_bytes: int
    min_free_disk_bytes: int
    """Pushes are refused while less disk is free."""
    max_token_id: int
