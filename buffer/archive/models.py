"""Models of archive jobs."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from runs.lifecycle.models import Run


class ArchiveVerb(StrEnum):
    """Kind of an archive job."""

    EXPORT = "export"
    RESTORE = "restore"


class ArchiveState(StrEnum):
    """State of an archive job."""

    QUEUED = "queued"
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    """It was written, and its file has been deleted since."""


class ArchiveJob(models.Model):
    """An export of a run to an archive, or a restoration of an archive into a run."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="archive_jobs", db_index=False
    )
    verb = models.CharField(max_length=7, choices=[(str(v), str(v)) for v in ArchiveVerb])
    # For restorations: the export whose file is read; null once the run of the export is deleted.
    source = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL)
    state = models.CharField(max_length=7, choices=[(str(s), str(s)) for s in ArchiveState])
    window = models.JSONField(help_text="State, steps and environments that were asked for.")
    report = models.JSONField(default=dict, blank=True, help_text="Counts so far.")
    error = models.TextField(blank=True)
    asked_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in ArchiveState]),
                name="archive_job_state_is_known",
            ),
            models.CheckConstraint(
                condition=~Q(verb=ArchiveVerb.EXPORT) | Q(source=None),
                name="archive_job_export_has_no_source",
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=Q(state__in=[ArchiveState.QUEUED, ArchiveState.WORKING]),
                name="archive_job_open",
            ),
            models.Index(fields=["run", "-id"], name="archive_job_newest_first"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.pk} of {self.run_id}"
