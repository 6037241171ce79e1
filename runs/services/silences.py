"""Let alerts tell nobody for a while, and speak again."""

from datetime import datetime

from django.db import transaction

from runs import live
from runs.core.alerts import AlertKind
from runs.core.silences import LONGEST, InvalidSilence
from runs.models import AlertSilence
from runs.selectors import RunNotFound, run_id_named
from runs.selectors.alert_rules import RuleNotFound, rule_of
from runs.selectors.silences import SilenceNotFound, lasting
from runs.services.events import ACTOR_LENGTH, record_event
from runs.wire.alert_rules import NewSilence


@transaction.atomic
def silence(*, wanted: NewSilence, actor: str, now: datetime) -> AlertSilence:
    """Let the alerts of a kind or a rule tell nobody until a moment; they are shown all the same.

    Raises:
        InvalidSilence: If that moment is past or too far, or what is meant does not exist.
    """
    if wanted.until.tzinfo is None:
        raise InvalidSilence("until", "must say its offset: 2026-03-01T12:00:00Z")
    if not now < wanted.until <= now + LONGEST:
        raise InvalidSilence("until", f"must lie ahead, within {LONGEST.days} days")
    if wanted.rule is not None and AlertKind(wanted.kind) is not AlertKind.RULE:
        raise InvalidSilence("rule", "is for silences of the kind `rule`")
    try:
        run_id = None if wanted.run is None else run_id_named(wanted.run)
    except RunNotFound as error:
        raise InvalidSilence("run", str(error)) from error
    try:
        rule = None if wanted.rule is None else rule_of(wanted.rule)
    except RuleNotFound as error:
        raise InvalidSilence("rule", str(error)) from error
    made = AlertSilence.objects.create(
        kind=wanted.kind,
        rule=rule,
        run_id=run_id,
        until=wanted.until,
        reason=wanted.reason,
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
    )
    _audit(made, "made", actor=actor, reason=wanted.reason, now=now)
    return made


@transaction.atomic
def end_silence(*, silence_id: int, actor: str, reason: str = "", now: datetime) -> AlertSilence:
    """Let what was silenced speak again; what holds by then is told.

    Raises:
        SilenceNotFound: If there is none of this id that lasts.
    """
    ended = lasting(now=now).filter(pk=silence_id)
    if not ended.update(ended_at=now, ended_by=actor[:ACTOR_LENGTH]):
        raise SilenceNotFound(f"there is no silence {silence_id} that lasts")
    over = AlertSilence.objects.select_related("rule", "run").get(pk=silence_id)
    _audit(over, "ended", actor=actor, reason=reason, now=now)
    return over


def _audit(row: AlertSilence, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    what = f"the rule {row.rule.name}" if row.rule else row.kind
    where = row.run.name if row.run else "every run"
    record_event(
        run_id=row.run_id,
        kind=f"alert_silence_{verb}",
        message=f"{verb} a silence of {what} in {where} until {row.until:%Y-%m-%d %H:%M} UTC",
        actor=actor,
        reason=reason,
        details={"silence": row.pk, "kind": row.kind, "rule": row.rule_id},
        now=now,
    )
    live.announce(row.run_id or live.NO_RUN, "alerts")
