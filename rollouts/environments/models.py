"""What administrators decide about environments."""

from django.db import models


class DeniedEnvironment(models.Model):
    """A spec that no new run may ask for, though this deck could make it."""

    spec = models.CharField(max_length=220, unique=True)
    reason = models.TextField()
    denied_at = models.DateTimeField()
    denied_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return self.spec
