"""Alert rules and silences."""

from django.db import models
from django.db.models import F, Q

from runs.alerts.rules.alert_rules import UNCOMPARED, Comparator, Limit
from runs.alerts.rules.alerts import AlertKind, Severity
from runs.lifecycle.models.runs import Run

_IS_UNCOMPARED = Q(comparator__in=sorted(str(each) for each in UNCOMPARED))


class AlertRule(models.Model):
    """A rule that raises an alert when a metric is too high, too low or missing.

    It covers one run, or all that match its filter. Its alerts have the kind `rule` and its id as
    the subject.
    """

    name = models.CharField(max_length=80, help_text="Title of its alerts.")
    metric = models.CharField(max_length=120)
    comparator = models.CharField(
        max_length=12, choices=[(str(each), str(each)) for each in Comparator]
    )
    threshold = models.FloatField(
        null=True, blank=True, help_text="Null for not_finite and no_data."
    )
    for_seconds = models.PositiveIntegerField(
        default=0, help_text="Minimum duration of the breach, in seconds."
    )
    severity = models.CharField(max_length=8, choices=[(str(each), str(each)) for each in Severity])
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


class AlertSilence(models.Model):
    """A silence: alerts of a kind or a rule send no notifications until a given time."""

    kind = models.CharField(max_length=40, choices=[(str(kind), str(kind)) for kind in AlertKind])
    # Null for all rules, if the kind is `rule`.
    rule = models.ForeignKey(
        AlertRule, null=True, blank=True, on_delete=models.CASCADE, related_name="silences"
    )
    # Null for all runs and the deployment.
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.CASCADE, related_name="alert_silences"
    )
    until = models.DateTimeField()
    reason = models.TextField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(
        null=True, blank=True, help_text="Set when a person ended it early."
    )
    ended_by = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [
            models.Index(
                F("until").desc(), condition=Q(ended_at=None), name="alert_silence_lasting"
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(rule=None) | Q(kind=str(AlertKind.RULE)), name="alert_silence_of_a_rule"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} until {self.until:%Y-%m-%d %H:%M} UTC"
