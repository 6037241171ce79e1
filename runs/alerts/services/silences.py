"""Create and end silences of alerts."""

from datetime import datetime

from django.db import transaction

from runs.alerts.models import AlertSilence
from runs.alerts.queries.alert_rules import RuleNotFound, rule_of
from runs.alerts.queries.silences import SilenceNotFound, lasting
from runs.alerts.rules import LONGEST, AlertKind, InvalidSilence
from runs.alerts.schemas import NewSilence
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.queries import RunNotFound, run_id_named
from web.live.announcements import NO_RUN, announce


@transaction.atomic
def silence(*, body: NewSilence, actor: str, now: datetime) -> AlertSilence:
    """Silence the alerts of a kind or a rule until a given time; pages still show them.

    Raises:
        InvalidSilence: If the time is past or too late, or the run or rule does not exist.
    """
    if body.until.tzinfo is None:
        raise InvalidSilence("until", "must include an offset, such as 2026-03-01T12:00:00Z")
    if not now < body.until <= now + LONGEST:
        raise InvalidSilence("until", f"must be in the future, within {LONGEST.days} days")
    if body.rule is not None and AlertKind(body.kind) is not AlertKind.RULE:
        raise InvalidSilence("rule", "allowed for silences of the kind `rule` only")
    try:
        run_id = None if body.run is None else run_id_named(body.run)
    except RunNotFound as error:
        raise InvalidSilence("run", str(error)) from error
    try:
        rule = None if body.rule is None else rule_of(body.rule)
    except RuleNotFound as error:
        raise InvalidSilence("rule", str(error)) from error
    made = AlertSilence.objects.create(
        kind=body.kind,
        rule=rule,
        run_id=run_id,
        until=body.until,
        reason=body.reason,
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
    )
    _audit(made, "made", actor=actor, reason=body.reason, now=now)
    return made


@transaction.atomic
def end_silence(*, silence_id: int, actor: str, reason: str = "", now: datetime) -> AlertSilence:
    """End a silence; alerts that still hold send their notifications.

    Raises:
        SilenceNotFound: If there is no active silence with this id.
    """
    ended = lasting(now=now).filter(pk=silence_id)
    if not ended.update(ended_at=now, ended_by=actor[:ACTOR_LENGTH]):
        raise SilenceNotFound(f"no active silence with id {silence_id}")
    over = AlertSilence.objects.select_related("rule", "run").get(pk=silence_id)
    _audit(over, "ended", actor=actor, reason=reason, now=now)
    return over


def _audit(row: AlertSilence, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    what = f"the rule {row.rule.name}" if row.rule else row.kind
    where = row.run.name if row.run else "all runs"
    record_event(
        run_id=row.run_id,
        kind=f"alert_silence_{verb}",
        message=f"{'created' if verb == 'made' else verb} a silence of {what} in {where} "
        f"until {row.until:%Y-%m-%d %H:%M} UTC",
        actor=actor,
        reason=reason,
        details={"silence": row.pk, "kind": row.kind, "rule": row.rule_id},
        now=now,
    )
    announce(row.run_id or NO_RUN, "alerts")
