"""Weights commands of a run."""

from typing import Final

from django.db import models
from django.db.models import Q

from runs.lifecycle.models import Run

COMMAND_KINDS: Final = ("pin", "unpin", "sync")


class WeightsCommand(models.Model):
    """A command to a run's workers about weights. Rows are immutable; the newest is in effect.

    Each row is complete: it has the version that workers keep, or null for the newest.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="weights_commands"
    )
    number = models.PositiveIntegerField(help_text="Number within the run, from 1.")
    kind = models.CharField(max_length=8, choices=[(kind, kind) for kind in COMMAND_KINDS])
    epoch = models.PositiveIntegerField(help_text="Epoch of the run; a pin ends with it.")
    pinned_step = models.IntegerField(
        null=True, blank=True, help_text="Version that workers keep; null for the newest."
    )
    newest_step = models.IntegerField(help_text="Newest version at that time.")
    actor = models.CharField(max_length=200)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="weights_order_is_one"),
            models.CheckConstraint(
                condition=Q(kind__in=COMMAND_KINDS), name="weights_order_kind_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(kind="pin") | Q(pinned_step__isnull=False),
                name="weights_order_pin_names_a_version",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of run {self.run_id}"
