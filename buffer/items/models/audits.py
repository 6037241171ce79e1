"""What the platform remembers about checks of its own counts."""

from django.db import models

from runs.models import Run


class LedgerAudit(models.Model):
    """The last time a run's counts were compared with its rows."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="ledger_audit")
    audited_at = models.DateTimeField()
    took_seconds = models.FloatField()
    # Of the counts as they were: a run in which nothing has moved is not counted again.
    counts_md5 = models.CharField(max_length=32)

    def __str__(self) -> str:
        return f"audit of {self.run_id}"
