"""What the platform remembers about machines of the cluster."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class MachineCordon(models.Model):
    """A machine that shall be empty: no worker and no manager of this deck is placed there.

    It outlives its node: a machine that comes back has another id, see
    :func:`rollouts.control.services.machine_cordons.follow_machines`.
    """

    node = models.CharField(max_length=64, unique=True, help_text="As Ray calls it.")
    host = models.CharField(max_length=200, blank=True)
    siblings = ArrayField(
        models.CharField(max_length=64),
        default=list,
        blank=True,
        help_text="Other nodes of its host when it was cordoned.",
    )
    reason = models.TextField()
    cordoned_at = models.DateTimeField()
    cordoned_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"cordon of {self.host or self.node}"
