"""Recent API calls and their responses."""

from django.db import models
from django.db.models import F


class ApiCall(models.Model):
    """One API call, or the representative of several similar ones.

    Refusals and replayed pushes are stored individually; successes of one route within a few
    seconds become one row, that of the slowest.
    """

    client = models.CharField(max_length=200, help_text="A token, a user or an address.")
    at = models.DateTimeField()
    method = models.CharField(max_length=8)
    path = models.TextField()
    route = models.CharField(max_length=200, help_text="The path without parameter values.")
    status = models.PositiveSmallIntegerField()
    duration_ms = models.FloatField()
    stands_for = models.PositiveIntegerField(
        default=1, help_text="Number of calls that this row represents."
    )
    replayed = models.BooleanField(
        default=False, help_text="A repeated push: answered like the first, not stored again."
    )
    problem = models.JSONField(default=dict, blank=True, help_text="Body of the refusal.")

    class Meta:
        indexes = [models.Index(F("client"), F("id").desc(), name="api_call_of_client")]

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.status}"
