"""Comparisons of runs that people keep."""

from typing import Final

from django.db import models

COMPARISONS_AT_MOST: Final = 500


class Comparison(models.Model):
    """What of which runs stood beside each other, under a name and with somebody's words.

    It is never changed: who wants another one keeps another one.
    """

    name = models.CharField(max_length=120)
    remarks = models.TextField(blank=True, help_text="What it shows, in its author's words.")
    look = models.JSONField(help_text="A ComparisonLook.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name
