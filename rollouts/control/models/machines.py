"""Cordons of machines."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class MachineCordon(models.Model):
    """A cordoned machine: no workers and no managers are placed on it.

    It outlives its node: a machine that rejoins the cluster has a new id, see
    :func:`rollouts.control.services.machine_cordons.follow_machines`.
    """

    node = models.CharField(max_length=64, unique=True, help_text="As Ray calls it.")
    host = models.CharField(max_length=200, blank=True)
    siblings = ArrayField(
        models.CharField(max_length=64),
        default=list,
        blank=True,
        help_text="Other nodes of the host at the time of the cordon.",
    )
    reason = models.TextField()
    cordoned_at = models.DateTimeField()
    cordoned_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"cordon of {self.host or self.node}"
