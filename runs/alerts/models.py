"""Alerts, their deliveries, rules and snoozes."""

from collections.abc import Iterable
from typing import get_args

from django.db import models
from django.db.models import F, Q

from runs.alerts.rules import (
    SUBJECT_LENGTH,
    UNCOMPARED,
    AlertKind,
    AlertState,
    Change,
    Comparator,
    DeliveryState,
    Limit,
    RuleAction,
    Severity,
)
from runs.lifecycle.models import Run


def _choices(words: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(word), str(word)) for word in words]


# Alert rules.

_IS_UNCOMPARED = Q(comparator__in=sorted(str(each) for each in UNCOMPARED))


class AlertRule(models.Model):
    """A rule that raises an alert when a metric is too high, too low or missing.

    It covers one run, or all that match its filter. Its alerts have the kind `rule` and its id as
    the subject.
    """

    name = models.CharField(max_length=80, help_text="Title of its alerts.")
    metric = models.CharField(max_length=120)
    comparator = models.CharField(max_length=12, choices=_choices(Comparator))
    threshold = models.FloatField(
        null=True, blank=True, help_text="Null for not_finite and no_data."
    )
    for_seconds = models.PositiveIntegerField(
        default=0, help_text="Minimum duration of the breach, in seconds."
    )
    severity = models.CharField(max_length=8, choices=_choices(Severity))
    action = models.CharField(
        max_length=8,
        choices=_choices(RuleAction),
        default=RuleAction.NOTIFY,
        db_default=RuleAction.NOTIFY,
        help_text="Effect when it raises an alert.",
    )
    runbook = models.TextField(blank=True, help_text="Instructions shown with its alerts.")
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="alert_rules"
    )
    run_filter = models.CharField(
        max_length=500, blank=True, help_text="Filter of runs; empty for all, or if one run is set."
    )
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(run=None) | Q(run_filter=""), name="alert_rule_has_one_scope"
            ),
            models.CheckConstraint(
                condition=(_IS_UNCOMPARED & Q(threshold=None))
                | (~_IS_UNCOMPARED & Q(threshold__isnull=False)),
                name="alert_rule_compares_with_something",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def limit(self) -> Limit:
        """Return what its number is compared with."""
        return Limit(
            comparator=Comparator(self.comparator),
            threshold=self.threshold,
            for_seconds=self.for_seconds,
        )


# Alerts and their deliveries.


class Alert(models.Model):
    """An alert: raised once, however often its condition is observed.

    While its condition holds, `cleared_at` is empty and no second alert has its key. An alert
    resolved before that fires again only after its condition ended and returned.
    """

    key = models.CharField(max_length=260, help_text="Key of the condition.")
    kind = models.CharField(max_length=40, choices=_choices(AlertKind))
    # Null for alerts of the deployment.
    run = models.ForeignKey(
        Run, null=True, blank=True, db_index=False, on_delete=models.CASCADE, related_name="alerts"
    )
    subject = models.CharField(
        max_length=SUBJECT_LENGTH, blank=True, help_text="Affected part of the run."
    )
    severity = models.CharField(max_length=8, choices=_choices(Severity))
    state = models.CharField(max_length=12, choices=_choices(AlertState), default="open")
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
        help_text="Raised while snoozed; notifications are withheld.",
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
    change = models.CharField(max_length=12, choices=_choices(get_args(Change)))
    # The URL is often a secret, so it stays in the settings.
    target = models.CharField(
        max_length=260, help_text="Scheme and host of a webhook, or a mail address."
    )
    target_fingerprint = models.CharField(max_length=16)
    body = models.TextField()
    state = models.CharField(
        max_length=10, choices=_choices(get_args(DeliveryState)), default="waiting"
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
                fields=["next_attempt_at"], condition=Q(state="waiting"), name="alert_delivery_due"
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


class AlertSnooze(models.Model):
    """A snooze: an alert, or all alerts of a rule, send no notifications until its end.

    A snoozed alert stays so when its condition clears and returns.
    """

    alert_key = models.CharField(
        max_length=260, blank=True, help_text="Key of the alert's condition; empty for a rule."
    )
    kind = models.CharField(max_length=40, choices=_choices(AlertKind))
    # The snoozed alert, until it is deleted.
    alert = models.ForeignKey(
        Alert, null=True, blank=True, on_delete=models.SET_NULL, related_name="snoozes"
    )
    # The snoozed rule, or the rule of the snoozed alert.
    rule = models.ForeignKey(
        AlertRule, null=True, blank=True, on_delete=models.CASCADE, related_name="snoozes"
    )
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="alert_snoozes"
    )
    until = models.DateTimeField(null=True, blank=True, help_text="Null until a person ends it.")
    reason = models.TextField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["alert_key"], condition=~Q(alert_key=""), name="alert_is_snoozed_once"
            ),
            models.UniqueConstraint(
                fields=["rule"], condition=Q(alert_key=""), name="alert_rule_is_snoozed_once"
            ),
            models.CheckConstraint(
                condition=~Q(alert_key="") | Q(rule__isnull=False),
                name="alert_snooze_has_a_subject",
            ),
        ]

    def __str__(self) -> str:
        return self.alert_key or f"rule {self.rule_id}"

    def covers(self, alert: Alert) -> bool:
        """Return whether the notifications of an alert are suspended."""
        if self.alert_key:
            return alert.key == self.alert_key
        return alert.kind == AlertKind.RULE and alert.subject == str(self.rule_id)
