"""Saved layouts of run metrics."""

from typing import Final

from django.db import models
from django.db.models import Q

from runs.lifecycle.models.runs import Run

LAYOUTS_AT_MOST: Final = 50
"""Maximum number of layouts per user, run or tag."""


class MetricLayout(models.Model):
    """A named layout of the metrics page.

    Private to its owner if it has neither run nor tag, and then available in every run. Otherwise
    shared with all readers of that run, or of runs with that tag.
    """

    name = models.CharField(max_length=60)
    owner = models.CharField(max_length=200, help_text="Who made it.")
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="metric_layouts"
    )
    tag = models.CharField(max_length=40, blank=True)
    look = models.JSONField(help_text="A MetricLook.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(run=None) | Q(tag=""), name="metric_layout_has_one_scope"
            ),
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=Q(run=None, tag=""),
                name="metric_layout_own_name",
            ),
            models.UniqueConstraint(
                fields=["run", "name"],
                condition=Q(run__isnull=False),
                name="metric_layout_name_in_run",
            ),
            models.UniqueConstraint(
                fields=["tag", "name"], condition=~Q(tag=""), name="metric_layout_name_of_tag"
            ),
        ]

    def __str__(self) -> str:
        return self.name
