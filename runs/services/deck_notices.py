"""Tell everybody something, on every page."""

from datetime import datetime

from django.db import transaction

from runs import live
from runs.models import DeckNotice
from runs.services.events import record_event
from runs.wire.deck import NoticeWanted


@transaction.atomic
def set_notice(*, wanted: NoticeWanted, actor: str, now: datetime) -> None:
    """Tell everybody something, in place of what was told before."""
    told = {"text": wanted.text, "reason": wanted.reason, "until": wanted.until}
    DeckNotice.objects.update_or_create(id=1, defaults={**told, "set_by": actor, "set_at": now})
    record_event(
        run_id=None,
        kind="notice_set",
        message=f"everybody is told: {wanted.text}",
        actor=actor,
        reason=wanted.reason,
        details={"until": wanted.until.isoformat()} if wanted.until else {},
        now=now,
    )
    live.announce(live.NO_RUN, "me")


@transaction.atomic
def clear_notice(*, reason: str, actor: str, now: datetime) -> None:
    """Tell everybody nothing more; without a notice nothing happens."""
    if DeckNotice.objects.all().delete()[0]:
        message = "the notice is taken down"
        record_event(
            run_id=None, kind="notice_cleared", message=message, actor=actor, reason=reason, now=now
        )
        live.announce(live.NO_RUN, "me")
