"""Recorded diagnoses."""

from django.db import models

from runs.lifecycle.models.runs import Run


class RunDiagnosis(models.Model):
    """Kind of a run's diagnosis at its last evaluation; the next one starts from it."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="recorded_diagnosis")
    kind = models.CharField(max_length=40)
    since = models.DateTimeField(help_text="Time from which the kind has been the same.")

    def __str__(self) -> str:
        return f"diagnosis of run {self.run_id}"
