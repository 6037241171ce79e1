"""Models of captured sessions and their calls, which are kept until they are scored."""

from typing import Final

from django.db import models

from runs.lifecycle.models import Run


class CaptureState(models.TextChoices):
    """State of a session."""

    OPEN = "open", "open: calls may come, and a score"
    SCORED = "scored", "scored: its sequences are in a group"
    EXPIRED = "expired", "expired: not scored in time"


STATES: Final = CaptureState.values


class CaptureSession(models.Model):
    """A conversation of an agent program with the policy."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="captures", db_index=False)
    name = models.CharField(
        max_length=120, help_text="Chosen by the process that starts the agent."
    )
    state = models.CharField(max_length=16, choices=CaptureState.choices, default=CaptureState.OPEN)
    calls = models.PositiveIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    score = models.FloatField(null=True, blank=True)
    receipt = models.JSONField(default=dict, help_text="Answer to the call that scored it.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="capture_session_name_is_one"),
            models.CheckConstraint(
                condition=models.Q(state__in=STATES), name="capture_state_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class CapturedCall(models.Model):
    """A call of a session, as sent by the proxy."""

    session = models.ForeignKey(
        CaptureSession, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=64)
    number = models.PositiveIntegerField(help_text="In the session, from 0.")
    content = models.BinaryField(help_text="MessagePack of a CallPush.")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "key"], name="captured_call_key_is_one"),
            models.UniqueConstraint(
                fields=["session", "number"], name="captured_call_number_is_one"
            ),
        ]

    def __str__(self) -> str:
        return f"call {self.number} of {self.session_id}"
