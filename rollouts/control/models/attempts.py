"""Incarnations of workers."""

from django.db import models

from rollouts.control.models.fleets import Fleet


class WorkerAttempt(models.Model):
    """One incarnation of a rollout worker, from its first report to its end."""

    fleet = models.ForeignKey(
        Fleet, on_delete=models.CASCADE, related_name="attempts", db_index=False
    )
    worker = models.PositiveIntegerField(help_text="Index of the worker.")
    incarnation = models.CharField(max_length=120)
    started_at = models.DateTimeField(help_text="Time of the first report.")
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True, help_text="Reason of the end.")
    # As last reported; while the worker is running, its own row is newer.
    node = models.CharField(max_length=200, blank=True)
    pid = models.BigIntegerField(null=True, blank=True)
    env_steps = models.PositiveBigIntegerField(default=0)
    fragments_sent = models.PositiveBigIntegerField(default=0)
    lost_steps = models.PositiveBigIntegerField(
        default=0, help_text="Env steps in incomplete fragments at the last report."
    )
    unsent_fragments = models.PositiveBigIntegerField(
        default=0, help_text="Fragments in its spool at the last report; another worker sends them."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["fleet", "incarnation"], name="worker_attempt_incarnation_is_one"
            ),
        ]
        indexes = [
            models.Index(fields=["fleet", "worker", "-id"], name="worker_attempt_newest_first"),
            models.Index(
                fields=["fleet"], condition=models.Q(ended_at=None), name="worker_attempt_open"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.incarnation} of worker {self.worker} of fleet {self.fleet_id}"
