"""Read how versions reached workers."""

from typing import Final

from rollouts.models import WeightsDelivery
from rollouts.wire import DeliveryRow

DELIVERIES_AT_MOST: Final = 5000


def deliveries(run_id: int, *, versions: int) -> list[DeliveryRow]:
    """Return how the newest `versions` reached a run's workers, newest first."""
    of_run = WeightsDelivery.objects.filter(fleet__run_id=run_id)
    newest = list(
        of_run.order_by("-epoch", "-step").values_list("epoch", "step").distinct()[:versions]
    )
    if not newest:
        return []
    epoch, step = newest[-1]
    rows = of_run.filter(epoch__gte=epoch).exclude(epoch=epoch, step__lt=step)
    names = DeliveryRow.__struct_fields__
    ordered = rows.order_by("-epoch", "-step", "worker")[:DELIVERIES_AT_MOST]
    return [DeliveryRow(**{name: getattr(row, name) for name in names}) for row in ordered]
