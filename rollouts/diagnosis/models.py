"""Recorded diagnoses."""

from django.db import models

from runs.lifecycle.models import Run


class RunDiagnosis(models.Model):
    """Causes of a run and its due alerts at the last evaluation; the next one starts from them."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="recorded_diagnosis")
    kind = models.CharField(max_length=40, help_text="Kind of the most harmful cause.")
    since = models.DateTimeField(help_text="Time from which this cause has been named.")
    causes = models.JSONField(
        default=dict, help_text="Time from which each cause has been named, by its key."
    )
    alerts = models.JSONField(default=list, help_text="Alerts that are due.")

    def __str__(self) -> str:
        return f"diagnosis of run {self.run_id}"
