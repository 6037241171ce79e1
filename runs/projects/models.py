"""Projects: named groups of runs with defaults for launches."""

from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Count, Q
from django.db.models.functions import Lower

from runs.projects.rules import ProjectNotFound, is_project_uid

_CURRENT: Final = Q(runs__archived_at=None)
# As :data:`runs.projects.rules.PROJECT_UID` describes it.
NEW_PROJECT_UID: Final = models.Func(
    template="'project_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
    output_field=models.CharField(),
)


class ProjectQuerySet(models.QuerySet["Project"]):
    """Queries for projects."""

    def counted(self) -> "ProjectQuerySet":
        """Projects with `run_count`, the number of their runs that are not archived."""
        return self.annotate(run_count=Count("runs", filter=_CURRENT))

    def at(self, address: str) -> "Project":
        """Return the project with a name or an id.

        Raises:
            ProjectNotFound: If there is none.
        """
        found = self.filter(**{"uid" if is_project_uid(address) else "name": address}).first()
        if found is None:
            raise ProjectNotFound(f"project {address!r} not found")
        return found


class Project(models.Model):
    """A label of runs, with defaults for the runs that are launched in it."""

    name = models.SlugField(max_length=80, help_text="Part of the URL of its page.")
    uid = models.CharField(
        max_length=32,
        unique=True,
        editable=False,
        db_default=NEW_PROJECT_UID,
        help_text="Immutable id.",
    )
    title = models.CharField(max_length=120, blank=True)
    description = models.TextField(blank=True)
    preset = models.CharField(max_length=80, blank=True, help_text="Preset of new runs.")
    config = models.JSONField(
        default=dict, blank=True, help_text="Fields of a RunConfig, merged over the preset."
    )
    tags = ArrayField(
        models.CharField(max_length=40), default=list, blank=True, help_text="Tags of new runs."
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200, help_text="A user or a token.")
    changed_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(Lower("name"), name="project_name_is_unique")]

    def __str__(self) -> str:
        return self.name
