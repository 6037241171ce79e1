"""Change the settings of an environment while its run is active."""

from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs.events.services import record_event
from runs.lifecycle.models import Environment
from runs.lifecycle.services.changed_fields import describe_changes, set_fields
from web.live.announcements import announce
from web.rules.errors import NotFound

CHANGEABLE: Final = frozenset({"weight", "min_batch_allocation", "connected", "muted"})


class EnvironmentNotFound(NotFound):
    """The run has no such environment."""


@transaction.atomic
def change_environment(
    *,
    run_id: int,
    env_id: int,
    changes: dict[str, Any],
    actor: str,
    reason: str = "",
    now: datetime,
) -> Environment:
    """Set some of :data:`CHANGEABLE` on an environment; an event records the previous values.

    A disconnected environment may still push: its data is accepted, but batches do not wait for it.
    Pushes of a muted environment are counted as dropped; its queued data is still served.

    Raises:
        EnvironmentNotFound: If the run has no environment with this id.
    """
    unknown = sorted(set(changes) - CHANGEABLE)
    if unknown:
        raise ValueError(f"{unknown} cannot be changed")
    found = Environment.objects.select_for_update().filter(run_id=run_id, env_id=env_id).first()
    if found is None:
        raise EnvironmentNotFound(f"environment {env_id} not found in this run")
    changed = set_fields(found, changes)
    if not changed:
        return found
    found.save(update_fields=list(changed))
    record_event(
        run_id=run_id,
        kind="environment_changed",
        message=f"{found.wandb_name}: {describe_changes(changed)}",
        actor=actor,
        reason=reason,
        details={"env_id": env_id, **changed},
        now=now,
    )
    announce(run_id, "run", "queue")
    return found
