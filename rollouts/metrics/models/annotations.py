"""Chart annotations of a run."""

from django.db import models
from django.db.models import F, Q

from runs.lifecycle.models.runs import Run

TEXT_LENGTH = 200


class Annotation(models.Model):
    """A short text at a position of a run's charts. Deleted rows are kept, but hidden."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="annotations"
    )
    text = models.CharField(max_length=TEXT_LENGTH)
    at = models.DateTimeField(help_text="Annotated time.")
    # Null: the position on this axis is unknown, and charts over it do not show the annotation.
    step = models.BigIntegerField(null=True, blank=True, help_text="Train step of that moment.")
    amount = models.BigIntegerField(
        null=True, blank=True, help_text="Tokens served by then; env steps made, of a fleet run."
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    deleted_at = models.DateTimeField(null=True, blank=True)
    deleted_by = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [
            models.Index(
                F("run"), F("at").desc(), condition=Q(deleted_at=None), name="annotation_of_run"
            )
        ]

    def __str__(self) -> str:
        return self.text
