"""Saved comparisons of runs."""

from typing import Final

from django.db import models

COMPARISONS_AT_MOST: Final = 500


class Comparison(models.Model):
    """A saved comparison of runs, with a name and remarks.

    Rows are immutable: a changed comparison is saved as a new one.
    """

    name = models.CharField(max_length=120)
    remarks = models.TextField(blank=True, help_text="Remarks of the author.")
    look = models.JSONField(help_text="A ComparisonLook.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name
