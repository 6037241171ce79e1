"""Saved presets."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from runs.config.rules.preset_rules import Access


class SavedPreset(models.Model):
    """A named configuration; runs created from it keep their own copy.

    Deleted presets stay as rows, and their names are free again.
    """

    name = models.SlugField(max_length=80, help_text="Name in the URL of the launch form.")
    description = models.CharField(max_length=300, blank=True)
    access = models.CharField(
        max_length=8, choices=[(str(a), str(a)) for a in Access], default=Access.PRIVATE
    )
    config = models.JSONField(help_text="A complete RunConfig with all defaults.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    revision = models.PositiveIntegerField(default=1, help_text="Number of the revision, from 1.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200, help_text="Author of the last change.")
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(deleted_at=None), name="preset_name_is_taken_once"
            ),
            models.CheckConstraint(
                condition=Q(access__in=[str(a) for a in Access]), name="preset_access_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name
