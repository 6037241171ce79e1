"""Cordons of machines, and samples of their usage."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
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


class MachineSample(models.Model):
    """Usage of a machine in one minute, as reported by one of its workers; kept for a week."""

    node = models.CharField(max_length=64, help_text="As Ray calls it.")
    at = models.DateTimeField(help_text="Beginning of the minute.")
    cpu_cores = models.FloatField(help_text="Mean number of busy cores.")
    cpus = models.PositiveIntegerField()
    memory_bytes = models.PositiveBigIntegerField(help_text="Not available to new processes.")
    memory_total_bytes = models.PositiveBigIntegerField()
    gpus = models.PositiveIntegerField(default=0)
    gpu_percent = models.FloatField(null=True, blank=True, help_text="Mean over its GPUs.")
    gpu_memory_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Used memory of all GPUs."
    )
    gpu_memory_total_bytes = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "at"], name="machine_sample_is_one"),
        ]
        indexes = [BrinIndex(fields=["at"], name="machine_sample_at")]

    def __str__(self) -> str:
        return f"{self.node} at {self.at:%Y-%m-%d %H:%M}"
