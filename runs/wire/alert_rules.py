"""Shape the rules that people make for alerts, and the silences of these."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from runs.wire import Reason
from runs.wire.alerts import Kind, Severity

ComparatorWord = Literal["above", "at_least", "below", "at_most", "not_finite", "no_data"]
RuleId = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SetAlertRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of a rule, as it is to be."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    metric: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[\w./ -]+$")]
    comparator: ComparatorWord
    threshold: float | None = None
    """Null where nothing is compared: `not_finite`, `no_data`."""
    for_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """How long it may be so; of `no_data` at least 10: how long nothing comes."""
    severity: Severity = "warning"
    runbook: Annotated[str, Meta(max_length=4000)] = ""
    """What to do about it; a part of its alerts."""
    run: str | None = None
    """The one run that it is about; null for those that `filter` asks for."""
    filter: Annotated[str, Meta(max_length=500)] = ""
    """Which runs, as the list of runs is asked for them; empty for all."""
    is_enabled: bool = True
    reason: Reason = ""


class AlertRuleRow(Struct, frozen=True, kw_only=True):
    """A rule that somebody made."""

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
    words: str
    """What breaks it: ``above 5 for 10 min``."""
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str
    firing: int
    """Alerts of it whose condition holds."""


class AlertRuleList(Struct, frozen=True, kw_only=True):
    """All rules, by name."""

    results: list[AlertRuleRow]
    at_most: int
    """Rules that a deck may have."""


class NewSilence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which alerts are to tell nobody, until when, and why."""

    kind: Kind
    rule: RuleId | None = None
    """Of the kind `rule`: this one only."""
    run: str | None = None
    """Null: of every run, and of the deck."""
    until: datetime
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class SilenceRow(Struct, frozen=True, kw_only=True):
    """Alerts that tell nobody for a while."""

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
    """When a person ended it before its time."""
    ended_by: str
    is_lasting: bool


class SilenceList(Struct, frozen=True, kw_only=True):
    """Silences that last, then those that are over, newest first."""

    results: list[SilenceRow]
