"""Model of ledger audits."""

from django.db import models

from runs.lifecycle.models.runs import Run


class LedgerAudit(models.Model):
    """The last comparison of a run's counts with its rows."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="ledger_audit")
    audited_at = models.DateTimeField()
    took_seconds = models.FloatField()
    # Hash of the counts at the audit; a run with unchanged counts is not audited again.
    counts_md5 = models.CharField(max_length=32)

    def __str__(self) -> str:
        return f"audit of {self.run_id}"
