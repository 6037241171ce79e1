"""Record events of runs: actor, action, time and reason."""

from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs.events.models import RunEvent
from web.http import request_ids
from web.live.announcements import NO_RUN, announce

ACTOR_LENGTH: Final = 200


@transaction.atomic
def record_event(
    *,
    run_id: int | None,
    kind: str,
    message: str,
    actor: str,
    level: str = "info",
    reason: str = "",
    details: dict[str, Any] | None = None,
    now: datetime,
) -> RunEvent:
    """Append an event to the history of a run, or of the deployment (None), and announce it."""
    event = RunEvent.objects.create(
        run_id=run_id,
        at=now,
        kind=kind,
        level=level,
        actor=actor[:ACTOR_LENGTH],
        message=message,
        reason=reason,
        details=details or {},
        request_id=request_ids.CURRENT.get(),
    )
    announce(NO_RUN if run_id is None else run_id, "events")
    return event
