"""Batches, groups, fragments, their counts and audits."""

import uuid
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

from buffer.items.rules.states import (
    IN_A_BATCH,
    NO_ENVIRONMENT,
    BatchState,
    ItemKind,
    ItemState,
    padded_share,
)
from runs.lifecycle.models import Run, Trainer

# Model field for the number of the transaction that wrote a row.

CURRENT_TRANSACTION: Final = models.Func(function="pg_current_xact_id")


class TransactionIdField(models.TextField):  # type: ignore[type-arg]
    """A 64-bit transaction number of PostgreSQL (`xid8`), as text in Python."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002 one database is supported
        return "xid8"


# Models of batches, groups, fragments, their uses and counts, and audits of the counts.

KEPT = Q(segment__isnull=False)
"""Items with stored bytes; items dropped on arrival have a row only."""


def choices(words: type[ItemState] | type[BatchState] | type[ItemKind]) -> list[tuple[str, str]]:
    """Return the values of an enumeration as Django choices."""
    return [(str(word), str(word)) for word in words]


class Batch(models.Model):
    """The items of one train step: leased to a trainer, then acknowledged."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches", db_index=False)
    kind = models.CharField(max_length=9, choices=choices(ItemKind))
    ordinal = models.PositiveIntegerField(help_text="Counts the run's batches from 1.")
    state = models.CharField(max_length=11, choices=choices(BatchState))
    epoch = models.PositiveIntegerField()
    policy_step = models.IntegerField(
        help_text="Policy version of the run at the time of the lease."
    )
    # The lease. Only the database clock sets and evaluates its expiry.
    trainer = models.ForeignKey(
        Trainer, null=True, blank=True, on_delete=models.RESTRICT, related_name="batches"
    )
    fence = models.PositiveIntegerField(default=1, help_text="Rises with every lease.")
    leased_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField()
    # The web process that sends the answer, until the last byte is sent or the client hangs up.
    sender = models.CharField(max_length=120, blank=True)
    sending_since = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True, help_text="Confirmed or dropped.")
    lease_expiries = models.PositiveSmallIntegerField(default=0, help_text="Expired leases.")
    # Composition.
    items = models.PositiveIntegerField()
    sequences = models.PositiveIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    tokens = models.PositiveBigIntegerField(default=0, help_text="Of groups, over all sequences.")
    longest_tokens = models.PositiveIntegerField(default=0, help_text="Of the longest sequence.")
    # Empty: the items refer to this batch, their only one. Else: BatchUse rows list the items.
    sampler = models.CharField(max_length=12, blank=True, default="", db_default="")
    composition = models.JSONField(help_text="Sequences by environment.")
    shares = models.JSONField(default=dict, help_text="Target shares by environment.")
    staleness = models.JSONField(help_text="Items by versions behind, when first handed out.")

    class Meta:
        verbose_name_plural = "batches"
        constraints = [
            models.UniqueConstraint(fields=["run", "ordinal"], name="batch_ordinal_is_one"),
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in BatchState]), name="batch_state_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(state=BatchState.LEASED) | Q(trainer__isnull=False),
                name="batch_lease_has_a_holder",
            ),
        ]
        indexes = [
            models.Index(
                fields=["lease_expires_at"],
                condition=Q(state=BatchState.LEASED),
                name="batch_lease_by_expiry",
            ),
            models.Index(
                fields=["run", "ordinal"],
                condition=Q(state__in=[BatchState.LEASED, BatchState.RETURNED]),
                name="batch_open",
            ),
            models.Index(
                fields=["run"],
                condition=Q(state__in=[BatchState.RETURNED, BatchState.QUARANTINED]),
                name="batch_left_alone",
            ),
        ]

    def __str__(self) -> str:
        return f"batch {self.ordinal} of {self.run_id}"

    @property
    def padding(self) -> float | None:
        """Fraction of positions wasted by padding to the longest sequence; None for fragments."""
        return padded_share(
            tokens=self.tokens, sequences=self.sequences, longest_tokens=self.longest_tokens
        )


