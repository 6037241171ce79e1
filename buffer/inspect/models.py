"""Models of group digests, which serve lists and searches, and of tags and notes of groups.

They are separate from the rows of the queue.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q

from buffer.inspect.rules.marks import LONGEST_NOTE, LONGEST_TAG
from buffer.items.models import TrajectoryGroup, TransactionIdField
from runs.lifecycle.models import Run


class GroupDigest(models.Model):
    """A summary of a group's content, written in the background after its arrival."""

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
    excerpt = models.CharField(max_length=240, blank=True, help_text="Beginning of its prompt.")
    answer = models.CharField(max_length=240, blank=True, help_text="Of its first sequence.")
    # Equal for equal prompts in all runs; null if the prompt is unknown.
    prompt = models.UUIDField(null=True, blank=True, help_text="Digest of its prompt.")
    has_gradient = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether a trained token has an advantage other than 0; null: unknown.",
    )
    facts = models.JSONField(default=dict, help_text="Metadata and overrides by key.")
    advantages = ArrayField(
        models.FloatField(null=True), default=list, help_text="Means of its first sequences."
    )
    correct = models.PositiveIntegerField(
        null=True, blank=True, help_text="Correct sequences; null: unknown."
    )
    # Includes a word for the run, so that one index serves searches within a run.
    words = SearchVectorField(null=True)
    is_cut = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether some of its text is not searchable; null: unknown.",
    )
    # Copies from the group; lists can be sorted by them.
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
            models.Index(
                fields=["run"],
                condition=Q(is_cut=True) | Q(is_cut__isnull=True),
                name="digest_partly_searchable",
            ),
        ]

    def __str__(self) -> str:
        return f"digest of group {self.group_id}"


class DigestCursor(models.Model):
    """Digest progress of a run, in the order of transactions."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="digest_cursor")
    written_in = TransactionIdField()
    item_id = models.BigIntegerField()
    # Number of accepted groups when it last caught up; it is idle until the number grows.
    accepted = models.BigIntegerField(default=0)
    digested_at = models.DateTimeField(null=True, blank=True)
    # Digests of an earlier tokenizer are renewed from the newest group to the oldest.
    renew_before = models.BigIntegerField(
        null=True, blank=True, help_text="Groups below this id have old digests; null: none."
    )

    def __str__(self) -> str:
        return f"digests of run {self.run_id}"


class GroupMark(models.Model):
    """Tags and note of a group; blank marks have no row."""

    group = models.OneToOneField(
        TrajectoryGroup, primary_key=True, on_delete=models.CASCADE, related_name="mark"
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    tags = ArrayField(models.CharField(max_length=LONGEST_TAG), default=list, blank=True)
    note = models.CharField(max_length=LONGEST_NOTE, blank=True)
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(tags=[]) | ~Q(note=""), name="mark_is_not_blank")
        ]
        # For lists of marked groups, newest first, in runs of any size.
        indexes = [
            models.Index("run", F("group").desc(), name="mark_newest_first"),
            GinIndex(fields=["tags"], name="mark_by_tag"),
        ]

    def __str__(self) -> str:
        return f"mark on group {self.group_id}"
