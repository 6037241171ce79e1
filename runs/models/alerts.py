"""What somebody should look at, and who was told."""

from django.db import models
from django.db.models import Q

from runs.models.runs import Run


class Alert(models.Model):
    """A condition that holds, or held: one row from when it began until it ended."""

    key = models.CharField(max_length=200, help_text="The same for the same condition.")
    level = models.CharField(
        max_length=8, choices=[("warning", "warning"), ("error", "error")], default="error"
    )
    title = models.CharField(max_length=200)
    message = models.TextField(blank=True)
    runbook = models.TextField(blank=True, help_text="What to do about it.")
    path = models.CharField(max_length=300, help_text="Where the dashboard shows it.")
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="alerts"
    )
    fired_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When the condition was last found to hold.")
    acked_at = models.DateTimeField(null=True, blank=True)
    acked_by = models.CharField(max_length=200, blank=True)
    note = models.TextField(blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(resolved_at=None), name="alert_fires_once"
            )
        ]
        indexes = [models.Index(fields=["-fired_at", "-id"], name="alert_newest_first")]

    def __str__(self) -> str:
        return self.title


class AlertDelivery(models.Model):
    """One message to the webhook: due, tried, delivered or given up."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="deliveries")
    news = models.CharField(max_length=8, choices=[("fired", "fired"), ("resolved", "resolved")])
    due_at = models.DateTimeField(help_text="When it is tried next.")
    attempts = models.PositiveSmallIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)
    given_up_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True, help_text="Why the last attempt failed.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["alert", "news"], name="alert_news_is_told_once")
        ]

    def __str__(self) -> str:
        return f"{self.news}: {self.alert_id}"
