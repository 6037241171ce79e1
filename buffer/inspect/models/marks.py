"""Models of labels and notes of groups, separate from the rows of the queue."""

from django.db import models
from django.db.models import F, Q

from buffer.inspect.rules.marks import LABELS, LONGEST_LABEL_NAME, LONGEST_NOTE
from buffer.items.models.items import TrajectoryGroup
from runs.lifecycle.models.runs import Run


class GroupMark(models.Model):
    """Label and note of a group; blank marks have no row."""

    group = models.OneToOneField(
        TrajectoryGroup, primary_key=True, on_delete=models.CASCADE, related_name="mark"
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    label = models.PositiveSmallIntegerField(
        null=True, blank=True, choices=[(label, str(label)) for label in LABELS]
    )
    note = models.CharField(max_length=LONGEST_NOTE, blank=True)
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(label__isnull=True) | Q(label__range=(1, 9)), name="mark_label_is_known"
            ),
            models.CheckConstraint(
                condition=Q(label__isnull=False) | ~Q(note=""), name="mark_says_something"
            ),
        ]
        # For lists of marked groups, newest first, in runs of any size.
        indexes = [
            models.Index("run", F("group").desc(), name="mark_newest_first"),
            models.Index(
                "run",
                "label",
                F("group").desc(),
                condition=Q(label__isnull=False),
                name="mark_by_label",
            ),
        ]

    def __str__(self) -> str:
        return f"mark on group {self.group_id}"


class LabelName(models.Model):
    """Name of a label in a run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    label = models.PositiveSmallIntegerField(help_text="1 to 9.")
    name = models.CharField(max_length=LONGEST_LABEL_NAME)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "label"], name="label_name_is_one")]

    def __str__(self) -> str:
        return f"label {self.label} of {self.run_id}"
