"""Events: the record behind every history and the audit log."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F


class RunEvent(models.Model):
    """An event: actor, action, time and reason. Rows are immutable.

    An event without a run concerns the deployment.
    """

    run = models.ForeignKey(
        "runs.Run",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="events",
        db_index=False,
    )
    at = models.DateTimeField()
    kind = models.CharField(max_length=60)
    level = models.CharField(
        max_length=8,
        choices=[("info", "info"), ("warning", "warning"), ("error", "error")],
        default="info",
    )
    actor = models.CharField(max_length=200, help_text="A user, a token or a platform component.")
    message = models.TextField()
    reason = models.TextField(blank=True)
    details = models.JSONField(default=dict, blank=True)
    request_id = models.CharField(
        max_length=64, blank=True, db_default="", help_text="Id of the causing request."
    )

    class Meta:
        indexes = [
            models.Index(fields=["run", "-id"], name="run_event_newest_first"),
            models.Index(F("actor"), F("id").desc(), name="run_event_of_actor"),
            models.Index(F("kind"), F("id").desc(), name="run_event_of_kind"),
            BrinIndex(fields=["at"], name="run_event_at"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
