"""Change what an environment may be told while its run goes on."""

from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs import live
from runs.models import Environment
from runs.services.changed_fields import in_words, set_fields
from runs.services.events import record_event

CHANGEABLE: Final = frozenset({"weight", "min_batch_allocation", "connected", "muted"})


class EnvironmentNotFound(LookupError):
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
    """Set some of :data:`CHANGEABLE` on an environment; an event keeps what they were before.

    One that is disconnected may still push: what it brings is taken, but no batch waits for it.
    What one that is muted brings is counted as dropped; what waits of it already is still served.

    Raises:
        EnvironmentNotFound: If the run has no environment of this id.
    """
    unknown = sorted(set(changes) - CHANGEABLE)
    if unknown:
        raise ValueError(f"{unknown} cannot be changed")
    found = Environment.objects.select_for_update().filter(run_id=run_id, env_id=env_id).first()
    if found is None:
        raise EnvironmentNotFound(f"this run has no environment {env_id}")
    changed = set_fields(found, changes)
    if not changed:
        return found
    found.save(update_fields=list(changed))
    record_event(
        run_id=run_id,
        kind="environment_changed",
        message=f"{found.wandb_name}: {in_words(changed)}",
        actor=actor,
        reason=reason,
        details={"env_id": env_id, **changed},
        now=now,
    )
    live.announce(run_id, "run", "queue")
    return found
