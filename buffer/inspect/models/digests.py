"""What lists and searches know of a group's content, without opening it."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q

from buffer.items.models.items import TrajectoryGroup
from buffer.items.models.transaction_ids import TransactionIdField
from runs.models import Run


class GroupDigest(models.Model):
    """A group in a few words, written in the background after it came in."""

    group = models.OneToOneField(
        TrajectoryGroup, primary_key=True, on_delete=models.CASCADE, related_name="digest"
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    lesson = models.CharField(max_length=120, blank=True)
    worker = models.CharField(max_length=120, blank=True)
    example = models.CharField(max_length=120, blank=True, help_text="Key of its problem.")
    scores = ArrayField(models.FloatField(), default=list, help_text="Of its first sequences.")
    lengths = ArrayField(
        models.PositiveIntegerField(), default=list, help_text="Of the same, in tokens."
    )
    truncated = models.PositiveIntegerField(default=0, help_text="Sequences cut at a limit.")
    duplicates = models.PositiveIntegerField(
        default=0, help_text="Sequences that are the same tokens as an earlier one."
    )
    excerpt = models.CharField(max_length=240, blank=True)
    # The same in every run in which the same was asked; null where nobody knows what was.
    prompt = models.UUIDField(null=True, blank=True, help_text="Digest of its prompt.")
    # The run is among the words, so that one index answers "these words, in this run".
    words = SearchVectorField(null=True)
    # As in the group: the orders that a list of groups can have.
    score_mean = models.FloatField()
    longest_tokens = models.PositiveIntegerField()

    class Meta:
        indexes = [
            models.Index(fields=["run", "score_mean", "group"], name="digest_by_score"),
            models.Index(fields=["run", "longest_tokens", "group"], name="digest_by_length"),
            models.Index(
                "prompt",
                "run",
                F("group").desc(),
                condition=Q(prompt__isnull=False),
                name="digest_by_prompt",
            ),
            GinIndex(fields=["words"], name="digest_by_words"),
        ]

    def __str__(self) -> str:
        return f"digest of group {self.group_id}"


class DigestCursor(models.Model):
    """How far the groups of a run are digested, in the order of their transactions."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="digest_cursor")
    written_in = TransactionIdField()
    item_id = models.BigIntegerField()
    # Groups that had been accepted when it had caught up: as long as no more are, it rests.
    accepted = models.BigIntegerField(default=0)
    digested_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"digests of run {self.run_id}"
