"""Model of followers."""

from django.db import models

from buffer.items.models import TransactionIdField
from runs.lifecycle.models import Run


class Follower(models.Model):
    """A named reader of all items that a run accepts; reading does not remove items."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="followers", db_index=False)
    name = models.SlugField(max_length=80)
    # Filters; null or empty for all items.
    env_id = models.PositiveIntegerField(null=True, blank=True)
    environment = models.CharField(max_length=200, blank=True)
    min_score = models.FloatField(null=True, blank=True, help_text="Of a group's mean score.")
    # The last acknowledged item.
    cursor_written_in = TransactionIdField()
    cursor_id = models.BigIntegerField()
    created_at = models.DateTimeField()
    acked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="follower_name_is_taken_once")
        ]

    def __str__(self) -> str:
        return f"follower {self.name} of {self.run_id}"
