"""Administrators' decisions about environments."""

from django.db import models


class DeniedEnvironment(models.Model):
    """A spec that is denied to new runs, although it is registered."""

    spec = models.CharField(max_length=220, unique=True)
    reason = models.TextField()
    denied_at = models.DateTimeField()
    denied_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return self.spec
