"""Storage of the metrics that a person chose last."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from rollouts.metrics.models.choices import MetricChoice
from rollouts.metrics.schemas.choices import SetMetricChoice
from runs.events.services import ACTOR_LENGTH


@transaction.atomic
def set_choice(*, body: SetMetricChoice, owner: str, now: datetime) -> None:
    """Replace a person's choice on a page, or delete it. The audit log has no entry of it."""
    place: dict[str, Any] = {"owner": owner[:ACTOR_LENGTH], "page": body.page, "kind": body.kind}
    if body.view is None:
        MetricChoice.objects.filter(**place).delete()
        return
    values = {"view": msgspec.to_builtins(body.view), "changed_at": now}
    MetricChoice.objects.update_or_create(defaults=values, **place)
