"""Alerts and their deliveries."""

from django.db import models
from django.db.models import F, Q

from runs.alerts.rules.alerts import SUBJECT_LENGTH, AlertKind, AlertState, Severity
from runs.lifecycle.models.runs import Run


class Alert(models.Model):
    """An alert: raised once, however often its condition is observed.

    While its condition holds, `cleared_at` is empty and no second alert has its key. An alert
    resolved before that fires again only after its condition ended and returned.
    """

    key = models.CharField(max_length=260, help_text="Key of the condition.")
    kind = models.CharField(max_length=40, choices=[(str(kind), str(kind)) for kind in AlertKind])
    # Null for alerts of the deployment.
    run = models.ForeignKey(
        Run, null=True, blank=True, db_index=False, on_delete=models.CASCADE, related_name="alerts"
    )
    subject = models.CharField(
        max_length=SUBJECT_LENGTH, blank=True, help_text="Affected part of the run."
    )
    severity = models.CharField(max_length=8, choices=[(str(each), str(each)) for each in Severity])
    state = models.CharField(
        max_length=12, choices=[(str(each), str(each)) for each in AlertState], default="open"
    )
    message = models.TextField()
    details = models.JSONField(default=dict, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(help_text="Accurate to 30 s.")
    times_seen = models.PositiveIntegerField(
        default=1, help_text="Occurrences of a fact; 1 for a condition."
    )
    cleared_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the condition ended."
    )
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=200, blank=True)
    acknowledged_reason = models.TextField(blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=200, blank=True)
    resolved_reason = models.TextField(blank=True)
    is_held_back = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Raised during a silence; notifications are withheld.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(cleared_at=None), name="alert_is_raised_once"
            ),
            models.CheckConstraint(
                condition=Q(state__in=list(AlertState)), name="alert_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(cleared_at=None) | Q(state=AlertState.RESOLVED),
                name="alert_cleared_is_resolved",
            ),
        ]
        indexes = [
            models.Index(
                F("id").desc(), condition=~Q(state=AlertState.RESOLVED), name="alert_unresolved"
            ),
            models.Index(F("run"), F("id").desc(), name="alert_of_run"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class AlertDelivery(models.Model):
    """Delivery of an alert's change to one channel; the body is the same in every attempt.

    A test delivery checks a channel and has no alert.
    """

    alert = models.ForeignKey(
        Alert, null=True, blank=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    change = models.CharField(
        max_length=12,
        choices=[(word, word) for word in ("raised", "acknowledged", "resolved", "test")],
    )
    # The URL is often a secret, so it stays in the settings.
    target = models.CharField(
        max_length=260, help_text="Scheme and host of a webhook, or a mail address."
    )
    target_fingerprint = models.CharField(max_length=16)
    body = models.TextField()
    state = models.CharField(
        max_length=10,
        choices=[(word, word) for word in ("waiting", "delivered", "given up")],
        default="waiting",
    )
    created_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField()
    last_status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status.")
    last_error = models.TextField(blank=True)
    last_took_ms = models.PositiveIntegerField(
        null=True, blank=True, help_text="Duration of the last attempt."
    )
    settled_at = models.DateTimeField(
        null=True, blank=True, help_text="Time of delivery, or of giving up."
    )

    class Meta:
        verbose_name_plural = "alert deliveries"
        indexes = [
            models.Index(
                fields=["next_attempt_at"],
                condition=Q(state="waiting"),
                name="alert_delivery_due",
            ),
            models.Index(
                F("target_fingerprint"),
                F("id").desc(),
                condition=Q(change="test"),
                name="alert_delivery_tests",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(alert=None, change="test")
                | (Q(alert__isnull=False) & ~Q(change="test")),
                name="alert_delivery_is_of_an_alert",
            )
        ]

    def __str__(self) -> str:
        return f"{self.change} to {self.target}: {self.state}"
