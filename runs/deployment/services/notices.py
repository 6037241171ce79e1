"""Set and clear the notice shown to all users."""

from datetime import datetime

from django.db import transaction

from runs.deployment.models.deployment import ServerNotice
from runs.deployment.schemas.deployment import SetNotice
from runs.events.services import record_event
from web.live.announcements import NO_RUN, announce


@transaction.atomic
def set_notice(*, body: SetNotice, actor: str, now: datetime) -> None:
    """Set the notice, replacing the previous one."""
    fields = {"text": body.text, "reason": body.reason, "until": body.until}
    ServerNotice.objects.update_or_create(id=1, defaults={**fields, "set_by": actor, "set_at": now})
    record_event(
        run_id=None,
        kind="notice_set",
        message=f"notice set: {body.text}",
        actor=actor,
        reason=body.reason,
        details={"until": body.until.isoformat()} if body.until else {},
        now=now,
    )
    announce(NO_RUN, "me")


@transaction.atomic
def clear_notice(*, reason: str, actor: str, now: datetime) -> None:
    """Clear the notice, if there is one."""
    if ServerNotice.objects.all().delete()[0]:
        message = "notice cleared"
        record_event(
            run_id=None, kind="notice_cleared", message=message, actor=actor, reason=reason, now=now
        )
        announce(NO_RUN, "me")
