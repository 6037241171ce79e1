"""The deployment's identity, and the notice to all users."""

import uuid

from django.db import models
from django.db.models import Q


class Deployment(models.Model):
    """Identity of the deployment, which its folders carry too: at most one row.

    Created when the first process starts that uses the folders.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    identity = models.UUIDField(default=uuid.uuid4)
    places = models.JSONField(help_text="Host and path of each folder when it was marked.")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="deployment_is_one")]

    def __str__(self) -> str:
        return str(self.identity)


class ServerNotice(models.Model):
    """Notice shown to all users on every page: at most one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    text = models.CharField(max_length=300)
    reason = models.TextField(blank=True)
    until = models.DateTimeField(null=True, blank=True, help_text="Null for no end.")
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="server_notice_is_one")]

    def __str__(self) -> str:
        return self.text