class Item(models.Model):
    """Abstract base of groups and fragments."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    state = models.CharField(max_length=11, choices=choices(ItemState))
    drop_reason = models.CharField(max_length=20, blank=True)
    batch = models.ForeignKey(
        Batch, null=True, blank=True, db_index=False, on_delete=models.RESTRICT, related_name="+"
    )
    position = models.PositiveIntegerField(null=True, blank=True, help_text="In its batch.")
    epoch = models.PositiveIntegerField(default=0)
    received_at = models.DateTimeField()
    size_bytes = models.PositiveIntegerField()
    # Location and checksum of the bytes.
    codec = models.CharField(max_length=16, blank=True, db_default="")
    crc32 = models.BigIntegerField(db_default=0)
    segment = models.PositiveIntegerField(
        null=True, blank=True, help_text="Null: no bytes were kept."
    )
    object = models.CharField(
        max_length=80,
        blank=True,
        db_default="",
        help_text="Name in the storage of payloads; empty: in the payload table.",
    )
    offset = models.PositiveBigIntegerField(db_default=0, help_text="In bytes, into the object.")
    origin = models.CharField(
        max_length=60, blank=True, db_default="", help_text="Of a restored item: its run and id."
    )
    # Followers read in the order (written_in, id); see buffer.followers.services.
    written_in = TransactionIdField(db_default=CURRENT_TRANSACTION, editable=False)

    class Meta:
        abstract = True


class TrajectoryGroup(Item):
    """Sequences generated for one prompt, scored together. Ids order the queue."""

    # Policy version in `epoch` that sampled it: as claimed by the producer, else the run's version
    # on arrival. Null: it arrived before versions were recorded.
    policy_step = models.IntegerField(null=True, blank=True)
    # Null: no environment.
    env_id = models.PositiveIntegerField(null=True, blank=True)
    sequences = models.PositiveIntegerField()
    tokens = models.PositiveBigIntegerField(help_text="Over all sequences.")
    longest_tokens = models.PositiveIntegerField(help_text="Of the longest sequence.")
    score_mean = models.FloatField()
    score_min = models.FloatField()
    score_max = models.FloatField()
    score_std = models.FloatField()
    producer = models.CharField(max_length=200, blank=True, help_text="Identity that pushed it.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "origin"],
                condition=~Q(origin=""),
                name="group_is_restored_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in ItemState]), name="group_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state=ItemState.DROPPED) ^ Q(drop_reason=""),
                name="group_drop_has_a_reason",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=IN_A_BATCH) | Q(batch__isnull=False),
                name="group_leased_has_a_batch",
            ),
            models.CheckConstraint(condition=Q(sequences__gte=1), name="group_is_not_empty"),
        ]
        indexes = [
            models.Index(
                F("run"),
                Coalesce("env_id", NO_ENVIRONMENT),
                F("id"),
                condition=Q(state=ItemState.QUEUED),
                name="group_queue_fifo",
            ),
            models.Index(
                F("run"),
                Coalesce("env_id", NO_ENVIRONMENT),
                F("sequences"),
                F("id"),
                condition=Q(state=ItemState.QUEUED),
                name="group_queue_by_size",
            ),
            models.Index(
                fields=["run", "epoch", "policy_step"],
                condition=Q(state=ItemState.QUEUED),
                name="group_queue_by_version",
            ),
            models.Index(
                fields=["run", "env_id", "id"],
                condition=Q(state=ItemState.WAITING),
                name="group_waiting",
            ),
            models.Index(
                fields=["batch", "position"],
                condition=Q(batch__isnull=False),
                name="group_in_batch",
            ),
            # The condition keeps the planner from using this index for queue queries: it assumes
            # evenly spread queued rows and would scan all rows ever served.
            models.Index(
                "run",
                F("id").desc(),
                condition=Q(segment__isnull=False),
                name="group_newest_first",
            ),
            # For lists of dropped groups; other groups are not in these indexes.
            models.Index(
                "run",
                F("id").desc(),
                condition=Q(state=ItemState.DROPPED),
                name="group_dropped_newest_first",
            ),
            models.Index(
                "run",
                F("id").desc(),
                condition=Q(segment__isnull=True),
                name="group_without_bytes",
            ),
            models.Index(fields=["run", "written_in", "id"], condition=KEPT, name="group_stream"),
            # A segment covers a period, so its rows are adjacent: a BRIN index is a few kilobytes.
            BrinIndex(
                fields=["segment"], pages_per_range=16, autosummarize=True, name="group_by_segment"
            ),
        ]

    def __str__(self) -> str:
        return f"group {self.pk} of {self.run_id}"


class FragmentChunk(Item):
    """`steps` consecutive environment steps of a slot, without padding. Ids order the queue."""

    slot = models.CharField(max_length=120)
    number = models.PositiveBigIntegerField()
    contiguous = models.BooleanField()
    environment = models.CharField(max_length=200)
    worker = models.CharField(max_length=120)
    version_min = models.IntegerField()
    version_max = models.IntegerField()
    steps = models.PositiveIntegerField()
    # Replay. Id of the fragment that completed the chunk; null: not chunked, or waiting.
    chunk = models.BigIntegerField(null=True, blank=True)
    uses = models.PositiveIntegerField(default=0, db_default=0, help_text="Sampled batches.")
    confirmed = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Trained items among them."
    )
    priority = models.FloatField(null=True, blank=True, help_text="Null: no priority was set.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "slot", "number"], name="fragment_is_stored_once"
            ),
            models.UniqueConstraint(
                fields=["run", "origin"],
                condition=~Q(origin=""),
                name="fragment_is_restored_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in ItemState]), name="fragment_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state=ItemState.DROPPED) ^ Q(drop_reason=""),
                name="fragment_drop_has_a_reason",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=IN_A_BATCH) | Q(batch__isnull=False) | Q(uses__gte=1),
                name="fragment_leased_has_a_batch",
            ),
            models.CheckConstraint(
                condition=Q(uses__gte=F("confirmed")), name="fragment_uses_are_counted"
            ),
        ]
        indexes = [
            models.Index(
                fields=["run", "epoch", "id"],
                condition=Q(state=ItemState.QUEUED),
                name="fragment_queue_fifo",
            ),
            models.Index(
                fields=["run", "epoch", "version_min"],
                condition=Q(state=ItemState.QUEUED),
                name="fragment_queue_by_version",
            ),
            models.Index(
                fields=["batch", "position"],
                condition=Q(batch__isnull=False),
                name="fragment_in_batch",
            ),
            models.Index(
                fields=["run", "epoch", "environment", "id"],
                condition=Q(state=ItemState.QUEUED),
                name="fragment_queue_by_environment",
            ),
            models.Index(
                fields=["run", "slot", "number"],
                condition=Q(state=ItemState.WAITING),
                name="fragment_waiting",
            ),
            models.Index(
                fields=["chunk"], condition=Q(chunk__isnull=False), name="fragment_in_chunk"
            ),
            # The condition keeps the planner from using this index for queue queries: it assumes
            # evenly spread queued rows and would scan all rows ever served.
            models.Index(
                "run",
                F("id").desc(),
                condition=Q(segment__isnull=False),
                name="fragment_newest_first",
            ),
            models.Index(
                fields=["run", "written_in", "id"], condition=KEPT, name="fragment_stream"
            ),
            # A segment covers a period, so its rows are adjacent: a BRIN index is a few kilobytes.
            BrinIndex(
                fields=["segment"],
                pages_per_range=16,
                autosummarize=True,
                name="fragment_by_segment",
            ),
        ]

    def __str__(self) -> str:
        return f"fragment {self.slot} #{self.number} of {self.run_id}"


class Tally(models.Model):
    """Counts of items, updated with every change so that rows need not be counted.

    A count is the sum over its shards. Writers on different connections update different rows
    and do not wait for each other. A single shard may be negative.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    kind = models.CharField(max_length=9, choices=choices(ItemKind))
    # A state, or a count of `buffer.items.rules.ledger` that is none.
    state = models.CharField(max_length=11)
    reason = models.CharField(max_length=20, blank=True)
    epoch = models.PositiveIntegerField()
    # For groups; -1: no environment.
    env_id = models.IntegerField()
    # For fragments: name of the environment.
    environment = models.CharField(max_length=200, blank=True, db_default="")
    # Sequences per item while queued or waiting, else 0.
    size = models.PositiveIntegerField()
    shard = models.PositiveSmallIntegerField()
    items = models.BigIntegerField()
    sequences = models.BigIntegerField()
    size_bytes = models.BigIntegerField(db_default=0)

    class Meta:
        verbose_name_plural = "tallies"
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("run", "kind", "state", "reason", "epoch", "env_id", "environment"),
                    *("size", "shard"),
                ],
                name="tally_is_one",
            )
        ]

    def __str__(self) -> str:
        return f"{self.items} {self.kind} {self.state} of {self.run_id}"


