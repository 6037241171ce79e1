"""Schemas of alert rules and silences."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.alerts.schemas.alerts import Kind, Severity
from web.http.field_types import Reason
from web.rules.pages import Page

ComparatorWord = Literal["above", "at_least", "below", "at_most", "not_finite", "no_data"]
RuleId = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SetAlertRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Complete definition of an alert rule."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    metric: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[\w./ -]+$")]
    comparator: ComparatorWord
    threshold: float | None = None
    """Null for `not_finite` and `no_data`."""
    for_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """Time that the breach must last; for `no_data` the time without samples, at least 10."""
    severity: Severity = "warning"
    runbook: Annotated[str, Meta(max_length=4000)] = ""
    """Instructions shown with the rule's alerts."""
    run: str | None = None
    """The only run that the rule covers; null to select runs by `filter`."""
    filter: Annotated[str, Meta(max_length=500)] = ""
    """Filter in the syntax of the run list; empty for all runs."""
    is_enabled: bool = True
    reason: Reason = ""


class AlertRuleRow(Struct, frozen=True, kw_only=True):
    """A stored alert rule."""

    id: int
    name: str
    metric: str
    comparator: ComparatorWord
    threshold: float | None
    for_seconds: int
    severity: Severity
    runbook: str
    run: str | None
    filter: str
    is_enabled: bool
    condition: str
    """The condition that breaches the rule: ``above 5 for 10 min``."""
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str
    firing: int
    """Number of its alerts whose condition holds."""


class AlertRuleList(Page[AlertRuleRow], frozen=True, kw_only=True):
    """All alert rules, by name."""

    at_most: int
    """Maximum number of rules per deployment."""


class NewSilence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts to silence, the end of the silence and its reason."""

    kind: Kind
    rule: RuleId | None = None
    """For the kind `rule`: the only rule that is silenced."""
    run: str | None = None
    """Null for all runs and the deployment."""
    until: datetime
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class SilenceRow(Struct, frozen=True, kw_only=True):
    """A silence: alerts without notifications for a limited time."""

    id: int
    kind: Kind
    rule: int | None
    rule_name: str
    run: str | None
    until: datetime
    reason: str
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    """Set when a person ended the silence early."""
    ended_by: str
    is_lasting: bool


class SilenceList(Page[SilenceRow], frozen=True, kw_only=True):
    """Active silences, then past ones, newest first."""
