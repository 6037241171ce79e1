"""Notes of runs."""

from django.db import models

from runs.lifecycle.models.runs import Run


class RunNote(models.Model):
    """One revision of a run's notes. Rows are immutable: each edit adds one."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="notes")
    revision = models.PositiveIntegerField(help_text="Number of the edit, from 1.")
    text = models.TextField(blank=True, help_text="Markdown; empty after the notes were cleared.")
    author = models.CharField(max_length=200, help_text="A user or a token.")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "revision"], name="run_note_revision_is_one"),
            models.CheckConstraint(
                condition=models.Q(revision__gte=1), name="run_note_revision_counts_from_one"
            ),
        ]

    def __str__(self) -> str:
        return f"notes of run {self.run_id}, revision {self.revision}"
