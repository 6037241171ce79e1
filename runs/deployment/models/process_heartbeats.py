"""Heartbeats of the platform's processes and of the cluster."""

from typing import Final

from django.db import models

PART_KINDS: Final = ("web", "worker", "scheduler", "ray")


class ProcessHeartbeat(models.Model):
    """A process of the deployment and its last heartbeat, renewed every few seconds.

    The rows are informative only. A part that has ended keeps its row for a while, so that users
    see when it ended.
    """

    kind = models.CharField(max_length=12, choices=[(kind, kind) for kind in PART_KINDS])
    name = models.CharField(max_length=255, help_text="Host and process id; unique per kind.")
    host = models.CharField(max_length=255, blank=True)
    pid = models.PositiveBigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(help_text="Time of the last heartbeat.")
    version = models.CharField(max_length=40, blank=True)
    details = models.JSONField(default=dict, blank=True)
    problem = models.TextField(blank=True, help_text="Problem found by the last check.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="process_heartbeat_is_one"),
            models.CheckConstraint(
                condition=models.Q(kind__in=PART_KINDS), name="process_heartbeat_kind_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
