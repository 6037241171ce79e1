"""Saved objects: presets and views."""

from typing import Any, Final, Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from runs.saved.rules import KINDS, Access, SavedKind, SavedObjectNotFound

NEW_UID: Final = models.Func(
    template="substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
    output_field=models.CharField(),
)


class SavedObjectQuerySet(models.QuerySet["SavedObject"]):
    """Saved objects by kind."""

    def of(self, kind: SavedKind) -> Self:
        """Return the objects of a kind that are not deleted."""
        return self.filter(kind=kind.name, deleted_at=None)

    def locked(self) -> Self:
        """Return the objects, locked when they are read."""
        return self.select_for_update(of=("self",))

    def one(self, missing: str, **lookup: Any) -> "SavedObject":
        """Return the object of a lookup.

        Raises:
            SavedObjectNotFound: If there is none, with the message `missing`.
        """
        row = self.filter(**lookup).first()
        if row is None:
            raise SavedObjectNotFound(missing)
        return row


class SavedObject(models.Model):
    """A named document of users. Deleted objects stay as rows, and their names are free again.

    A view without a run and a tag belongs to all runs.
    """

    kind = models.CharField(max_length=12, choices=[(kind, kind) for kind in KINDS])
    name = models.CharField(max_length=120)
    uid = models.CharField(
        max_length=24,
        unique=True,
        editable=False,
        db_default=NEW_UID,
        help_text="Immutable id without the name of its kind.",
    )
    text = models.TextField(blank=True, help_text="Description of a preset.")
    body = models.JSONField(help_text="A complete RunConfig or a View.")
    access = models.CharField(max_length=8, choices=[(str(a), str(a)) for a in Access])
    run = models.ForeignKey(
        "runs.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="saved_objects"
    )
    tag = models.CharField(max_length=40, blank=True, help_text="Shared by the runs with this tag.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        help_text="Owner of a preset; null for a machine.",
    )
    author = models.CharField(max_length=200, help_text="A user or a token.")
    revision = models.PositiveIntegerField(default=1, help_text="Number of the revision, from 1.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200, help_text="Author of the last change.")
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = SavedObjectQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=KINDS), name="saved_object_kind_is_known"),
            models.CheckConstraint(
                condition=Q(access__in=[str(a) for a in Access]),
                name="saved_object_access_is_known",
            ),
            models.CheckConstraint(
                condition=Q(run=None) | Q(kind="view", tag=""), name="saved_object_has_one_scope"
            ),
            models.UniqueConstraint(
                fields=["name"],
                condition=Q(kind="preset", deleted_at=None),
                name="preset_name_is_unique",
            ),
            models.UniqueConstraint(
                fields=["author", "name"],
                condition=Q(kind="view", deleted_at=None, run=None, tag=""),
                name="view_name_is_unique_for_author",
            ),
            models.UniqueConstraint(
                fields=["run", "name"],
                condition=Q(kind="view", deleted_at=None, run__isnull=False),
                name="view_name_is_unique_in_run",
            ),
            models.UniqueConstraint(
                fields=["tag", "name"],
                condition=Q(kind="view", deleted_at=None) & ~Q(tag=""),
                name="view_name_is_unique_for_tag",
            ),
        ]

    def __str__(self) -> str:
        return self.name