class ShortGroup(models.Model):
    """A group of which rollouts failed or have no score; K rollouts are complete.

    The newest rows of a run describe what its short-group policy drops or keeps.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    at = models.DateTimeField()
    environment = models.CharField(max_length=200, blank=True, help_text="Or lesson.")
    example = models.CharField(max_length=200, blank=True, help_text="Key of the problem.")
    prompt = models.TextField(blank=True, help_text="Beginning of the prompt.")
    failed = models.JSONField(default=dict, help_text="Rollouts of the first attempt, by kind.")
    rewards = ArrayField(models.FloatField(), help_text="K, refilled rollouts last.")
    tokens = ArrayField(models.PositiveIntegerField(), help_text="K.")
    refilled = models.PositiveIntegerField(default=0)
    is_kept = models.BooleanField(help_text="Whether it is trained on.")

    class Meta:
        indexes = [models.Index(fields=["run", "-id"], name="short_group_newest_first")]

    def __str__(self) -> str:
        return f"{self.example} of run {self.run_id}"


class MixingShare(models.Model):
    """Sequences of one environment in all batches so far, and its debt."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    # -1: groups without an environment.
    env_id = models.IntegerField()
    sequences = models.BigIntegerField(default=0, help_text="In batches so far.")
    debt = models.FloatField(
        default=0.0, help_text="In sequences; negative for more than its share."
    )
    target = models.FloatField(default=0.0, help_text="Its share of the newest batch by weight.")
    blocks_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when a batch waits for the environment's minimum."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "env_id"], name="mixing_share_is_one")
        ]

    def __str__(self) -> str:
        return f"share of environment {self.env_id} of {self.run_id}"


class LedgerAudit(models.Model):
    """The last comparison of a run's counts with its rows."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="ledger_audit")
    audited_at = models.DateTimeField()
    took_seconds = models.FloatField()
    # Hash of the counts at the audit; a run with unchanged counts is not audited again.
    counts_md5 = models.CharField(max_length=32)

    def __str__(self) -> str:
        return f"audit of {self.run_id}"


class BatchUse(models.Model):
    """A fragment in a sampled batch; a fragment may be in several batches."""

    batch = models.ForeignKey(Batch, db_index=False, on_delete=models.CASCADE, related_name="uses")
    item = models.ForeignKey(FragmentChunk, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField(help_text="In the batch.")
    importance_weight = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "position"], name="use_position_is_one"),
        ]

    def __str__(self) -> str:
        return f"fragment {self.item_id} in batch {self.batch_id}"
