"""Models of recorded pushes, which make pushes idempotent."""

from django.db import models

from runs.lifecycle.models import Run


class IdempotencyRecord(models.Model):
    """The receipt of a push with an idempotency key, stored in the push's transaction."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    body_fingerprint = models.CharField(max_length=64)
    receipt = models.JSONField()
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="idempotency_key_is_used_once")
        ]

    def __str__(self) -> str:
        return self.key


class UnansweredPush(models.Model):
    """The claim of a push without a key on its bytes, until its answer is written."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    fingerprint = models.BinaryField(help_text="Of the identity and the body; 16 bytes.")
    receipt = models.JSONField()
    accepted_at = models.DateTimeField(db_index=True, help_text="Time of arrival.")
    answered_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the answer was written to the connection."
    )
    client_left = models.BooleanField(
        default=False, db_default=False, help_text="The client closed before the answer."
    )

    class Meta:
        verbose_name_plural = "unanswered pushes"
        constraints = [
            models.UniqueConstraint(fields=["run", "fingerprint"], name="unanswered_push_is_one")
        ]

    def __str__(self) -> str:
        return f"push {bytes(self.fingerprint).hex()} to {self.run_id}"
