"""Weight syncs to workers."""

from django.db import models

from rollouts.control.models.fleets import Fleet


class WeightsDelivery(models.Model):
    """Times at which a worker reported that it was notified of, held, and used a version.

    If a worker received a later version first, some times stay empty. Times are those of the
    reports, about one second apart.
    """

    fleet = models.ForeignKey(
        Fleet, on_delete=models.CASCADE, db_index=False, related_name="deliveries"
    )
    epoch = models.PositiveIntegerField()
    step = models.IntegerField()
    worker = models.PositiveIntegerField(help_text="Its index in the fleet.")
    announced_at = models.DateTimeField(null=True, blank=True)
    staged_at = models.DateTimeField(null=True, blank=True)
    active_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "weights deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["fleet", "epoch", "step", "worker"], name="weights_delivery_is_one"
            )
        ]

    def __str__(self) -> str:
        return f"{self.epoch}.{self.step} to worker {self.worker} of fleet {self.fleet_id}"
